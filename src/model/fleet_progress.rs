//! A deployment over all clusters of a fleet: one state, one sentence, and what it waits for. Pure.

use crate::model::deployment::{Deployment, State};
use crate::model::waiting::WaitingOn;

/// The progress of a deployment to a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetProgress {
    /// `Syncing` or `Progressing`, or its end. It has one once every cluster has.
    pub state: State,
    /// One line for people: `1 of 3 clusters done; prod-2: 2 of 5 updated`.
    pub summary: String,
    /// The condition that the first unfinished cluster waits for; `None` for an end.
    pub waiting: Option<WaitingOn>,
}

/// Sums up the parts of a deployment to a fleet, in the order of the clusters. A cluster that fails, or that cannot be seen,
/// stops no other; it is named first.
pub fn sum_up(parts: &[Deployment]) -> FleetProgress {
    let of_state = |state: State| parts.iter().filter(move |part| part.state == state);
    let (done, failed) = (of_state(State::Succeeded).count(), of_state(State::Failed).next());
    let superseded = of_state(State::Superseded).next();
    let count = parts.len();
    let clusters = if count == 1 { "cluster" } else { "clusters" };
    let open: Vec<&Deployment> = parts.iter().filter(|part| !part.state.is_final()).collect();
    if open.is_empty() {
        let (state, summary) = match (failed, superseded) {
            (Some(part), _) => (State::Failed, format!("failed on {}", describe(part))),
            (None, Some(part)) => (State::Superseded, format!("superseded on {}", describe(part))),
            (None, None) => (State::Succeeded, format!("done on {count} of {count} {clusters}")),
        };
        let summary = match state {
            State::Succeeded => summary,
            _ => format!("{summary}; done on {done} of {count} {clusters}"),
        };
        return FleetProgress { state, summary, waiting: None };
    }
    let is_begun =
        done > 0 || failed.is_some() || open.iter().any(|part| part.state != State::Syncing);
    let state = if is_begun { State::Progressing } else { State::Syncing };
    let failure = failed.map(|part| format!("failed on {}", describe(part)));
    let progress = open.iter().map(|part| describe(part));
    let sentences = [format!("{done} of {count} {clusters} done")].into_iter();
    let sentences: Vec<String> = sentences.chain(failure).chain(progress).collect();
    FleetProgress { state, summary: sentences.join("; "), waiting: wait_for(&open) }
}

fn describe(part: &Deployment) -> String {
    format!("{}: {}", part.request.target, part.summary)
}

/// Says what the unfinished clusters wait for: the first of them in its own words.
fn wait_for(open: &[&Deployment]) -> Option<WaitingOn> {
    let waiting: Vec<(&Deployment, &WaitingOn)> =
        open.iter().filter_map(|part| Some((*part, part.waiting.as_ref()?))).collect();
    let (first, wait) = waiting.first()?;
    let others = match open.len() - 1 {
        0 => String::new(),
        1 => ", and 1 other cluster".to_owned(),
        count => format!(", and {count} other clusters"),
    };
    let ends: Option<Vec<_>> = waiting.iter().map(|(_, wait)| wait.gives_up_at).collect();
    let is_whole = waiting.len() == open.len();
    Some(WaitingOn {
        what: format!("{} on {}{others}", wait.what, first.request.target),
        since: waiting.iter().map(|(_, wait)| wait.since).min().unwrap_or(wait.since),
        last_event: waiting
            .iter()
            .filter_map(|(_, wait)| wait.last_event.as_ref())
            .max_by_key(|event| event.at)
            .cloned(),
        gives_up_at: ends.filter(|_| is_whole).and_then(|ends| ends.into_iter().max()),
    })
}
