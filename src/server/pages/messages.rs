//! Who was told what, in the order in which it came to be so.

use crate::model::notice::Sink;
use crate::server::pages::words;
use crate::server::pages::words::Moment;
use crate::store::Told;

/// One message's line.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) at: Moment,
    pub(super) whom: String,
    pub(super) what: String,
    pub(super) state: &'static str,
    /// What became of it, in words.
    pub(super) outcome: String,
    /// How that looks: a class of the style sheet.
    pub(super) look: &'static str,
}

/// A line for each message.
pub(super) fn lines(told: &[Told]) -> Vec<Line> {
    let mut sorted: Vec<_> = told.iter().collect();
    sorted.sort_by_key(|one| (one.at, order(&one.sink), one.seq));
    sorted.into_iter().map(line).collect()
}

/// Whether somebody is still to be told.
pub(super) fn waiting(told: &[Told]) -> bool {
    told.iter().any(|one| one.sent_at.is_none() && one.parked.is_none() && one.skipped.is_none())
}

fn line(told: &Told) -> Line {
    let (look, outcome) = match (&told.sent_at, &told.parked, &told.skipped) {
        (Some(at), _, _) => ("good", format!("sent at {}", at.strftime("%H:%M:%S"))),
        (_, Some(reason), _) => ("bad", format!("given up: {reason}")),
        (_, _, Some(reason)) => ("gone", format!("left out: {reason}")),
        (None, None, None) => ("going", "waits to be sent".to_owned()),
    };
    Line {
        at: words::moment(told.at),
        whom: whom(&told.sink),
        what: told.status.description().to_owned(),
        state: told.status.state.as_str(),
        outcome,
        look,
    }
}

pub(super) fn whom(sink: &Sink) -> String {
    match sink {
        Sink::Forge => "deployment status".to_owned(),
        Sink::Commit => "commit status".to_owned(),
        Sink::Check => "check run".to_owned(),
        Sink::Channel => "Slack: the channel".to_owned(),
        Sink::Person => "Slack: the person".to_owned(),
        Sink::Events(name) => format!("webhook {name}"),
        Sink::ArgoCd(cluster) => format!("Argo CD of {cluster}"),
    }
}

/// The forge first, as it is told first.
fn order(sink: &Sink) -> u8 {
    match sink {
        Sink::Forge => 0,
        Sink::Commit => 1,
        Sink::Check => 2,
        Sink::Channel => 3,
        Sink::Person => 4,
        Sink::Events(_) => 5,
        Sink::ArgoCd(_) => 6,
    }
}
