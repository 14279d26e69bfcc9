//! A lane: the deployments of one app of a repository to one target, of which one runs at a time, in the code host's order.
//! Decides who is next and who is superseded; knows no database and no clock.

use jiff::Timestamp;

use crate::model::deployment::State;
use crate::model::id::DeployId;

/// The unfinished deployments of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lane {
    /// Every deployment that is not finished.
    pub open: Vec<LaneEntry>,
    /// The newest of those that ran to an end, well or badly.
    pub newest_ended: Option<LanePlace>,
}

/// One unfinished deployment of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneEntry {
    /// The deployment and its place in the order.
    pub place: LanePlace,
    /// `Queued`, `Running` or `Pushing`.
    pub state: State,
    /// True if it is a rollback: a later deployment does not supersede one.
    pub rollback: bool,
    /// The time from which a worker may take it: a retry's time, or the end of a lease.
    pub due_at: Timestamp,
}

/// A place in a lane's order; the greater is the newer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LanePlace {
    /// The forge's number; a rollback, which begins here, has that of the newest before it.
    pub number: i64,
    /// The deployment. Ids are in the order of time.
    pub id: DeployId,
}

/// The next step of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneTurn {
    /// The superseded deployments, each with the newest one that replaced it.
    pub superseded: Vec<(DeployId, DeployId)>,
    /// The one that a worker may take now.
    pub take: Option<DeployId>,
}

impl Lane {
    /// Finds the deployments that are over and the one that is next.
    pub fn next_turn(&self, now: Timestamp) -> LaneTurn {
        let superseded: Vec<_> = self
            .open
            .iter()
            .filter(|entry| entry.may_be_superseded(now))
            .filter_map(|entry| Some((entry.place.id.clone(), self.newer_than(&entry.place)?.id)))
            .collect();
        let remaining =
            self.open.iter().filter(|e| superseded.iter().all(|(id, _)| *id != e.place.id));
        let take = remaining.min_by_key(|entry| (entry.state == State::Queued, &entry.place));
        let take = take.filter(|entry| entry.due_at <= now).map(|entry| entry.place.id.clone());
        LaneTurn { superseded, take }
    }

    /// Finds the newest deployment of the lane, if it is newer than this place.
    pub fn newer_than(&self, place: &LanePlace) -> Option<LanePlace> {
        self.open
            .iter()
            .map(|entry| &entry.place)
            .chain(&self.newest_ended)
            .filter(|other| *other > place)
            .max()
            .cloned()
    }
}

impl Lane {
    /// Adds what other lanes have of the same app.
    #[must_use]
    pub fn joined(mut self, other: Self) -> Self {
        self.open.extend(other.open);
        self.newest_ended = self.newest_ended.max(other.newest_ended);
        self
    }
}

impl LaneEntry {
    /// Checks that a newer deployment may supersede it: a worker that is at it learns of it when it
    /// wants to push; a push that has begun may have arrived already, so its outcome must be found
    /// out.
    fn may_be_superseded(&self, now: Timestamp) -> bool {
        match self.state {
            _ if self.rollback => false,
            State::Queued => true,
            State::Running => self.due_at <= now,
            State::Pushing
            | State::Syncing
            | State::Progressing
            | State::Succeeded
            | State::Failed
            | State::Superseded
            | State::Cancelled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn place(n: i64) -> LanePlace {
        LanePlace { number: n, id: id(n) }
    }

    fn id(n: i64) -> DeployId {
        DeployId::parse(format!("20261121-054812123-{n:06x}")).unwrap()
    }

    fn entry(n: i64, state: State, due_in_seconds: i64) -> LaneEntry {
        let due_at = Timestamp::from_second(due_in_seconds).unwrap();
        LaneEntry { place: place(n), state, rollback: false, due_at }
    }

    fn turn(open: Vec<LaneEntry>, ended: Option<i64>) -> LaneTurn {
        Lane { open, newest_ended: ended.map(place) }.next_turn(NOW)
    }

    #[test]
    fn an_empty_lane_has_nothing_to_do() {
        assert_eq!(turn(vec![], Some(9)), LaneTurn::default());
    }

    #[test]
    fn the_only_one_that_waits_is_next() {
        let turn = turn(vec![entry(1, State::Queued, 0)], None);
        assert_eq!(turn, LaneTurn { superseded: vec![], take: Some(id(1)) });
    }

    #[test]
    fn one_that_waits_for_its_retry_is_not_taken_before() {
        assert_eq!(turn(vec![entry(1, State::Queued, 5)], None).take, None);
    }

    #[test]
    fn only_the_newest_of_those_that_wait_is_left() {
        let waiting = [2, 3, 1].map(|n| entry(n, State::Queued, 0)).to_vec();
        let turn = turn(waiting, None);
        assert_eq!(turn.superseded, vec![(id(2), id(3)), (id(1), id(3))]);
        assert_eq!(turn.take, Some(id(3)));
    }

    #[test]
    fn nothing_is_taken_while_another_runs_or_pushes() {
        for busy in [State::Running, State::Pushing] {
            let turn = turn(vec![entry(1, busy, 5), entry(2, State::Queued, 0)], None);
            assert_eq!(turn, LaneTurn::default(), "while one is {busy:?}");
        }
    }

    #[test]
    fn one_that_arrives_late_never_overtakes() {
        for newer in [State::Queued, State::Running, State::Pushing] {
            let turn = turn(vec![entry(2, newer, 5), entry(1, State::Queued, 0)], None);
            assert_eq!(turn.superseded, vec![(id(1), id(2))], "behind one that is {newer:?}");
            assert_eq!(turn.take, None);
        }
        assert_eq!(turn(vec![entry(1, State::Queued, 0)], Some(2)).superseded, [(id(1), id(2))]);
    }

    #[test]
    fn a_rollback_is_not_superseded_and_comes_before_what_is_newer() {
        let rollback = LaneEntry { rollback: true, ..entry(1, State::Queued, 0) };
        let turn = turn(vec![entry(2, State::Queued, 0), rollback], None);
        assert_eq!(turn, LaneTurn { superseded: vec![], take: Some(id(1)) });
    }

    #[test]
    fn a_rollback_supersedes_what_waited_before_it() {
        let place = LanePlace { number: 5, id: id(9) };
        let rollback = LaneEntry { place, state: State::Queued, rollback: true, due_at: NOW };
        let turn = turn(vec![entry(5, State::Queued, 0), rollback], None);
        assert_eq!(turn, LaneTurn { superseded: vec![(id(5), id(9))], take: Some(id(9)) });
    }

    #[test]
    fn an_older_ended_one_supersedes_nothing() {
        assert_eq!(turn(vec![entry(3, State::Queued, 0)], Some(2)).take, Some(id(3)));
    }

    #[test]
    fn a_dead_workers_deployment_is_taken_over() {
        assert_eq!(turn(vec![entry(1, State::Running, 0)], None).take, Some(id(1)));
    }

    #[test]
    fn a_dead_workers_deployment_is_superseded_unless_its_push_has_begun() {
        let dead = |state| vec![entry(1, state, 0), entry(2, State::Queued, 0)];
        let before = turn(dead(State::Running), None);
        assert_eq!(before, LaneTurn { superseded: vec![(id(1), id(2))], take: Some(id(2)) });
        let after = turn(dead(State::Pushing), None);
        assert_eq!(after, LaneTurn { superseded: vec![], take: Some(id(1)) });
    }
}
