//! The canaries of a deployment on a page: how far each is, its failed checks, and its weight over time. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::model::canary::{CanarySample, CanaryStatus};
use crate::model::deployment::{Deployment, State};
use crate::server::pages::plot::{Plot, PlotStep, PlotWindow, draw_steps};
use crate::server::pages::words::{self, RelativeTime};
use crate::support::time::saturating_add;

/// The most failed checks that are listed; the table has all.
const MAX_CHECKS: usize = 10;
/// The shortest time that a plot shows.
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

/// The canaries of a deployment.
pub(super) struct CanaryRunsView {
    /// The deployment.
    pub(super) deployment: String,
    pub(super) runs: Vec<CanaryRun>,
}

/// The canary of one workload.
pub(super) struct CanaryRun {
    pub(super) workload: String,
    pub(super) phase: String,
    pub(super) look: &'static str,
    /// `20 % of the traffic, 2 of 3 checks failed`
    pub(super) sentence: String,
    /// The newest first.
    pub(super) checks: Vec<FailedCheck>,
    pub(super) plot: Plot,
    /// The oldest first.
    pub(super) rows: Vec<SampleRow>,
}

/// A check that has failed.
pub(super) struct FailedCheck {
    pub(super) at: RelativeTime,
    pub(super) text: String,
}

/// A row of the table beneath the plot.
pub(super) struct SampleRow {
    pub(super) at: RelativeTime,
    pub(super) phase: String,
    pub(super) weight: String,
    pub(super) checks: String,
    pub(super) reason: String,
}

impl CanaryRunsView {
    /// Makes it of what is on record, the oldest first; `None` where nothing is.
    pub(super) fn new(deployment: &Deployment, samples: Vec<CanarySample>) -> Option<Self> {
        let end = deployment.finished_at.filter(|_| deployment.state.is_final());
        let end = end.map(|at| CanaryEnd::new(at, deployment));
        let mut workloads: Vec<(String, Vec<CanarySample>)> = Vec::new();
        for sample in samples {
            let workload = workloads.iter_mut().find(|(name, _)| *name == sample.status.workload);
            match workload {
                Some((_, group)) => group.push(sample),
                None => workloads.push((sample.status.workload.clone(), vec![sample])),
            }
        }
        let runs = workloads
            .into_iter()
            .filter_map(|(workload, samples)| run(workload, &samples, end.as_ref()));
        let runs: Vec<_> = runs.collect();
        (!runs.is_empty()).then(|| Self { deployment: deployment.id.to_string(), runs })
    }
}

/// How the deployment ended, and its canaries with it.
struct CanaryEnd {
    at: Timestamp,
    word: &'static str,
    look: &'static str,
    sentence: String,
}

impl CanaryEnd {
    fn new(at: Timestamp, deployment: &Deployment) -> Self {
        let (word, sentence) = match deployment.state {
            State::Succeeded => ("promoted", "all of the traffic is on the new release".to_owned()),
            state => (state.as_str(), deployment.summary.clone()),
        };
        Self { at, word, look: words::pick_css_class(deployment.state), sentence }
    }
}

fn run(workload: String, samples: &[CanarySample], end: Option<&CanaryEnd>) -> Option<CanaryRun> {
    let (first, last) = (samples.first()?.at, samples.last()?);
    let until = end
        .map_or_else(|| saturating_add(last.at, last.at.duration_since(first) / 10), |end| end.at);
    let until = until.max(last.at).max(saturating_add(first, SHORTEST));
    let window = PlotWindow { since: first, until, part: SHORTEST };
    let mut failed_before = 0;
    let mut steps = Vec::new();
    for sample in samples {
        let failed = sample.status.failed_checks;
        steps.push(PlotStep {
            at: sample.at,
            value: sample.status.weight.into(),
            is_marked: failed > failed_before,
            text: format!("{}: {}", sample.at.strftime("%H:%M:%S"), describe(&sample.status)),
        });
        failed_before = failed;
    }
    let failures = steps.iter().zip(samples).filter(|(step, _)| step.is_marked).rev();
    let checks = failures.take(MAX_CHECKS).map(|(_, sample)| failed_check(sample)).collect();
    let label = format!("weight of the canary of {workload} over time, in percent of the traffic");
    let (phase, look, sentence) = match end {
        Some(end) => (end.word.to_owned(), end.look, end.sentence.clone()),
        None => (last.status.phase.clone(), "going", counts(&last.status)),
    };
    Some(CanaryRun {
        plot: draw_steps(label, window, &steps),
        rows: samples.iter().map(row).chain(end.map(end_row)).collect(),
        workload,
        phase,
        look,
        sentence,
        checks,
    })
}

/// Describes a state: `Progressing, 20 % of the traffic, 1 of 3 checks failed: success rate 61.39% < 99%`.
fn describe(status: &CanaryStatus) -> String {
    let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}, {}{reason}", status.phase, counts(status))
}

fn counts(status: &CanaryStatus) -> String {
    let checks = match checks(status) {
        text if text.is_empty() => text,
        text => format!(", {text} failed"),
    };
    format!("{} % of the traffic{checks}", status.weight)
}

/// Counts the failed checks: `2 of 3 checks`; nothing where none has failed.
fn checks(status: &CanaryStatus) -> String {
    match (status.failed_checks, status.threshold) {
        (0, _) => String::new(),
        (1, 0) => "1 check".to_owned(),
        (failed, 0) => format!("{failed} checks"),
        (failed, threshold) => format!("{failed} of {threshold} checks"),
    }
}

fn failed_check(sample: &CanarySample) -> FailedCheck {
    let reason = sample.status.reason.as_deref().unwrap_or("Flagger does not say why");
    let CanaryStatus { weight, .. } = sample.status;
    let text = format!("{} failed at {weight} %: {reason}", checks(&sample.status));
    FailedCheck { at: words::moment(sample.at), text }
}

fn row(sample: &CanarySample) -> SampleRow {
    let CanaryStatus { workload: _, phase, weight, reason, .. } = &sample.status;
    SampleRow {
        at: words::moment(sample.at),
        phase: phase.clone(),
        weight: format!("{weight} %"),
        checks: checks(&sample.status),
        reason: reason.clone().unwrap_or_default(),
    }
}

fn end_row(end: &CanaryEnd) -> SampleRow {
    SampleRow {
        at: words::moment(end.at),
        phase: end.word.to_owned(),
        weight: String::new(),
        checks: String::new(),
        reason: end.sentence.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: i64, weight: u32, failed_checks: u32, reason: Option<&str>) -> CanarySample {
        let at = "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap();
        let status = CanaryStatus {
            workload: "Deployment devx/shop".to_owned(),
            phase: "Progressing".to_owned(),
            weight,
            failed_checks,
            threshold: 3,
            reason: reason.map(str::to_owned),
        };
        CanarySample { at: saturating_add(at, SignedDuration::from_secs(second)), status }
    }

    #[test]
    fn each_failed_check_is_listed_once_with_its_reason() {
        let slow = Some("request duration 2.5 s > 1 s");
        let samples = [
            sample(0, 10, 0, None),
            sample(30, 20, 0, None),
            sample(60, 20, 1, slow),
            sample(90, 20, 2, None),
            sample(120, 30, 2, slow),
            // Flagger has begun to count again.
            sample(150, 0, 0, None),
            sample(180, 0, 1, slow),
        ];
        let run = run("Deployment devx/shop".to_owned(), &samples, None).unwrap();
        let checks: Vec<_> = run.checks.iter().map(|check| check.text.as_str()).collect();
        assert_eq!(
            checks,
            [
                "1 of 3 checks failed at 0 %: request duration 2.5 s > 1 s",
                "2 of 3 checks failed at 20 %: Flagger does not say why",
                "1 of 3 checks failed at 20 %: request duration 2.5 s > 1 s",
            ]
        );
        assert_eq!((run.look, run.phase.as_str()), ("going", "Progressing"));
        assert_eq!(run.sentence, "0 % of the traffic, 1 of 3 checks failed");
        assert_eq!(run.rows.len(), 7);
        let marked = run.plot.bars.len();
        assert_eq!((marked, run.plot.columns.len()), (3, 7));
    }

    #[test]
    fn the_end_of_a_run_is_that_of_its_deployment() {
        let at = sample(60, 0, 0, None).at;
        let end = CanaryEnd {
            at,
            word: "failed",
            look: "bad",
            sentence: "Flagger rolled the canary back".to_owned(),
        };
        let run = run("Deployment devx/shop".to_owned(), &[sample(0, 10, 0, None)], Some(&end));
        let run = run.unwrap();
        assert_eq!((run.look, run.phase.as_str()), ("bad", "failed"));
        assert_eq!(run.rows.last().unwrap().reason, "Flagger rolled the canary back");
        assert!(super::run(String::new(), &[], Some(&end)).is_none());
    }
}
