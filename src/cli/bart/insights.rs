//! `bart insights` shows how long deployments take, and how they end.

use clap::Args;
use jiff::SignedDuration;

use crate::api::insights::{InsightsAnswer, IntervalSummary, OutcomeSummary};
use crate::cli::context::ServiceArgs;
use crate::cli::deployment::millis;
use crate::cli::error::CommandOutcome;
use crate::cli::output::{self, BOLD, DIM, note_line};
use crate::cli::table::{Column, layout};
use crate::cli::verbatim::Verbatim;
use crate::model::id::{AppKey, Namespace, Slug, TargetName};
use crate::model::insights::{DoraFigures, LapseSummary, RolloutFigures};
use crate::support::time_text::{self, DURATIONS};

/// The longest window: a quarter.
const LONGEST_WINDOW: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Shows how long the deployments of a window took, and how they ended: the five intervals of the deploy clock, the
/// outcomes, and DORA's four figures.
///
/// The figures are of the deployments that you may see. An interval between clocks that contradict each other is counted
/// as skewed, and in no average. docs/insights.md defines each figure.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart insights                                  the last 6 hours
  bart insights --window 7d --target prod-cluster-1
  bart insights --window 90d --app devx/my-app --output json")]
pub(super) struct InsightsArgs {
    /// The time before now in which deployments were received: `90m`, `6h`, `7d`; at most 90 days
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = window)]
    window: String,
    /// Only deployments to this target
    #[arg(long, short)]
    target: Option<TargetName>,
    /// Only deployments of this app: NAMESPACE/SLUG
    #[arg(long, value_name = "APP", value_parser = app)]
    app: Option<AppKey>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Checks a window as the service reads it.
fn window(text: &str) -> Result<String, String> {
    let is_plain = text.len() <= 5 && text.starts_with(|c: char| c.is_ascii_digit());
    match time_text::duration(text).filter(|long| is_plain && long.is_positive()) {
        Some(long) if long <= LONGEST_WINDOW => Ok(text.to_owned()),
        Some(_) => Err("at most 90d".to_owned()),
        None => Err(DURATIONS.to_owned()),
    }
}

fn app(text: &str) -> Result<AppKey, String> {
    let (namespace, slug) = text.split_once('/').ok_or("write it like devx/my-app")?;
    let namespace = Namespace::parse(namespace).map_err(|error| error.to_string())?;
    Ok(AppKey { namespace, slug: Slug::parse(slug).map_err(|error| error.to_string())? })
}

impl InsightsArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let Self { window, target, app, service: ServiceArgs { server, output } } = self;
        let mut query = vec![("window", window.clone())];
        query.extend(target.iter().map(|target| ("target", target.to_string())));
        query.extend(app.iter().map(|app| ("app", app.to_string())));
        let insights: Verbatim<InsightsAnswer> = server.get("/api/v1/insights", &query).await?;
        output.print(&insights, || {
            let about = app.iter().map(|app| format!(" of {app}"));
            let about = about.chain(target.iter().map(|target| format!(" to {target}")));
            let about: String = about.collect();
            format!(
                "{BOLD}deployments{about} in the last {window}{BOLD:#}\n{}",
                page(&insights, output::width())
            )
        })
    }
}

/// Formats the figures.
fn page(insights: &InsightsAnswer, width: Option<usize>) -> String {
    let InsightsAnswer {
        since, until: _, complete, deployments, outcomes, intervals, dora, ..
    } = insights;
    let outcome =
        |OutcomeSummary { state, count }: &OutcomeSummary| format!("{count} {}", state.as_str());
    let outcomes: Vec<String> = outcomes.iter().map(outcome).collect();
    let outcomes =
        if outcomes.is_empty() { String::new() } else { format!(": {}", outcomes.join(", ")) };
    let mut text = format!("{deployments} received{outcomes}\n");
    if !complete {
        text += &note_line(format!(
            "only the newest of them are counted, since {}",
            since.strftime("%Y-%m-%d %H:%M UTC")
        ));
    }
    let columns = [
        Column::whole("INTERVAL"),
        Column::whole("COUNT"),
        Column::whole("AVERAGE"),
        Column::whole("P50"),
        Column::whole("P90"),
        Column::whole("P99"),
        Column::whole("SKEWED"),
    ];
    let row = |one: &IntervalSummary| {
        let LapseSummary { count, average_millis, p50_millis, p90_millis, p99_millis, skewed } =
            one.lengths;
        [
            one.interval.title().to_owned(),
            count.to_string(),
            cell(average_millis),
            cell(p50_millis),
            cell(p90_millis),
            cell(p99_millis),
            skewed.to_string(),
        ]
    };
    text += &format!("\n{}", layout(&columns, intervals.iter().map(row).collect(), width));
    text + &figures(dora) + &rollout_figures(&insights.rollouts)
}

/// Formats the figures of rollouts; nothing where there were none.
fn rollout_figures(rollouts: &RolloutFigures) -> String {
    let RolloutFigures { started, open, done, undone, undo_failed, cancelled, .. } = *rollouts;
    if started == 0 {
        return String::new();
    }
    let rate = rollouts.undo_percent.map_or_else(|| "-".to_owned(), |rate| format!("{rate} %"));
    let mut text = format!("\n{BOLD}rollouts{BOLD:#}\n");
    for (name, value) in [
        ("started", format!("{started} ({open} open, {done} done, {cancelled} cancelled)")),
        ("undo rate", format!("{rate} ({undone} undone, {undo_failed} not to the end)")),
        ("duration", lengths(&rollouts.duration)),
    ] {
        text += &format!("  {DIM}{name:<22}{DIM:#} {value}\n");
    }
    text
}

/// Formats DORA's four figures.
fn figures(dora: &DoraFigures) -> String {
    let DoraFigures {
        successes,
        successes_per_day,
        lead_time,
        changes,
        failed_changes,
        change_failure_percent,
        time_to_restore,
        unrestored,
    } = dora;
    let rate = change_failure_percent.map_or_else(|| "-".to_owned(), |rate| format!("{rate} %"));
    let mut text = format!("\n{BOLD}DORA{BOLD:#}\n");
    for (name, value) in [
        (
            "deployment frequency",
            format!("{successes_per_day} a day ({successes} changes succeeded)"),
        ),
        ("lead time for changes", lengths(lead_time)),
        ("change failure rate", format!("{rate} ({failed_changes} of {changes} changes)")),
        ("time to restore", lengths(time_to_restore)),
        ("not restored yet", unrestored.to_string()),
    ] {
        text += &format!("  {DIM}{name:<22}{DIM:#} {value}\n");
    }
    text
}

fn lengths(summary: &LapseSummary) -> String {
    let LapseSummary { count, average_millis, p50_millis, p90_millis, p99_millis: _, skewed } =
        summary;
    if *count == 0 {
        return "-".to_owned();
    }
    let skewed = if *skewed == 0 { String::new() } else { format!(", {skewed} skewed") };
    format!(
        "p50 {}, p90 {}, average {}{skewed}",
        cell(*p50_millis),
        cell(*p90_millis),
        cell(*average_millis)
    )
}

fn cell(length: Option<u64>) -> String {
    length.map_or_else(|| "-".to_owned(), millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> InsightsAnswer {
        let lengths = |n: u64| {
            serde_json::json!({
                "count": 118, "average_millis": 4_600 * n, "p50_millis": 4_200 * n, "p90_millis": 9_100 * n,
                "p99_millis": 3_700_000 * n, "skewed": n,
            })
        };
        let interval = |(n, word): (u64, &str)| {
            let mut json = lengths(n);
            json["interval"] = word.into();
            json
        };
        let words = ["deployer", "pickup", "wait", "sync", "total"];
        serde_json::from_value(serde_json::json!({
            "since": "2026-11-21T03:00:00Z", "until": "2026-11-21T09:00:00Z", "complete": false,
            "deployments": 123, "intervals": (1..).zip(words).map(interval).collect::<Vec<_>>(),
            "outcomes": [{"state": "succeeded", "count": 120}, {"state": "failed", "count": 3}],
            "dora": {
                "successes": 118, "successes_per_day": 472.0, "lead_time": lengths(1), "changes": 121,
                "failed_changes": 3, "change_failure_percent": 2.4, "time_to_restore": lengths(2),
                "unrestored": 1,
            },
            "rollouts": {
                "started": 12, "open": 2, "done": 7, "undone": 1, "undo_failed": 1, "cancelled": 1,
                "undo_percent": 20.0, "duration": lengths(3),
            },
        }))
        .unwrap()
    }

    fn plain(answer: &InsightsAnswer) -> String {
        anstream::adapter::strip_str(&page(answer, Some(80))).to_string()
    }

    #[test]
    fn the_figures_fit_a_terminal_of_80_columns() {
        let text = plain(&answer());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for part in [
            "123 received: 120 succeeded, 3 failed",
            "only the newest of them are counted, since 2026-11-21 03:00 UTC",
            "deployer time",
            "pickup to synced",
            "1 h 1 min",
            "472 a day (118 changes succeeded)",
            "2.4 % (3 of 121 changes)",
            "not restored yet       1",
            "started                12 (2 open, 7 done, 1 cancelled)",
            "undo rate              20 % (1 undone, 1 not to the end)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_window_without_deployments_has_dashes() {
        let mut nothing = answer();
        nothing.outcomes.clear();
        (nothing.deployments, nothing.complete) = (0, true);
        nothing.dora = DoraFigures::default();
        nothing.rollouts = RolloutFigures::default();
        for interval in &mut nothing.intervals {
            interval.lengths = LapseSummary::default();
        }
        let text = plain(&nothing);
        assert!(text.starts_with("0 received\n") && !text.contains("rollouts"), "{text}");
        assert!(text.contains("change failure rate    - (0 of 0 changes)"), "{text}");
    }

    #[test]
    fn a_window_is_what_the_service_takes() {
        assert_eq!(window("24h").as_deref(), Ok("24h"));
        assert_eq!(window("91d").unwrap_err(), "at most 90d");
        for wrong in ["0h", "-1h", "six", "", "1y"] {
            assert_eq!(window(wrong).unwrap_err(), DURATIONS, "{wrong}");
        }
        assert_eq!(app("devx/shop").unwrap().to_string(), "devx/shop");
        assert!(app("shop").is_err());
    }
}
