//! The deploy clock: the time of each step of a deployment with the clock that showed it, and the intervals between
//! the steps.
//!
//! GitHub, a cluster and the service have a clock each, and any of them may be wrong. An interval between two clocks is
//! measured only while nothing contradicts them; otherwise it is skewed, with the difference, and no average counts it.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::words::words;

words! {
    /// A step of a deployment whose time is recorded.
    pub enum DeployMark {
        /// A person or a program requested it: GitHub's `created_at`.
        Requested = "requested",
        /// The service stored the request.
        Received = "received",
        /// The manifests were rendered, and every rule had passed.
        Planned = "planned",
        /// The revision was in the manifest repository.
        Pushed = "pushed",
        /// Argo CD's webhook accepted the event of the push.
        ArgocdNotified = "argocd_notified",
        /// Argo CD had compared the cluster with a commit that holds the revision.
        CommitSeen = "commit_seen",
        /// Argo CD began to sync such a commit.
        SyncBegan = "sync_began",
        /// Argo CD had synced such a commit.
        Synced = "synced",
        /// The first workload carried the revision.
        RolloutBegan = "rollout_began",
        /// All pods run the revision; where nothing watches the cluster: it is in the manifest repository.
        Finished = "finished",
    }
}

words! {
    /// The owner of a clock.
    pub enum MarkClock {
        /// The service. Its replicas count as one.
        Service = "service",
        /// GitHub, in whole seconds.
        CodeHost = "code_host",
        /// The cluster of the target, in whole seconds.
        Cluster = "cluster",
    }
}

words! {
    /// An interval of the deploy clock.
    pub enum DeployInterval {
        /// From the receipt of the request to the push.
        Deployer = "deployer",
        /// From the request until Argo CD is notified; without a webhook: until it has seen the commit.
        Pickup = "pickup",
        /// From the request until Argo CD begins to sync.
        Wait = "wait",
        /// From the end of the pickup until Argo CD has synced.
        Sync = "sync",
        /// From the request until Argo CD has synced.
        Total = "total",
    }
}

/// The time of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkTime {
    /// The step.
    pub mark: DeployMark,
    /// The time.
    pub at: Timestamp,
    /// The clock that showed it.
    pub clock: MarkClock,
    /// The milliseconds by which that clock is ahead of the service's at least: the time lay in the future when the
    /// service learned of it. 0 where nothing is known of that.
    #[serde(default)]
    pub ahead_millis: u64,
}

/// The times of a deployment's steps, in the order of the steps. Each has one: the first that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Vec<MarkTime>")]
pub struct DeployMarks(Vec<MarkTime>);

/// The length of an interval, or the reason why it has none: exactly one of the two numbers is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalTime {
    /// The interval.
    pub interval: DeployInterval,
    /// Its length in milliseconds; null where the clocks contradict each other.
    pub millis: Option<u64>,
    /// The milliseconds by which the clocks of its begin and its end contradict each other; null where they do not.
    pub skew_millis: Option<u64>,
}

/// The lengths of a deployment: of each interval, and the lead time. `None` where an end is not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeployLapses {
    /// The intervals, in the order of [`DeployInterval::ALL`].
    pub intervals: [Option<Lapse>; DeployInterval::ALL.len()],
    /// The lead time, from the request to the finish.
    pub lead_time: Option<Lapse>,
}

/// The time between two marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// Its length in milliseconds.
    Millis(u64),
    /// The milliseconds by which the clocks contradict each other.
    Skew(u64),
}

/// The coarsest unit of a clock: GitHub and Kubernetes cut the time to the second. A contradiction within it is none.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(1);

impl MarkTime {
    /// Makes the time of a step of which the service learns at `now`, by its own clock.
    pub fn new(mark: DeployMark, at: Timestamp, clock: MarkClock, now: Timestamp) -> Self {
        let ahead_millis = match clock {
            MarkClock::Service => 0,
            MarkClock::CodeHost | MarkClock::Cluster => contradiction(at, now),
        };
        Self { mark, at, clock, ahead_millis }
    }

    /// Makes the time of a step by the service's own clock.
    pub fn of_service(mark: DeployMark, at: Timestamp) -> Self {
        Self { mark, at, clock: MarkClock::Service, ahead_millis: 0 }
    }
}

impl IntervalTime {
    /// Returns the length or the skew.
    pub fn lapse(&self) -> Lapse {
        let skew = Lapse::Skew(self.skew_millis.unwrap_or(0));
        self.millis.map_or(skew, Lapse::Millis)
    }
}

impl DeployLapses {
    /// Returns the intervals that are known, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (DeployInterval, Lapse)> {
        let lapses = DeployInterval::ALL.into_iter().zip(self.intervals);
        lapses.filter_map(|(interval, lapse)| Some((interval, lapse?)))
    }
}

impl DeployMarks {
    /// Adds the time of a step, unless the step has one.
    pub fn insert(&mut self, time: MarkTime) {
        if let Err(place) = self.0.binary_search_by_key(&time.mark, |one| one.mark) {
            self.0.insert(place, time);
        }
    }

    /// Returns the time of a step.
    pub fn get(&self, mark: DeployMark) -> Option<&MarkTime> {
        let place = self.0.binary_search_by_key(&mark, |one| one.mark).ok()?;
        self.0.get(place)
    }

    /// Returns the times, in the order of the steps.
    pub fn iter(&self) -> impl Iterator<Item = &MarkTime> {
        self.0.iter()
    }

    /// Returns the intervals whose begin and end are recorded, in the order of [`DeployInterval::ALL`].
    pub fn intervals(&self) -> Vec<IntervalTime> {
        DeployInterval::ALL.into_iter().filter_map(|interval| self.interval(interval)).collect()
    }

    /// Returns one interval; `None` while its begin or its end is not recorded.
    pub fn interval(&self, interval: DeployInterval) -> Option<IntervalTime> {
        let pickup = || self.get(DeployMark::ArgocdNotified).or(self.get(DeployMark::CommitSeen));
        let requested = || self.get(DeployMark::Requested);
        let (begin, end) = match interval {
            DeployInterval::Deployer => {
                (self.get(DeployMark::Received), self.get(DeployMark::Pushed))
            }
            DeployInterval::Pickup => (requested(), pickup()),
            DeployInterval::Wait => (requested(), self.get(DeployMark::SyncBegan)),
            DeployInterval::Sync => (pickup(), self.get(DeployMark::Synced)),
            DeployInterval::Total => (requested(), self.get(DeployMark::Synced)),
        };
        let (millis, skew_millis) = match self.measure(begin?, end?) {
            Lapse::Millis(millis) => (Some(millis), None),
            Lapse::Skew(millis) => (None, Some(millis)),
        };
        Some(IntervalTime { interval, millis, skew_millis })
    }

    /// Returns all lengths.
    pub fn lapses(&self) -> DeployLapses {
        let lapse = |interval| self.interval(interval).map(|time| time.lapse());
        DeployLapses { intervals: DeployInterval::ALL.map(lapse), lead_time: self.lead_time() }
    }

    /// Returns the lead time, from the request to the finish; `None` while one of them is not recorded.
    pub fn lead_time(&self) -> Option<Lapse> {
        let ends = self.get(DeployMark::Requested).zip(self.get(DeployMark::Finished));
        ends.map(|(begin, end)| self.measure(begin, end))
    }

    /// Returns the time from the first mark to this one; `None` if its clock contradicts the service's.
    pub fn offset_millis(&self, time: &MarkTime) -> Option<u64> {
        match self.measure(self.0.first()?, time) {
            Lapse::Millis(millis) => Some(millis),
            Lapse::Skew(_) => None,
        }
    }

    fn measure(&self, begin: &MarkTime, end: &MarkTime) -> Lapse {
        let is_one_clock = begin.clock == end.clock;
        let length = millis_between(begin.at, end.at);
        let skew = match length {
            // Another replica's clock, or one that was set back.
            None if is_one_clock => millis_between(end.at, begin.at).unwrap_or(0),
            Some(_) if is_one_clock => 0,
            Some(_) | None => {
                let known_skew = self.skew(begin.clock).max(self.skew(end.clock));
                known_skew.max(contradiction(begin.at, end.at))
            }
        };
        // Less than the resolution of a clock before the begin is at the begin.
        if skew == 0 { Lapse::Millis(length.unwrap_or(0)) } else { Lapse::Skew(skew) }
    }

    /// Returns the milliseconds by which a clock contradicts the service's at least; 0 where it does not. It is ahead if
    /// it showed a time in the future; a cluster's is behind if a step after the push comes before it.
    fn skew(&self, clock: MarkClock) -> u64 {
        let pushed = self.get(DeployMark::Pushed).filter(|_| clock == MarkClock::Cluster);
        let of_clock = self.iter().filter(|time| time.clock == clock);
        let skews = of_clock.map(|time| {
            let behind = pushed.map_or(0, |pushed| contradiction(pushed.at, time.at));
            time.ahead_millis.max(behind)
        });
        skews.max().unwrap_or(0)
    }
}

impl From<Vec<MarkTime>> for DeployMarks {
    fn from(times: Vec<MarkTime>) -> Self {
        times.into_iter().collect()
    }
}

impl FromIterator<MarkTime> for DeployMarks {
    fn from_iter<I: IntoIterator<Item = MarkTime>>(times: I) -> Self {
        let mut marks = Self::default();
        for time in times {
            marks.insert(time);
        }
        marks
    }
}

impl DeployMark {
    /// Says what happened, for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Received => "received by the service",
            Self::Planned => "planned: manifests rendered, all rules passed",
            Self::Pushed => "pushed to the manifest repository",
            Self::ArgocdNotified => "Argo CD notified",
            Self::CommitSeen => "commit seen by Argo CD",
            Self::SyncBegan => "sync began",
            Self::Synced => "synced",
            Self::RolloutBegan => "rollout began",
            Self::Finished => "finished",
        }
    }
}

impl MarkClock {
    /// Names the owner, for people.
    pub fn owner(self) -> &'static str {
        match self {
            Self::Service => "the service",
            Self::CodeHost => "GitHub",
            Self::Cluster => "the cluster",
        }
    }
}

impl DeployInterval {
    /// Names the interval, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Deployer => "deployer time",
            Self::Pickup => "pickup by Argo CD",
            Self::Wait => "wait until syncing",
            Self::Sync => "pickup to synced",
            Self::Total => "total",
        }
    }
}

/// Returns the milliseconds from one time to a later one; `None` if it is earlier.
fn millis_between(begin: Timestamp, end: Timestamp) -> Option<u64> {
    u64::try_from(end.as_millisecond().checked_sub(begin.as_millisecond())?).ok()
}

/// Returns the milliseconds by which a time lies after one that should follow it; 0 within a clock's resolution.
fn contradiction(first: Timestamp, second: Timestamp) -> u64 {
    let difference = first.duration_since(second);
    if difference < RESOLUTION { 0 } else { difference.as_millis().try_into().unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600 * 1000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_763_703_492_000 + millis).unwrap()
    }

    /// A deployment that takes a minute: the mark, its time in milliseconds, its clock.
    const MINUTE: [(DeployMark, i64, MarkClock); 10] = [
        (DeployMark::Requested, 0, MarkClock::CodeHost),
        (DeployMark::Received, 1_200, MarkClock::Service),
        (DeployMark::Planned, 4_000, MarkClock::Service),
        (DeployMark::Pushed, 5_800, MarkClock::Service),
        (DeployMark::ArgocdNotified, 19_400, MarkClock::Service),
        (DeployMark::CommitSeen, 22_000, MarkClock::Cluster),
        (DeployMark::SyncBegan, 24_000, MarkClock::Cluster),
        (DeployMark::Synced, 55_000, MarkClock::Cluster),
        (DeployMark::RolloutBegan, 31_000, MarkClock::Cluster),
        (DeployMark::Finished, 60_500, MarkClock::Service),
    ];

    /// The minute, with each clock off by so many milliseconds; the service learns of a step 300 ms after it happened.
    fn minute(code_host: i64, cluster: i64) -> DeployMarks {
        let mark = |(mark, millis, clock): (DeployMark, i64, MarkClock)| {
            let off = match clock {
                MarkClock::Service => 0,
                MarkClock::CodeHost => code_host,
                MarkClock::Cluster => cluster,
            };
            MarkTime::new(mark, at(millis + off), clock, at(millis + 300))
        };
        MINUTE.into_iter().map(mark).collect()
    }

    /// Returns the lengths in the order of the intervals, or the skews as negative numbers.
    fn lengths(marks: &DeployMarks) -> Vec<i64> {
        let length = |time: IntervalTime| match (time.millis, time.skew_millis) {
            (Some(millis), None) => i64::try_from(millis).unwrap(),
            (None, Some(skew)) => -i64::try_from(skew).unwrap(),
            both => panic!("{both:?}"),
        };
        marks.intervals().into_iter().map(length).collect()
    }

    #[test]
    fn the_five_intervals_lie_between_their_marks() {
        assert_eq!(lengths(&minute(0, 0)), [4_600, 19_400, 24_000, 35_600, 55_000]);
        assert!(lengths(&DeployMarks::default()).is_empty());
        let pushed = MINUTE.into_iter().take(4);
        let pushed: DeployMarks =
            pushed.map(|(mark, millis, _)| MarkTime::of_service(mark, at(millis))).collect();
        assert_eq!(lengths(&pushed), [4_600], "an interval without an end is not there");
    }

    #[test]
    fn without_a_webhook_the_sight_of_the_commit_is_the_pickup() {
        let marks = minute(0, 0);
        let polled = marks.iter().filter(|time| time.mark != DeployMark::ArgocdNotified);
        let polled: DeployMarks = polled.copied().collect();
        assert_eq!(lengths(&polled), [4_600, 22_000, 24_000, 33_000, 55_000]);
    }

    #[test]
    fn a_clock_of_github_that_is_ahead_skews_what_it_begins() {
        let day = -DAY + 300;
        assert_eq!(lengths(&minute(DAY, 0)), [4_600, day, day, 35_600, day]);
        // The request comes after its receipt, and before everything else: no interval is negative.
        assert_eq!(lengths(&minute(3_000, 0)), [4_600, -2_700, -2_700, 35_600, -2_700]);
    }

    #[test]
    fn a_cluster_that_is_ahead_skews_what_it_ends() {
        let day = -DAY + 300;
        assert_eq!(lengths(&minute(0, DAY)), [4_600, 19_400, day, day, day]);
    }

    #[test]
    fn a_cluster_that_is_behind_skews_what_it_ends_also_where_the_interval_is_positive() {
        // It has seen the commit a day before the push.
        let day = -DAY + 22_000 - 5_800;
        assert_eq!(lengths(&minute(0, -DAY)), [4_600, 19_400, day, day, day]);
        // The wait would be 4 s, and the total 35 s.
        assert_eq!(lengths(&minute(0, -20_000)), [4_600, 19_400, -3_800, -3_800, -3_800]);
    }

    #[test]
    fn a_clock_that_is_behind_within_what_is_possible_cannot_be_told() {
        assert_eq!(lengths(&minute(-2_000, 0)), [4_600, 21_400, 26_000, 35_600, 57_000]);
    }

    #[test]
    fn one_clock_that_goes_back_is_skewed() {
        let marks = [(DeployMark::Received, 500), (DeployMark::Pushed, 100)];
        let marks = marks.map(|(mark, millis)| MarkTime::of_service(mark, at(millis)));
        assert_eq!(lengths(&marks.into_iter().collect()), [-400]);
    }

    #[test]
    fn two_steps_by_the_clock_of_a_cluster_need_no_other_clock() {
        // Argo CD was not notified, so that both ends of the sync are the cluster's.
        let marks = minute(0, DAY);
        let polled = marks.iter().filter(|time| time.mark != DeployMark::ArgocdNotified);
        let day = -DAY + 300;
        assert_eq!(lengths(&polled.copied().collect()), [4_600, day, day, 33_000, day]);
    }

    #[test]
    fn the_cut_of_a_clock_to_the_second_is_no_skew() {
        let marks: DeployMarks = [
            MarkTime::of_service(DeployMark::ArgocdNotified, at(10_400)),
            // 10.9 s, as Kubernetes writes it.
            MarkTime::new(DeployMark::Synced, at(10_000), MarkClock::Cluster, at(10_950)),
        ]
        .into_iter()
        .collect();
        assert_eq!(lengths(&marks), [0]);
    }

    #[test]
    fn the_lead_time_ends_with_the_finish_and_no_offset_comes_from_a_wrong_clock() {
        assert_eq!(minute(0, 0).lead_time(), Some(Lapse::Millis(60_500)));
        assert!(matches!(minute(DAY, 0).lead_time(), Some(Lapse::Skew(_))));
        assert_eq!(DeployMarks::default().lead_time(), None);
        let offsets = |marks: &DeployMarks| -> Vec<Option<u64>> {
            let steps = [DeployMark::Requested, DeployMark::Pushed, DeployMark::Synced];
            steps.iter().map(|step| marks.offset_millis(marks.get(*step).unwrap())).collect()
        };
        assert_eq!(offsets(&minute(0, 0)), [Some(0), Some(5_800), Some(55_000)]);
        assert_eq!(offsets(&minute(0, DAY)), [Some(0), Some(5_800), None]);
    }

    #[test]
    fn the_first_time_of_a_step_stays_and_absurd_times_are_no_panic() {
        let mut marks = minute(0, 0);
        let before = marks.clone();
        marks.insert(MarkTime::of_service(DeployMark::Synced, at(99_000)));
        assert_eq!(marks, before);
        let ends = [(DeployMark::Requested, Timestamp::MAX), (DeployMark::Synced, Timestamp::MIN)];
        let absurd = ends.map(|(mark, time)| MarkTime::new(mark, time, MarkClock::Cluster, at(0)));
        let absurd: DeployMarks = absurd.into_iter().collect();
        assert!(lengths(&absurd).iter().all(|skew| *skew < 0), "{absurd:?}");
    }

    #[test]
    fn marks_are_read_as_they_are_written() {
        let marks = minute(DAY, 0);
        let text = serde_json::to_string(&marks).unwrap();
        assert_eq!(serde_json::from_str::<DeployMarks>(&text).unwrap(), marks);
        let requested = serde_json::json!([{
            "mark": "requested", "at": "2025-11-21T05:38:12Z", "clock": "code_host",
        }]);
        let requested: DeployMarks = serde_json::from_value(requested).unwrap();
        assert_eq!(requested.iter().map(|time| time.ahead_millis).collect::<Vec<_>>(), [0]);
    }
}
