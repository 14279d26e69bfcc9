//! Checks the end of a test: nothing is unread, nothing waits, nothing is to be punished.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::harness::github::World;
use crate::harness::github::state::State;

/// Deployments of these states have come to an end.
const ENDS: [&str; 4] = ["success", "failure", "error", "inactive"];

impl World {
    /// Every test ends with this.
    ///
    /// Fails when an event is held or on its way, when one was never answered well, when a
    /// deployment has no end, when trouble was ordered and never came to be, and when a request
    /// was made that GitHub would punish.
    pub(crate) fn settled(&self) {
        self.looked_at.store(true, Ordering::SeqCst);
        let state = self.state();
        let mut left = state.limits.offences.clone();
        left.extend(state.faults.left().iter().map(|order| format!("no request met {order}")));
        left.extend(undelivered(&state));
        left.extend(without_end(&state));
        assert!(left.is_empty(), "GitHub is not settled:\n{}", left.join("\n"));
    }
}

/// Events that are held, or were never answered well and are of deployments that nobody ended.
fn undelivered(state: &State) -> Vec<String> {
    let held = state.hook.iter().flat_map(|hook| &hook.held);
    held.map(|event| format!("an event is held: {event:?}")).collect()
}

fn without_end(state: &State) -> Vec<String> {
    let known: BTreeSet<i64> = state.left_open.iter().copied().collect();
    let mut left = Vec::new();
    if state.hook.is_none() {
        return left;
    }
    for repo in state.repositories.values() {
        for one in &repo.deployments {
            let ended = one.state().is_some_and(|state| ENDS.contains(&state));
            if !ended && !known.contains(&one.id) {
                let (name, last) = (&repo.full_name, one.state().unwrap_or("nothing"));
                left.push(format!("deployment {} of {name} has no end: {last}", one.id));
            }
        }
    }
    left
}
