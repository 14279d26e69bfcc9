//! Formats the workloads and pods of an app for a terminal. Pure.

use super::Target;
use crate::api::pods::{LiveStateAnswer, PodSummary, UnreadObjects, WorkloadSummary};
use crate::cli::output::{BAD, BOLD, NOTE, note_line};
use crate::cli::table::{Column, layout, wrap};
use crate::cli::times::TimeFormatter;

/// The most pods of a target that people are shown: those that cannot serve come first.
const MAX_PODS: usize = 30;

/// Formats the live state of each target that has one.
pub(super) fn of_targets(targets: &[Target], times: TimeFormatter, width: Option<usize>) -> String {
    let mut text = String::new();
    for target in targets {
        if let Some(live) = &target.live {
            text += &of_target(&target.target, live, times, width);
        }
        if let Some(error) = &target.live_error {
            let line = note_line(format!("the pods on {} are not known: {error}", target.target));
            text += &wrap(&line, width);
        }
    }
    text
}

fn of_target(
    target: &str,
    live: &LiveStateAnswer,
    times: TimeFormatter,
    width: Option<usize>,
) -> String {
    let mut text = format!("\n{BOLD}running on {target}{BOLD:#}\n");
    let workloads: String = live.workloads.iter().map(workload).collect();
    text += &wrap(&workloads, width);
    let mut pods: Vec<&PodSummary> = live.pods.iter().collect();
    pods.sort_by_key(|pod| pod.ready);
    let rows: Vec<_> = pods.iter().take(MAX_PODS).map(|pod| row(pod, times)).collect();
    if !rows.is_empty() {
        text += &layout(&columns(), rows, width);
    }
    let hidden = pods.len().saturating_sub(MAX_PODS);
    if hidden > 0 || live.truncated {
        let more = if live.truncated { " or more" } else { "" };
        text +=
            &note_line(format!("{hidden}{more} other pods; --output json has all that are known"));
    }
    let missing = |UnreadObjects { kind, why }: &UnreadObjects| {
        format!("{NOTE}missing{NOTE:#}: {kind}: {why}\n")
    };
    let missing: String = live.missing.iter().map(missing).collect();
    text + &wrap(&missing, width)
}

/// Describes a workload in one line.
fn workload(workload: &WorkloadSummary) -> String {
    let WorkloadSummary { kind, name, wanted, updated, available, state, live } = workload;
    let release = match live {
        Some(false) => ", not the live revision",
        Some(true) | None => "",
    };
    if kind == "CronJob" {
        return format!("  {kind} {name}{release}\n");
    }
    format!(
        "  {kind} {name}: {updated} of {wanted} updated, {available} available, {state}{release}\n"
    )
}

/// Returns the columns of pods.
fn columns() -> [Column; 6] {
    [
        Column::middle("POD", 20),
        Column::whole("STATE").paint(state_colour),
        Column::whole("RESTARTS"),
        Column::whole("AGE").drop(2),
        Column::middle("IMAGE", 8).drop(1),
        Column::fold("REASON", 16),
    ]
}

fn state_colour(cell: &str) -> String {
    match cell {
        "not ready" | "Pending" | "Unknown" => format!("{NOTE}{cell}{NOTE:#}"),
        "Failed" => format!("{BAD}{cell}{BAD:#}"),
        _ => cell.to_owned(),
    }
}

fn row(pod: &PodSummary, times: TimeFormatter) -> [String; 6] {
    let none = || "-".to_owned();
    let state = match pod.phase.as_str() {
        "Running" if !pod.ready => "not ready",
        phase => phase,
    };
    // The repository of an image is the same for all, and long.
    let image = pod.containers.first().map_or_else(none, |container| {
        container.image.rsplit('/').next().unwrap_or_default().to_owned()
    });
    let code = pod.exit_code.map(|code| format!("exit code {code}"));
    let reason: Vec<String> =
        [pod.reason.clone(), code, pod.message.clone()].into_iter().flatten().collect();
    [
        pod.name.clone(),
        state.to_owned(),
        pod.restarts.to_string(),
        times.past_cell(pod.created_at),
        image,
        if reason.is_empty() { none() } else { reason.join(", ") },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::times::TimeStyle;

    fn state(truncated: bool) -> LiveStateAnswer {
        let pod = |name: &str, ready: bool, reason: Option<&str>| {
            serde_json::json!({
                "name": name, "workload_kind": "Deployment", "workload": "shop", "phase": "Running",
                "ready": ready, "restarts": if ready { 0 } else { 4 }, "reason": reason,
                "message": reason.map(|_| "no such table: users"), "exit_code": reason.map(|_| 1),
                "created_at": "2026-11-21T11:30:00Z", "later": true,
                "containers": [{"name": "shop", "image": "registry.example.com/team/shop:1.11"}],
            })
        };
        let pods = [
            pod("shop-7c9d8f6b54-aaaaa", true, None),
            pod("shop-7c9d8f6b54-bbbbb", false, Some("CrashLoopBackOff")),
        ];
        let workload = |kind: &str, live: Option<bool>| {
            serde_json::json!({
                "kind": kind, "name": "shop", "wanted": 2, "updated": 2, "available": 1,
                "state": "starting", "live": live,
            })
        };
        let workloads = [workload("CronJob", None), workload("Deployment", Some(false))];
        serde_json::from_value(serde_json::json!({
            "at": "2026-11-21T12:00:00Z", "digest": null, "workloads": workloads, "pods": pods,
            "truncated": truncated, "missing": [{"kind": "jobs.batch", "why": "forbidden"}],
        }))
        .unwrap()
    }

    #[test]
    fn pods_fit_a_terminal_and_the_bad_ones_come_first() {
        let times = TimeFormatter {
            now: "2026-11-21T12:00:00Z".parse().unwrap(),
            style: TimeStyle::Relative,
        };
        let text = of_target("prod", &state(true), times, Some(80));
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "running on prod CronJob shop Deployment shop: 2 of 2 updated, 1 available, starting,",
            "starting, not the live revision POD",
            "0 or more other pods",
            "missing: jobs.batch: forbidden",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
        let line = |end: &str| text.lines().position(|line| line.contains(end)).unwrap();
        assert!(line("bbbbb") < line("aaaaa"), "{text}");
        assert!(text.contains("CrashLoopBackOff") && text.contains("not ready"), "{text}");
        assert!(!of_target("prod", &state(false), times, None).contains("other pods"));
    }
}
