//! The timeline of a deployment: its stages and the marks of its deploy clock in one order, with what each took. Pure.
//!
//! Stages have a length and no time of their own: they lie side by side before the push, or before the end where there
//! was none. A step after the push took the time since the one before it.

use crate::model::deploy_clock::{DeployMark, DeployMarks, MarkTime};
use crate::model::deployment::{Deployment, Stage, StageTime};
use crate::server::pages::words::{self, RelativeTime};
use crate::support::time_text::format_micros;

/// The length of all bars together.
const WHOLE: u64 = 1000;
/// The length of a bar that would be invisible.
const SHORTEST: u64 = 6;

/// The timeline of a deployment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StepTable {
    pub(super) rows: Vec<StepRow>,
    /// The time from the first step to the last.
    pub(super) total: String,
}

/// A stage or a mark.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StepRow {
    pub(super) name: &'static str,
    /// The explanation of a stage; empty for a mark.
    pub(super) explanation: &'static str,
    /// The time of a mark; `None` for a stage.
    pub(super) at: Option<RelativeTime>,
    /// The time since the first mark, and the owner of the clock: `+4.0 s by the service`; empty for a stage.
    pub(super) offset: String,
    /// Empty for a mark that is the end of the row before.
    pub(super) took: String,
    pub(super) bar: Option<StepBar>,
}

/// The bar of a row. A mark whose clock is wrong has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepBar {
    pub(super) look: &'static str,
    /// In thousandths of the whole.
    pub(super) begin: u64,
    /// The same; at least long enough to be visible.
    pub(super) length: u64,
}

/// Makes the timeline of a deployment.
pub(super) fn step_table(deployment: &Deployment) -> StepTable {
    let Deployment { marks, stages, received_at, finished_at, .. } = deployment;
    let first = marks.iter().next().map_or(*received_at, |time| time.at);
    let ended = finished_at.and_then(|at| u64::try_from(at.duration_since(first).as_micros()).ok());
    build(marks, stages, ended)
}

/// Makes the timeline of these marks and stages, with the microseconds from the first mark to the end.
fn build(marks: &DeployMarks, stages: &[StageTime], ended: Option<u64>) -> StepTable {
    let mut steps = Steps { marks, spans: Vec::new(), end: 0 };
    steps.add_point(DeployMark::Requested);
    steps.add_mark(DeployMark::Received);
    let pushed = marks.get(DeployMark::Pushed).map(|time| steps.offset(time));
    // Of several attempts the last one counts, which begins long after the receipt.
    let end = pushed.unwrap_or(ended).unwrap_or(0);
    steps.end = steps.end.max(end.saturating_sub(total(stages)));
    for time in stages {
        if time.stage == Stage::Push {
            steps.add_point(DeployMark::Planned);
        }
        steps.add_stage(*time);
    }
    if stages.iter().all(|time| time.stage != Stage::Push) {
        steps.add_point(DeployMark::Planned);
    }
    steps.add_point(DeployMark::Pushed);
    let mut later: Vec<_> = marks.iter().filter(|time| time.mark > DeployMark::Pushed).collect();
    later.sort_by_key(|time| (time.at, time.mark));
    for time in later {
        steps.add_mark(time.mark);
    }
    StepTable { total: format_micros(steps.end), rows: steps.into_rows() }
}

/// Returns the time of all stages together, in microseconds.
pub(super) fn total(stages: &[StageTime]) -> u64 {
    stages.iter().fold(0, |sum, time| sum.saturating_add(time.micros))
}

/// The rows so far, each with its place in microseconds from the first mark.
struct Steps<'a> {
    marks: &'a DeployMarks,
    spans: Vec<(StepRow, Option<(u64, u64)>)>,
    /// The end of the row that ends last.
    end: u64,
}

impl Steps<'_> {
    fn offset(&self, time: &MarkTime) -> Option<u64> {
        Some(self.marks.offset_millis(time)?.saturating_mul(1_000))
    }

    /// Adds a mark that is the end of the row before, if it is there.
    fn add_point(&mut self, mark: DeployMark) {
        let Some(time) = self.marks.get(mark) else { return };
        let place = self.offset(time).map(|at| (at, at));
        self.add(self.mark_row(time, String::new()), place);
    }

    /// Adds a mark that took the time since the row before, if it is there.
    fn add_mark(&mut self, mark: DeployMark) {
        let Some(time) = self.marks.get(mark) else { return };
        let at = self.offset(time);
        let took = at.map(|at| format_micros(at.saturating_sub(self.end))).unwrap_or_default();
        self.add(self.mark_row(time, took), at.map(|at| (self.end.min(at), at)));
    }

    fn mark_row(&self, time: &MarkTime, took: String) -> StepRow {
        let offset = self.offset(time).map_or_else(
            || "clock skew".to_owned(),
            |micros| format!("+{}", format_micros(micros)),
        );
        StepRow {
            name: time.mark.sentence(),
            explanation: "",
            at: Some(words::moment(time.at)),
            offset: format!("{offset} by {}", time.clock.owner()),
            took,
            bar: None,
        }
    }

    fn add_stage(&mut self, StageTime { stage, micros }: StageTime) {
        let row = StepRow {
            name: stage.as_str(),
            explanation: explain(stage),
            at: None,
            offset: String::new(),
            took: format_micros(micros),
            bar: None,
        };
        self.add(row, Some((self.end, self.end.saturating_add(micros))));
    }

    fn add(&mut self, row: StepRow, place: Option<(u64, u64)>) {
        self.end = self.end.max(place.map_or(0, |(_, end)| end));
        self.spans.push((row, place));
    }

    fn into_rows(self) -> Vec<StepRow> {
        let whole = self.end.max(1);
        let share = |micros: u64| {
            let share = u128::from(micros) * u128::from(WHOLE) / u128::from(whole);
            u64::try_from(share).unwrap_or(WHOLE)
        };
        let row = |(row, place): (StepRow, Option<(u64, u64)>)| {
            let bar = place.map(|(begin, end)| {
                let length = share(end - begin).clamp(SHORTEST, WHOLE);
                let look = match row {
                    StepRow { at: None, .. } => "fill",
                    StepRow { .. } if row.took.is_empty() => "gone",
                    StepRow { .. } => "wait",
                };
                StepBar { look, begin: share(begin).min(WHOLE - length), length }
            });
            StepRow { bar, ..row }
        };
        self.spans.into_iter().map(row).collect()
    }
}

fn explain(stage: Stage) -> &'static str {
    match stage {
        Stage::Queue => "waited for a worker",
        Stage::Fetch => "read the WAML",
        Stage::Facts => "looked up images and secrets",
        Stage::Merge => "merged the layers of settings",
        Stage::Default => "filled in defaults",
        Stage::Validate => "ran all rules",
        Stage::Render => "rendered the manifests",
        Stage::Push => "pushed the manifests",
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::deploy_clock::MarkClock;

    const DAY: i64 = 24 * 3600 * 1000;

    /// A deployment that takes a minute, with the cluster's clock off by so many milliseconds.
    fn minute(cluster: i64) -> DeployMarks {
        let at = |millis: i64| Timestamp::from_millisecond(1_763_703_492_000 + millis).unwrap();
        let mark = |(mark, millis, clock)| {
            let off = if clock == MarkClock::Cluster { cluster } else { 0 };
            MarkTime::new(mark, at(millis + off), clock, at(millis + 300))
        };
        let (host, service, cluster) =
            (MarkClock::CodeHost, MarkClock::Service, MarkClock::Cluster);
        [
            (DeployMark::Requested, 0, host),
            (DeployMark::Received, 1_000, service),
            (DeployMark::Planned, 1_400, service),
            (DeployMark::Pushed, 2_000, service),
            (DeployMark::CommitSeen, 20_000, cluster),
            (DeployMark::Synced, 50_000, cluster),
            (DeployMark::RolloutBegan, 40_000, cluster),
            (DeployMark::Finished, 60_000, service),
        ]
        .map(mark)
        .into_iter()
        .collect()
    }

    fn stages() -> Vec<StageTime> {
        let time = |(stage, micros)| StageTime { stage, micros };
        [(Stage::Queue, 300_000), (Stage::Fetch, 100_000), (Stage::Push, 600_000)].map(time).into()
    }

    /// A row: its name, what it took, the begin and length of its bar.
    type Line<'a> = (&'static str, &'a str, Option<(u64, u64)>);

    fn lines(table: &StepTable) -> Vec<Line<'_>> {
        let bar = |row: &StepRow| row.bar.map(|bar| (bar.begin, bar.length));
        table.rows.iter().map(|row| (row.name, row.took.as_str(), bar(row))).collect()
    }

    #[test]
    fn stages_lie_between_their_marks_and_each_later_step_took_the_time_since_the_one_before() {
        let table = build(&minute(0), &stages(), None);
        let expected = [
            ("requested", "", Some((0, 6))),
            ("received by the service", "1.0 s", Some((0, 16))),
            ("queue", "300 ms", Some((16, 6))),
            ("fetch", "100 ms", Some((21, 6))),
            ("planned: manifests rendered, all rules passed", "", Some((23, 6))),
            ("push", "600 ms", Some((23, 10))),
            ("pushed to the manifest repository", "", Some((33, 6))),
            ("commit seen by Argo CD", "18.0 s", Some((33, 300))),
            ("rollout began", "20.0 s", Some((333, 333))),
            ("synced", "10.0 s", Some((666, 166))),
            ("finished", "10.0 s", Some((833, 166))),
        ];
        assert_eq!(lines(&table), expected);
        assert_eq!(table.total, "1 min 0 s");
        assert_eq!(table.rows[10].offset, "+1 min 0 s by the service");
    }

    #[test]
    fn a_clock_that_is_wrong_has_no_bar_and_moves_no_other() {
        let table = build(&minute(DAY), &stages(), None);
        let skewed: Vec<_> = table.rows.iter().filter(|row| row.bar.is_none()).collect();
        assert_eq!(skewed.len(), 3, "{table:?}");
        assert!(skewed.iter().all(|row| row.offset == "clock skew by the cluster"), "{skewed:?}");
        assert_eq!(table.total, "1 min 0 s");
        let last = table.rows.iter().find(|row| row.name == "finished").unwrap();
        assert_eq!((last.took.as_str(), last.bar.unwrap().begin), ("58.0 s", 33));
    }

    #[test]
    fn without_a_push_the_stages_end_with_the_deployment_and_without_marks_they_are_all() {
        let none = DeployMarks::default();
        let bars = |stages: &[StageTime], ended: Option<u64>| {
            build(&none, stages, ended)
                .rows
                .into_iter()
                .map(|row| row.bar.unwrap())
                .collect::<Vec<_>>()
        };
        let places = |micros: &[u64], ended: Option<u64>| {
            let time = |micros: &u64| StageTime { stage: Stage::Fetch, micros: *micros };
            let stages: Vec<_> = micros.iter().map(time).collect();
            bars(&stages, ended).iter().map(|bar| (bar.begin, bar.length)).collect::<Vec<_>>()
        };
        assert_eq!(places(&[250, 750], None), [(0, 250), (250, 750)]);
        assert_eq!(places(&[250, 750], Some(2_000)), [(500, 125), (625, 375)]);
        assert_eq!(places(&[1_000_000, 0, 1], None), [(0, 999), (994, 6), (994, 6)]);
        assert_eq!(places(&[0], None), [(0, 6)]);
        assert_eq!(places(&[], None), []);
        // The sum ends at the greatest number: no bar leaves the frame.
        assert_eq!(places(&[u64::MAX, u64::MAX], None), [(0, 1000), (994, 6)]);
    }
}
