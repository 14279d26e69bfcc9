//! The destination of a message for a team: its channel, and the default channel as the fallback. Pure.

use crate::notify::message::{NewsKind, Undeliverable};
use crate::notify::slack::address::{Channel, SlackAddress};
use crate::notify::threading::MessageRef;

/// A receiver that a message may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The destination.
    pub address: SlackAddress,
    /// The message that it is a reply to there.
    pub thread: Option<String>,
    /// The reason why the wanted channel cannot be used.
    pub undeliverable: Option<Undeliverable>,
}

const NO_CHANNEL: &str = "that is no channel: write `slack` in the WAML like \"#squad-devx\"";

/// Lists the destinations to try, in order; none where no channel is named.
///
/// A recovery goes to the destination of the failure. Other messages go to the wanted channel, into the thread of the
/// messages before if that is there.
pub fn places(
    channel_text: Option<&str>,
    default: Option<&Channel>,
    kind: NewsKind,
    thread: Option<&MessageRef>,
) -> Vec<Destination> {
    let reply = |channel: &Channel| {
        let same_channel = thread.filter(|thread| thread.addressed == channel.as_str());
        same_channel.map(|thread| thread.thread().to_owned())
    };
    let place = |channel: Channel, undeliverable| Destination {
        thread: reply(&channel),
        address: SlackAddress::Channel(channel),
        undeliverable,
    };
    let parsed = channel_text.map(|text| (text, Channel::parse(text)));
    let mut places = Vec::new();
    if let (NewsKind::Recovered { .. }, Some(reference)) = (kind, thread) {
        places.extend(Channel::parse(&reference.channel).map(|channel| Destination {
            address: SlackAddress::Channel(channel),
            thread: Some(reference.thread().to_owned()),
            undeliverable: None,
        }));
    }
    let mut undeliverable = None;
    match parsed {
        Some((_, Some(channel))) => places.push(place(channel, None)),
        Some((text, None)) => {
            undeliverable =
                Some(Undeliverable { channel: text.to_owned(), problem: NO_CHANNEL.to_owned() });
        }
        None => {}
    }
    places.extend(default.map(|channel| place(channel.clone(), undeliverable)));
    let mut addresses = Vec::new();
    places.retain(|place| {
        let is_new = !addresses.contains(&place.address);
        addresses.push(place.address.clone());
        is_new
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_message_ref(addressed: &str) -> MessageRef {
        MessageRef {
            addressed: addressed.to_owned(),
            channel: "C0123456789".to_owned(),
            ts: "2.0".to_owned(),
            root: Some("1.0".to_owned()),
            undeliverable: None,
        }
    }

    fn list_places(
        channel_text: Option<&str>,
        kind: NewsKind,
        thread: Option<&MessageRef>,
    ) -> Vec<String> {
        let default = Channel::parse("#deploys").unwrap();
        let describe = |place: Destination| {
            let thread = place.thread.map_or_else(String::new, |ts| format!(" in {ts}"));
            let undeliverable = place.undeliverable.map_or_else(String::new, |undeliverable| {
                format!(" for {}", undeliverable.channel)
            });
            format!("{}{thread}{undeliverable}", place.address.display_name())
        };
        places(channel_text, Some(&default), kind, thread).into_iter().map(describe).collect()
    }

    #[test]
    fn the_teams_channel_comes_before_the_default() {
        assert_eq!(list_places(Some("#squad"), NewsKind::Rejected, None), ["#squad", "#deploys"]);
        assert_eq!(list_places(None, NewsKind::Rejected, None), ["#deploys"]);
        assert_eq!(list_places(Some("deploys"), NewsKind::Rejected, None), ["#deploys"]);
        assert_eq!(places(None, None, NewsKind::Rejected, None), []);
    }

    #[test]
    fn what_is_no_channel_is_said_in_the_default_one() {
        assert_eq!(
            list_places(Some("@octocat"), NewsKind::Rejected, None),
            ["#deploys for @octocat"]
        );
        assert_eq!(places(Some("@octocat"), None, NewsKind::Rejected, None), []);
    }

    #[test]
    fn a_failure_follows_the_one_before_it_where_that_was_told() {
        let squad = make_message_ref("squad");
        assert_eq!(
            list_places(Some("#squad"), NewsKind::Rejected, Some(&squad)),
            ["#squad in 1.0", "#deploys"]
        );
        assert_eq!(
            list_places(Some("#other"), NewsKind::Rejected, Some(&squad)),
            ["#other", "#deploys"]
        );
        let deploys = make_message_ref("deploys");
        assert_eq!(
            list_places(Some("#squad"), NewsKind::Rejected, Some(&deploys)),
            ["#squad", "#deploys in 1.0"]
        );
    }

    #[test]
    fn a_recovery_goes_where_the_failure_was_told_whatever_is_asked_for_now() {
        let recovered = NewsKind::Recovered { failures: 1 };
        let places = ["C0123456789 in 1.0", "#other", "#deploys"];
        assert_eq!(
            list_places(Some("#other"), recovered, Some(&make_message_ref("squad"))),
            places
        );
        assert_eq!(list_places(Some("#other"), recovered, None), ["#other", "#deploys"]);
    }
}
