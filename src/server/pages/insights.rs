//! The page of insights: how long deployments take and how they end, over time. Pure.

use askama::Template;
use jiff::{SignedDuration, Timestamp};

use crate::deployments::checks::Notice;
use crate::deployments::insight_series::{
    FailureGroup, InsightSeries, IntervalSeries, OutcomePart,
};
use crate::deployments::insights::Insights;
use crate::model::deploy_clock::DeployInterval;
use crate::model::insights::{DoraFigures, LapseSummary};
use crate::server::pages::document::{Frame, PageError, PageSection};
use crate::server::pages::plot::{Plot, PlotPoint, PlotWindow, draw_bars, draw_curves};
use crate::server::pages::words::{self, RelativeTime};
use crate::support::percent::encode_query_value;
use crate::support::time_text::format_micros;

/// The windows that the page offers.
const WINDOWS: [(&str, &str); 6] = [
    ("6h", "6 hours"),
    ("24h", "24 hours"),
    ("3d", "3 days"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
];
/// The length of a bar that is the longest.
const WHOLE: u64 = 1000;

#[derive(Template)]
#[template(path = "insights.html")]
struct InsightsPage {
    frame: Frame,
    windows: Vec<WindowOption>,
    target: String,
    app: String,
    count: String,
    since: RelativeTime,
    until: RelativeTime,
    is_complete: bool,
    figures: Vec<Figure>,
    ends_title: &'static str,
    ends: Plot,
    ends_rows: Vec<TableRow>,
    intervals: Vec<IntervalView>,
    apps: Vec<BarRow>,
    failures: Vec<BarRow>,
}

struct WindowOption {
    value: String,
    text: String,
    is_chosen: bool,
}

/// One of DORA's figures.
#[derive(Debug, PartialEq, Eq)]
struct Figure {
    title: &'static str,
    value: String,
    note: String,
}

/// A row of the table beneath a plot.
struct TableRow {
    at: String,
    cells: Vec<String>,
}

struct IntervalView {
    title: &'static str,
    explanation: &'static str,
    whole: String,
    plot: Plot,
    rows: Vec<TableRow>,
}

struct BarRow {
    title: String,
    note: String,
    value: String,
    length: u64,
    path: String,
}

/// What the page was asked for, as its address has it.
pub(crate) struct InsightsChoice {
    /// The window: `6h`.
    pub(crate) window: String,
    /// The target, or nothing.
    pub(crate) target: String,
    /// The app, or nothing.
    pub(crate) app: String,
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    series: &InsightSeries,
    choice: InsightsChoice,
    notices: Vec<Notice>,
) -> Result<String, PageError> {
    let InsightsChoice { window, target, app } = choice;
    let is_by_day = series.day.as_hours() > 1;
    let count = series.figures.outcomes.values().sum::<u64>();
    let ends_title = if is_by_day { "Deployments a day" } else { "Deployments an hour" };
    let page = InsightsPage {
        frame: Frame {
            title: "insights".to_owned(),
            section: PageSection::Insights,
            notices,
            ..Frame::default()
        },
        windows: windows(&window),
        count: words::count(number(count), "deployment"),
        since: words::moment(series.figures.since),
        until: words::moment(series.until),
        is_complete: series.figures.is_complete,
        figures: dora(&series.figures),
        ends_title,
        ends: ends(series, ends_title),
        ends_rows: series.outcomes.iter().map(|part| end_row(part, is_by_day)).collect(),
        intervals: intervals(series),
        apps: apps(&series.apps, &window, &target),
        failures: failures(&series.failures),
        target,
        app,
    };
    Ok(page.render()?)
}

fn windows(chosen: &str) -> Vec<WindowOption> {
    let is_other = WINDOWS.iter().all(|(value, _)| *value != chosen);
    let other = is_other.then_some((chosen, chosen));
    let option = |(value, text): (&str, &str)| WindowOption {
        value: value.to_owned(),
        text: text.to_owned(),
        is_chosen: value == chosen,
    };
    WINDOWS.into_iter().chain(other).map(option).collect()
}

fn dora(figures: &Insights) -> Vec<Figure> {
    let DoraFigures {
        successes,
        successes_per_day,
        lead_time,
        changes,
        failed_changes,
        change_failure_percent,
        time_to_restore,
        unrestored,
    } = figures.dora;
    let p90 = |summary: &LapseSummary| match summary.p90_millis {
        Some(_) => format!("median; p90 {}", length(summary.p90_millis)),
        None => "nothing was measured".to_owned(),
    };
    vec![
        Figure {
            title: "Deployment frequency",
            value: format!("{successes_per_day} a day"),
            note: format!("{} succeeded", words::count(number(successes), "change")),
        },
        Figure {
            title: "Lead time for changes",
            value: length(lead_time.p50_millis),
            note: p90(&lead_time),
        },
        Figure {
            title: "Change failure rate",
            value: change_failure_percent
                .map_or("–".to_owned(), |percent| format!("{percent} %")),
            note: format!("{failed_changes} of {}", words::count(number(changes), "change")),
        },
        Figure {
            title: "Time to restore",
            value: length(time_to_restore.p50_millis),
            note: match unrestored {
                0 => p90(&time_to_restore),
                count => format!("{}; {count} not restored", p90(&time_to_restore)),
            },
        },
    ]
}

fn number(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Writes a length of time; a dash where there is none.
fn length(millis: Option<u64>) -> String {
    millis.map_or("–".to_owned(), |millis| format_micros(millis.saturating_mul(1000)))
}

/// Writes the begin of a part of the window.
fn begin(at: Timestamp, part: SignedDuration) -> String {
    let form = if part.as_hours() >= 24 { "%d %b %Y" } else { "%d %b %H:%M" };
    at.strftime(form).to_string()
}

fn ends(series: &InsightSeries, title: &str) -> Plot {
    let window = PlotWindow { since: series.since, until: series.until, part: series.day };
    let point = |part: &OutcomePart| PlotPoint {
        at: part.at,
        values: outcome_values(part).map(Some).into(),
        text: format!(
            "{}: {} succeeded, {} failed, {} superseded or cancelled, {} under way",
            begin(part.at, series.day),
            part.succeeded,
            part.failed,
            part.given_up,
            part.open
        ),
    };
    let points: Vec<_> = series.outcomes.iter().map(point).collect();
    let label = format!("{title} by their end; the table beneath has the values");
    draw_bars(label, window, &["good", "bad", "gone", "going"], &points)
}

fn outcome_values(part: &OutcomePart) -> [u64; 4] {
    [part.succeeded, part.failed, part.given_up, part.open]
}

fn end_row(part: &OutcomePart, is_by_day: bool) -> TableRow {
    let length = SignedDuration::from_hours(if is_by_day { 24 } else { 1 });
    let cells = outcome_values(part).map(|count| count.to_string()).into();
    TableRow { at: begin(part.at, length), cells }
}

fn intervals(series: &InsightSeries) -> Vec<IntervalView> {
    let window = PlotWindow { since: series.since, until: series.until, part: series.part };
    let view = |(interval, points): &IntervalSeries| {
        let title = interval.title();
        let point = |(at, summary): &(Timestamp, LapseSummary)| PlotPoint {
            at: *at,
            values: vec![summary.p50_millis, summary.p90_millis],
            text: format!(
                "{}: p50 {}, p90 {} of {}",
                begin(*at, series.part),
                length(summary.p50_millis),
                length(summary.p90_millis),
                summary.count
            ),
        };
        let row = |(at, summary): &(Timestamp, LapseSummary)| TableRow {
            at: begin(*at, series.part),
            cells: vec![
                summary.count.to_string(),
                length(summary.p50_millis),
                length(summary.p90_millis),
            ],
        };
        let plotted: Vec<_> = points.iter().map(point).collect();
        let label = format!("{title} over time; the table beneath has the values");
        IntervalView {
            title,
            explanation: explain(*interval),
            whole: whole(&series.figures, *interval),
            plot: draw_curves(label, window, &["p50", "p90"], &plotted),
            rows: points.iter().map(row).collect(),
        }
    };
    series.intervals.iter().map(view).collect()
}

/// Explains an interval.
pub(super) fn explain(interval: DeployInterval) -> &'static str {
    match interval {
        DeployInterval::Deployer => "from the receipt to the push",
        DeployInterval::Pickup => "from the request until Argo CD knew of it",
        DeployInterval::Wait => "from the request until Argo CD began to sync",
        DeployInterval::Sync => "from the pickup until Argo CD had synced",
        DeployInterval::Total => "from the request until Argo CD had synced",
    }
}

fn whole(figures: &Insights, interval: DeployInterval) -> String {
    let summary = figures.intervals.iter().find(|(one, _)| *one == interval);
    match summary {
        Some((_, summary)) if summary.count > 0 => format!(
            "p50 {}, p90 {} of {}",
            length(summary.p50_millis),
            length(summary.p90_millis),
            summary.count
        ),
        _ => "nothing was measured".to_owned(),
    }
}

fn apps(apps: &[(String, LapseSummary)], window: &str, target: &str) -> Vec<BarRow> {
    let longest = apps.iter().filter_map(|(_, summary)| summary.p90_millis).max().unwrap_or(1);
    let row = |(app, summary): &(String, LapseSummary)| {
        let parameters = [("window", window), ("target", target), ("app", app)];
        let parameters = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        let parameters: Vec<_> = parameters
            .map(|(name, value)| format!("{name}={}", encode_query_value(value)))
            .collect();
        BarRow {
            title: app.clone(),
            note: format!("p50 {} of {}", length(summary.p50_millis), summary.count),
            value: length(summary.p90_millis),
            length: share(summary.p90_millis.unwrap_or(0), longest),
            path: format!("/insights?{}", parameters.join("&")),
        }
    };
    apps.iter().map(row).collect()
}

fn failures(failures: &[(FailureGroup, u64)]) -> Vec<BarRow> {
    let most = failures.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let row = |(group, count): &(FailureGroup, u64)| {
        let (title, note) = match group {
            FailureGroup::Rule(rule) => (rule.clone(), "a rule"),
            FailureGroup::Cause(cause) => ((*cause).to_owned(), "a cause in the cluster"),
            FailureGroup::Other => {
                ("other".to_owned(), "neither a rule nor a cause in the cluster")
            }
        };
        BarRow {
            title,
            note: note.to_owned(),
            value: count.to_string(),
            length: share(*count, most),
            path: String::new(),
        }
    };
    failures.iter().map(row).collect()
}

fn share(value: u64, whole: u64) -> u64 {
    let share = u128::from(value) * u128::from(WHOLE) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(WHOLE).min(WHOLE)
}
