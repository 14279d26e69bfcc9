//! The expected state, in the simplest words that say it. Knows nothing of the code.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use the_deployer::model::id::{AppKey, LockId};
use the_deployer::model::lock::{Lock, LockScope};

use crate::scenarios::day::{APPS, TARGETS, owner};

/// How many revisions an app keeps on a target.
const KEPT: usize = 5;

/// A deployment that somebody asks for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) lane: Lane,
    /// GitHub's number.
    pub(super) number: i64,
    pub(super) tag: String,
    /// By a program.
    pub(super) automatic: bool,
}

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
    /// A lock was in its way, or a hold, or both.
    Refused { lock: bool, hold: bool },
    /// A former revision is live again.
    RolledBack,
    /// A newer one of its lane came before it was begun.
    Superseded,
}

/// What a lane has.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// GitHub's numbers of what made a commit, oldest first.
    pub(super) written: Vec<i64>,
    /// The revisions that are kept, oldest first: the deployment that made each, and its tag.
    pub(super) kept: Vec<(i64, String)>,
    /// Which of them is live, and its tag.
    pub(super) live: Option<(i64, String)>,
    /// The newest success, which GitHub shows as such.
    pub(super) shown: Option<i64>,
    /// Whether automation is held off.
    pub(super) held: bool,
    /// The revisions in the order in which they became live.
    turns: Vec<i64>,
    /// Those that were rolled back from, and not made live again since.
    withdrawn: BTreeSet<i64>,
}

impl Line {
    /// The older revision that was live last before the live one, and was not rolled back from; no two have
    /// the same files, because no two have the same tag.
    pub(super) fn before_live(&self) -> Option<(i64, String)> {
        let (live, _) = self.live.as_ref()?;
        let may = |number: &i64| number < live && !self.withdrawn.contains(number);
        let kept = |number: &i64| self.kept.iter().find(|(one, _)| one == number).cloned();
        self.turns.iter().rev().filter(|number| may(number)).find_map(kept)
    }

    /// The kept revisions that are not live.
    pub(super) fn others(&self) -> Vec<(i64, String)> {
        let live = self.live.as_ref().map(|(number, _)| *number);
        self.kept.iter().filter(|(number, _)| Some(*number) != live).cloned().collect()
    }
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
    pub(super) fn asked(&mut self, batch: &[Asked], now: Timestamp) {
        let mut taken = BTreeSet::new();
        for one in batch.iter().rev() {
            let lock = self.is_locked(one.lane, now);
            let hold = one.automatic && self.lanes.get(&one.lane).is_some_and(|line| line.held);
            let end = if !taken.insert(one.lane) {
                End::Superseded
            } else if lock || hold {
                End::Refused { lock, hold }
            } else {
                self.deployed(one)
            };
            self.ends.insert(one.number, (one.lane, end));
        }
    }

    fn deployed(&mut self, asked: &Asked) -> End {
        let Asked { lane, number, tag, automatic: _ } = asked;
        let line = self.lanes.entry(*lane).or_default();
        line.shown = Some(*number);
        line.held = false;
        if line.live.as_ref().is_some_and(|(_, live)| live == tag) {
            return End::Succeeded { commit: false };
        }
        line.written.push(*number);
        line.kept.push((*number, tag.clone()));
        let too_many = line.kept.len().saturating_sub(KEPT);
        line.kept.drain(..too_many);
        line.live = Some((*number, tag.clone()));
        line.turns.push(*number);
        End::Succeeded { commit: true }
    }

    /// The lanes that could be rolled back now: nothing is in the way, and there is something before
    /// what is live.
    pub(super) fn can_be_rolled_back(&self, now: Timestamp) -> Vec<Lane> {
        let can = |(lane, line): &(&Lane, &Line)| {
            !self.is_locked(**lane, now) && line.before_live().is_some()
        };
        self.lanes.iter().filter(can).map(|(lane, _)| *lane).collect()
    }

    /// The revision is live again, by a deployment of that number.
    pub(super) fn rolled_back(&mut self, lane: Lane, to: (i64, String), number: i64) {
        let was = self.lanes.get_mut(&lane).unwrap();
        was.written.push(number);
        was.withdrawn.remove(&to.0);
        was.turns.push(to.0);
        let from = was.live.as_ref().map(|(from, _)| *from);
        was.withdrawn.extend(from.filter(|from| to.0 < *from));
        was.live = Some(to);
        was.shown = Some(number);
        was.held = true;
        self.ends.insert(number, (lane, End::RolledBack));
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

    /// What has not come often enough yet, if anything: a day on which it does not would prove nothing of it.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        let [pushed, unchanged, _, locked, _, superseded] = self.counts();
        let least = [
            ("pushed", pushed, 150),
            ("unchanged", unchanged, 3),
            ("superseded", superseded, 1),
            ("locked", locked, 3),
            ("lanes on both targets", self.lanes.len(), APPS + 1),
        ];
        least.into_iter().find(|(_, count, least)| count < least).map(|(what, _, _)| what)
    }

    /// How the deployments ended, for who reads the test.
    pub(super) fn summary(&self) -> String {
        let [pushed, unchanged, back, locked, held, superseded] = self.counts();
        format!(
            "{pushed} pushed, {unchanged} unchanged, {back} rolled back, {locked} locked, {held} held, \
             {superseded} superseded; {} lanes",
            self.lanes.len()
        )
    }

    /// How many were pushed, unchanged, rolled back, locked, held, superseded.
    fn counts(&self) -> [usize; 6] {
        let count =
            |wanted: fn(&End) -> bool| self.ends.values().filter(|(_, end)| wanted(end)).count();
        [
            count(|end| *end == End::Succeeded { commit: true }),
            count(|end| *end == End::Succeeded { commit: false }),
            count(|end| *end == End::RolledBack),
            count(|end| matches!(end, End::Refused { lock: true, .. })),
            count(|end| matches!(end, End::Refused { hold: true, .. })),
            count(|end| *end == End::Superseded),
        ]
    }
}
