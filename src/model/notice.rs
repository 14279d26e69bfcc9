//! The receivers of a change in a deployment's life. One change goes to several sinks; each has its own order and its
//! own failures.

use std::fmt;

use crate::model::deployment::ForgeState;
use crate::model::id::TargetName;

/// The receiver of a message about a change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sink {
    /// The deployment's statuses at the forge.
    Forge,
    /// The commit status `deploy/<target>` beside them.
    Commit,
    /// The check run that shows violations at their lines.
    Check,
    /// The team's channel.
    Channel,
    /// The person who started the deployment.
    Person,
    /// The webhook for events of that configured name.
    Events(String),
    /// The Argo CD of that cluster: that a commit was pushed. Such a message's sentence is the
    /// commit ([`crate::model::status::ForgeStatus::of_commit`]).
    ArgoCd(TargetName),
    /// The table with a row for each deployment that has ended.
    BigQuery,
}

/// Sinks behind the same door: they share its limits, and wait together while it is closed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SinkFamily {
    /// The forge.
    Forge,
    /// Slack.
    Slack,
    /// One webhook for events.
    Events(String),
    /// The Argo CD of one cluster.
    ArgoCd(TargetName),
    /// The table in BigQuery.
    BigQuery,
}

/// The receivers of this installation, beside the code host, which always is one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each receiver is configured by itself")]
pub struct Subscriptions {
    /// Commit statuses are written.
    pub commits: bool,
    /// Check runs are written.
    pub checks: bool,
    /// True if Slack gets messages: the channel, and the person.
    pub slack: bool,
    /// The names of the webhooks for events.
    pub events: Vec<String>,
    /// The clusters whose Argo CD gets a message about a push for them.
    pub argocd: Vec<TargetName>,
    /// True if BigQuery gets a row for each end.
    pub bigquery: bool,
}

impl Sink {
    /// Returns the family whose limits it shares.
    pub fn family(&self) -> SinkFamily {
        match self {
            Self::Forge | Self::Commit | Self::Check => SinkFamily::Forge,
            Self::Channel | Self::Person => SinkFamily::Slack,
            Self::Events(name) => SinkFamily::Events(name.clone()),
            Self::ArgoCd(cluster) => SinkFamily::ArgoCd(cluster.clone()),
            Self::BigQuery => SinkFamily::BigQuery,
        }
    }

    /// Parses the sink of the word that is stored.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "forge" => Some(Self::Forge),
            "commit" => Some(Self::Commit),
            "check" => Some(Self::Check),
            "channel" => Some(Self::Channel),
            "person" => Some(Self::Person),
            "bigquery" => Some(Self::BigQuery),
            other => parse_named_word(other, Self::Events, Self::ArgoCd),
        }
    }
}

impl SinkFamily {
    /// Parses the family of the word that is stored.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "forge" => Some(Self::Forge),
            "slack" => Some(Self::Slack),
            "bigquery" => Some(Self::BigQuery),
            other => parse_named_word(other, Self::Events, Self::ArgoCd),
        }
    }

    /// Checks that its messages go one after the other, oldest first: pushes were made in an order.
    pub fn in_order(&self) -> bool {
        match self {
            Self::Forge | Self::Slack | Self::Events(_) | Self::BigQuery => false,
            Self::ArgoCd(_) => true,
        }
    }
}

/// Parses the words with a name in them.
fn parse_named_word<T>(
    word: &str,
    events: impl Fn(String) -> T,
    argocd: impl Fn(TargetName) -> T,
) -> Option<T> {
    match word.split_once('/')? {
        ("events", name) => Some(events(name.to_owned())),
        ("argocd", name) => TargetName::parse(name).ok().map(argocd),
        _ => None,
    }
}

/// The word that is stored, logged and shown.
impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forge => f.write_str("forge"),
            Self::Commit => f.write_str("commit"),
            Self::Check => f.write_str("check"),
            Self::Channel => f.write_str("channel"),
            Self::Person => f.write_str("person"),
            Self::Events(name) => write!(f, "events/{name}"),
            Self::ArgoCd(cluster) => write!(f, "argocd/{cluster}"),
            Self::BigQuery => f.write_str("bigquery"),
        }
    }
}

/// The word that is stored, logged and shown.
impl fmt::Display for SinkFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forge => f.write_str("forge"),
            Self::Slack => f.write_str("slack"),
            Self::Events(name) => write!(f, "events/{name}"),
            Self::ArgoCd(cluster) => write!(f, "argocd/{cluster}"),
            Self::BigQuery => f.write_str("bigquery"),
        }
    }
}

impl Subscriptions {
    /// Lists every family that messages may wait for.
    pub fn families(&self) -> Vec<SinkFamily> {
        let slack = self.slack.then_some(SinkFamily::Slack);
        let events = self.events.iter().cloned().map(SinkFamily::Events);
        let argocd = self.argocd.iter().cloned().map(SinkFamily::ArgoCd);
        let bigquery = self.bigquery.then_some(SinkFamily::BigQuery);
        let others = slack.into_iter().chain(events).chain(argocd).chain(bigquery);
        std::iter::once(SinkFamily::Forge).chain(others).collect()
    }

    /// Lists the receivers of a message about a deployment in that state. The content is decided when the message is
    /// sent.
    pub fn sinks_for(&self, state: ForgeState) -> Vec<Sink> {
        let is_final =
            matches!(state, ForgeState::Success | ForgeState::Failure | ForgeState::Error);
        let begun_or_ended = state != ForgeState::InProgress;
        let mut sinks = vec![Sink::Forge];
        sinks.extend((self.commits && begun_or_ended).then_some(Sink::Commit));
        sinks.extend((self.checks && is_final).then_some(Sink::Check));
        sinks.extend((self.slack && is_final).then_some(Sink::Channel));
        sinks.extend((self.slack && is_final).then_some(Sink::Person));
        sinks.extend(self.events.iter().cloned().map(Sink::Events));
        let has_ended = is_final || state == ForgeState::Inactive;
        sinks.extend((self.bigquery && has_ended).then_some(Sink::BigQuery));
        sinks
    }

    /// Lists the receivers of a message about a pushed deployment that goes on in its cluster: those who can show
    /// what it waits for.
    pub fn progress_sinks(&self) -> Vec<Sink> {
        let commit = self.commits.then_some(Sink::Commit);
        let events = self.events.iter().cloned().map(Sink::Events);
        std::iter::once(Sink::Forge).chain(commit).chain(events).collect()
    }

    /// Returns the receiver of a message about a canary that goes on, if there is one. The content is decided when the
    /// message is sent.
    pub fn canary_sink(&self) -> Option<Sink> {
        self.slack.then_some(Sink::Channel)
    }

    /// Returns the receiver of a message about a commit that was pushed for that target, if there is one.
    pub fn of_push(&self, target: &TargetName) -> Option<Sink> {
        self.argocd.contains(target).then(|| Sink::ArgoCd(target.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_read_as_it_was_written() {
        let events = Sink::Events("ware/house".to_owned());
        let argocd = Sink::ArgoCd(TargetName::parse("prod-1").unwrap());
        let people = [Sink::Forge, Sink::Commit, Sink::Check, Sink::Channel, Sink::Person];
        for sink in people.into_iter().chain([events, argocd, Sink::BigQuery]) {
            assert_eq!(SinkFamily::parse(&sink.family().to_string()), Some(sink.family()));
            assert_eq!(Sink::parse(&sink.to_string()), Some(sink));
        }
        for word in ["pigeon", "argocd", "argocd/No Name", "pigeon/x"] {
            assert_eq!((Sink::parse(word), SinkFamily::parse(word)), (None, None), "{word}");
        }
    }

    #[test]
    fn nobody_but_the_forge_is_told_where_nothing_is_configured() {
        assert_eq!(Subscriptions::default().sinks_for(ForgeState::Failure), [Sink::Forge]);
        assert_eq!(Subscriptions::default().progress_sinks(), [Sink::Forge]);
        assert_eq!(Subscriptions::default().families(), [SinkFamily::Forge]);
    }

    #[test]
    fn people_hear_of_ends_only() {
        let argocd = vec![TargetName::parse("prod-1").unwrap()];
        let events = vec!["w".to_owned()];
        let every_subscription = Subscriptions {
            commits: true,
            checks: true,
            slack: true,
            events,
            argocd,
            bigquery: true,
        };
        let events = || Sink::Events("w".to_owned());
        assert_eq!(
            every_subscription.sinks_for(ForgeState::Queued),
            [Sink::Forge, Sink::Commit, events()]
        );
        assert_eq!(every_subscription.sinks_for(ForgeState::InProgress), [Sink::Forge, events()]);
        assert_eq!(
            every_subscription.progress_sinks(),
            [Sink::Forge, Sink::Commit, events()],
            "a commit is pending for what it waits for"
        );
        assert_eq!(
            every_subscription.sinks_for(ForgeState::Inactive),
            [Sink::Forge, Sink::Commit, events(), Sink::BigQuery]
        );
        let people = [Sink::Forge, Sink::Commit, Sink::Check, Sink::Channel, Sink::Person];
        let programs = [events(), Sink::BigQuery];
        let final_sinks: Vec<Sink> = people.into_iter().chain(programs).collect();
        assert_eq!(every_subscription.sinks_for(ForgeState::Error), final_sinks);
        assert_eq!(every_subscription.families().len(), 5);
    }

    #[test]
    fn a_push_is_told_to_its_own_cluster() {
        let [first_target, second_target] =
            ["prod-1", "prod-2"].map(|name| TargetName::parse(name).unwrap());
        let audience =
            Subscriptions { argocd: vec![first_target.clone()], ..Subscriptions::default() };
        assert_eq!(audience.of_push(&first_target), Some(Sink::ArgoCd(first_target)));
        assert_eq!(audience.of_push(&second_target), None);
    }
}
