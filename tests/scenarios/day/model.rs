//! What should be, in the simplest words that say it. Knows nothing of how it is done.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use the_deployer::model::id::AppKey;
use the_deployer::model::lock::{Lock, LockId, LockScope};

use crate::scenarios::day::{TARGETS, owner};

/// How many revisions an app keeps on a target.
const KEPT: usize = 5;

/// One app on one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) app: usize,
    pub(super) target: usize,
}

impl Lane {
    pub(super) fn app(self) -> AppKey {
        let slug = format!("app-{}", self.app).parse().unwrap();
        AppKey { namespace: "devx".parse().unwrap(), slug }
    }

    pub(super) fn folder(self) -> String {
        format!("manifests/{}/devx/app-{}", TARGETS[self.target], self.app)
    }
}

/// How a deployment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a commit, or without one where nothing is different.
    Succeeded { commit: bool },
    /// A lock was in its way.
    Locked,
    /// A newer one of its lane came before it was begun.
    Superseded,
}

/// What a lane has.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// GitHub's numbers of the deployments that made a revision, oldest first.
    pub(super) written: Vec<i64>,
    /// Those of them that are kept.
    pub(super) kept: Vec<i64>,
    /// Which of them is live, and its tag.
    pub(super) live: Option<(i64, String)>,
    /// The newest success, which GitHub shows as such.
    pub(super) shown: Option<i64>,
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) lanes: BTreeMap<Lane, Line>,
    pub(super) locks: Vec<(LockId, Lock)>,
    pub(super) ends: BTreeMap<i64, (Lane, End)>,
}

impl Model {
    pub(super) fn live_tag(&self, lane: Lane) -> Option<String> {
        self.lanes.get(&lane)?.live.as_ref().map(|(_, tag)| tag.clone())
    }

    /// Deployments that came one after the other before anybody worked on one.
    pub(super) fn asked(&mut self, batch: &[(Lane, i64, String)], now: Timestamp) {
        let mut taken = BTreeSet::new();
        for (lane, number, tag) in batch.iter().rev() {
            let end = if !taken.insert(*lane) {
                End::Superseded
            } else if self.is_locked(*lane, now) {
                End::Locked
            } else {
                self.deployed(*lane, *number, tag)
            };
            self.ends.insert(*number, (*lane, end));
        }
    }

    fn deployed(&mut self, lane: Lane, number: i64, tag: &str) -> End {
        let line = self.lanes.entry(lane).or_default();
        line.shown = Some(number);
        if line.live.as_ref().is_some_and(|(_, live)| live == tag) {
            return End::Succeeded { commit: false };
        }
        line.written.push(number);
        line.kept.push(number);
        let too_many = line.kept.len().saturating_sub(KEPT);
        line.kept.drain(..too_many);
        line.live = Some((number, tag.to_owned()));
        End::Succeeded { commit: true }
    }

    pub(super) fn end_locks(&mut self, now: Timestamp) {
        self.locks.retain(|(_, lock)| lock.until.is_none_or(|until| until > now));
    }

    fn is_locked(&self, lane: Lane, now: Timestamp) -> bool {
        let stops = |lock: &Lock| match &lock.scope {
            LockScope::Everything => true,
            LockScope::Target(target) => target.as_str() == TARGETS[lane.target],
            LockScope::Owner(team) => *team == owner(lane.app),
            LockScope::App(target, app) => {
                target.as_str() == TARGETS[lane.target] && *app == lane.app()
            }
        };
        let placed = self.locks.iter().map(|(_, lock)| lock);
        placed.filter(|lock| lock.until.is_none_or(|until| until > now)).any(stops)
    }

    /// How the deployments ended, for who reads the test.
    pub(super) fn summary(&self) -> String {
        let count =
            |wanted: fn(&End) -> bool| self.ends.values().filter(|(_, end)| wanted(end)).count();
        format!(
            "{} pushed, {} unchanged, {} locked, {} superseded; {} lanes",
            count(|end| *end == End::Succeeded { commit: true }),
            count(|end| *end == End::Succeeded { commit: false }),
            count(|end| *end == End::Locked),
            count(|end| *end == End::Superseded),
            self.lanes.len()
        )
    }
}
