//! The page of the service itself: its health, its queue and outbox, its replicas, and the templates in use. Pure.

use std::collections::BTreeMap;

use askama::Template;
use jiff::Timestamp;

use crate::deployments::checks::ClusterSight;
use crate::deployments::health::HealthCheck;
use crate::model::id::TargetName;
use crate::server::pages::deployment::name_receiver;
use crate::server::pages::document::{Frame, PageError, PageSection};
use crate::server::pages::words::{self, RelativeTime};
use crate::store::{DeadLetter, OutboxBacklog, QueueDepth};

/// The data of the page.
pub(crate) struct SystemStory {
    /// The checks of the service and of the repositories.
    pub(crate) checks: Vec<HealthCheck>,
    /// How this process sees each watched cluster.
    pub(crate) sights: Vec<(TargetName, ClusterSight)>,
    /// The depth of the queues.
    pub(crate) depth: QueueDepth,
    /// The waiting messages of each family of receivers.
    pub(crate) backlog: Vec<OutboxBacklog>,
    /// The newest messages that were given up.
    pub(crate) letters: Vec<DeadLetter>,
    /// The replicas with their last checks of the database.
    pub(crate) replicas: Vec<(String, Timestamp)>,
    /// The clusters with the replicas that follow them.
    pub(crate) holders: Vec<(String, String)>,
    /// The templates in use.
    pub(crate) templates: Vec<String>,
}

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    checks: Vec<CheckRow>,
    depth: QueueDepth,
    oldest: Option<RelativeTime>,
    backlog: Vec<BacklogRow>,
    letters: Vec<LetterRow>,
    replicas: Vec<ReplicaRow>,
    templates: Vec<String>,
}

struct CheckRow {
    name: String,
    state: &'static str,
    look: &'static str,
    note: String,
}

struct BacklogRow {
    family: String,
    waiting: u64,
    parked: u64,
    oldest: Option<RelativeTime>,
}

struct LetterRow {
    at: RelativeTime,
    receiver: String,
    deployment: String,
    state: &'static str,
    reason: String,
}

/// A replica with what it does.
#[derive(Debug, Default)]
struct ReplicaRow {
    name: String,
    seen: Option<RelativeTime>,
    clusters: String,
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(story: SystemStory) -> Result<String, PageError> {
    let SystemStory { checks, sights, depth, backlog, letters, replicas, holders, templates } =
        story;
    let clusters = sights.into_iter().map(|(cluster, sight)| {
        let holder = holders.iter().find(|(held, _)| *held == cluster.as_str());
        cluster_row(&cluster, sight, holder.map(|(_, holder)| holder.as_str()))
    });
    let checks: Vec<CheckRow> = checks.into_iter().map(check).chain(clusters).collect();
    let looks = ["bad", "going"];
    let look = looks.into_iter().find(|look| checks.iter().any(|check| check.look == *look));
    let page = SystemPage {
        frame: Frame {
            title: "system".to_owned(),
            section: PageSection::System,
            look: look.unwrap_or("good"),
            ..Frame::default()
        },
        checks,
        oldest: depth.oldest.map(words::moment),
        depth,
        backlog: backlog.into_iter().map(backlog_row).collect(),
        letters: letters.into_iter().map(letter).collect(),
        replicas: replica_rows(replicas, holders),
        templates,
    };
    Ok(page.render()?)
}

fn check(check: HealthCheck) -> CheckRow {
    let HealthCheck { name, waiting_for, note } = check;
    let is_noted = note.is_some() && name != "templates";
    let (state, look) = match &waiting_for {
        Some(_) => ("not ready", "bad"),
        None if is_noted => ("limited", "going"),
        None => ("ready", "good"),
    };
    let texts: Vec<String> = waiting_for.into_iter().chain(note).collect();
    CheckRow { name, state, look, note: texts.join("; ") }
}

/// Makes the row of a watched cluster. Of one that another replica follows, that one's page says more.
fn cluster_row(cluster: &TargetName, sight: ClusterSight, holder: Option<&str>) -> CheckRow {
    let (state, look, note) = match (sight, holder) {
        (ClusterSight::Whole, _) => ("seen", "good", String::new()),
        (ClusterSight::Unseen(sentence), _) => ("limited", "going", sentence),
        (ClusterSight::NotYet, Some(holder)) => {
            ("followed", "plain", format!("by {holder}; this process does not see it now"))
        }
        (ClusterSight::NotYet, None) => {
            ("not followed", "going", "no replica follows it yet".to_owned())
        }
    };
    CheckRow { name: format!("cluster {cluster}"), state, look, note }
}

fn backlog_row(backlog: OutboxBacklog) -> BacklogRow {
    let OutboxBacklog { family, waiting, oldest, parked } = backlog;
    BacklogRow { family: family.to_string(), waiting, parked, oldest: oldest.map(words::moment) }
}

fn letter(letter: DeadLetter) -> LetterRow {
    let DeadLetter { deployment, sink, state, at, reason } = letter;
    LetterRow {
        at: words::moment(at),
        receiver: name_receiver(&sink),
        deployment: deployment.to_string(),
        state: state.as_str(),
        reason,
    }
}

/// Joins the replicas that have checked the database, and those that follow a cluster.
fn replica_rows(
    replicas: Vec<(String, Timestamp)>,
    holders: Vec<(String, String)>,
) -> Vec<ReplicaRow> {
    let mut rows: BTreeMap<String, (Option<Timestamp>, Vec<String>)> = BTreeMap::new();
    for (name, at) in replicas {
        rows.entry(name).or_default().0 = Some(at);
    }
    for (cluster, holder) in holders {
        rows.entry(holder).or_default().1.push(cluster);
    }
    let row = |(name, (seen, clusters)): (String, (Option<Timestamp>, Vec<String>))| ReplicaRow {
        // With SQLite there is one, and its row is that of the file.
        name: if name == "file" { "this one".to_owned() } else { name },
        seen: seen.map(words::moment),
        clusters: clusters.join(", "),
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watched_cluster_has_a_row_that_says_how_it_is_seen() {
        let row = |sight, holder| {
            let CheckRow { name, state, look, note } =
                cluster_row(&"eu-1".parse().unwrap(), sight, holder);
            assert_eq!(name, "cluster eu-1");
            (state, look, note)
        };
        assert_eq!(row(ClusterSight::Whole, Some("a")), ("seen", "good", String::new()));
        let sentence = "it is not seen whole since the start".to_owned();
        let unseen = ClusterSight::Unseen(sentence.clone());
        assert_eq!(row(unseen, Some("a")), ("limited", "going", sentence));
        let (state, look, note) = row(ClusterSight::NotYet, Some("b"));
        assert_eq!((state, look), ("followed", "plain"), "it is well or not elsewhere");
        assert_eq!(note, "by b; this process does not see it now");
        assert_eq!(row(ClusterSight::NotYet, None).1, "going");
    }

    #[test]
    fn a_replica_is_one_row_with_all_that_it_does() {
        let at = "2026-11-21T05:48:12Z".parse().unwrap();
        let text = |text: &str| text.to_owned();
        let holders = vec![(text("prod"), text("b")), (text("dev"), text("b"))];
        let rows = replica_rows(vec![(text("a"), at), (text("file"), at)], holders);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.seen.is_some(), row.clusters.as_str()))
            .collect();
        assert_eq!(rows, [("a", true, ""), ("b", false, "prod, dev"), ("this one", true, "")]);
    }
}
