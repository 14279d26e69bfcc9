//! Judges what Alertmanager answers. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::lookups::gates::GateReply;

/// The time after its start in which Alertmanager may not have heard of all alerts: it keeps none over a restart, and
/// Prometheus sends those that fire again every minute (`resend-delay`).
const MIN_UPTIME: SignedDuration = SignedDuration::from_mins(2);
/// The most names of alerts that are shown.
const MAX_NAMES: usize = 5;
/// The state of an alert that is silenced or inhibited.
const SUPPRESSED: &str = "suppressed";

/// An alert, as far as it matters.
#[derive(Deserialize)]
struct GettableAlert {
    labels: BTreeMap<String, String>,
    status: AlertStatus,
}

#[derive(Deserialize)]
struct AlertStatus {
    state: String,
}

/// The status of the server.
#[derive(Deserialize)]
struct ServerStatus {
    /// The time of its start.
    uptime: Timestamp,
}

/// Returns the text of an answer that is an error: a text in JSON.
pub(super) fn read_error(body: &[u8]) -> Option<String> {
    serde_json::from_slice(body).ok()
}

/// Judges the alerts of an answer, and whether the server can know of all: `now` is the time of the question.
///
/// # Errors
/// The reason why they say nothing.
pub(super) fn judge(alerts: &[u8], status: &[u8], now: Timestamp) -> Result<GateReply, String> {
    let unreadable = |_| "Alertmanager answers what cannot be read".to_owned();
    let alerts: Vec<GettableAlert> = serde_json::from_slice(alerts).map_err(unreadable)?;
    let ServerStatus { uptime } = serde_json::from_slice(status).map_err(unreadable)?;
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    // A server that does not know the filters sends those that are silenced, too.
    for alert in alerts.into_iter().filter(|alert| alert.status.state != SUPPRESSED) {
        let name = alert.labels.get("alertname").cloned();
        *names.entry(name.unwrap_or_else(|| "an alert without a name".to_owned())).or_default() +=
            1;
    }
    if !names.is_empty() {
        return Ok(GateReply::NotPassed(firing_sentence(&names)));
    }
    let up = now.duration_since(uptime);
    if up < MIN_UPTIME {
        return Err(format!(
            "no alert fires, but Alertmanager started at {uptime:.0}, and knows all alerts only {} minutes later",
            MIN_UPTIME.as_mins()
        ));
    }
    Ok(GateReply::Passed("no alert fires".to_owned()))
}

fn firing_sentence(names: &BTreeMap<String, usize>) -> String {
    let count: usize = names.values().sum();
    let name = |(name, count): (&String, &usize)| match count {
        1 => name.clone(),
        count => format!("{name} ({count} times)"),
    };
    let texts: Vec<_> = names.iter().take(MAX_NAMES).map(name).collect();
    let rest = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        rest => format!(", and {rest} others"),
    };
    let verb = if count == 1 { "alert fires" } else { "alerts fire" };
    format!("{count} {verb}: {}{rest}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-24T22:30:00Z";

    fn judge_at(alerts: &[(&str, &str)], start: &str) -> Result<GateReply, String> {
        let alert = |(name, state): &(&str, &str)| {
            serde_json::json!({
                "annotations": {}, "fingerprint": "4f000a279caba656", "receivers": [{"name": "none"}],
                "startsAt": "2026-11-24T22:24:31.735Z", "endsAt": "2026-11-24T22:29:31.735Z",
                "updatedAt": "2026-11-24T22:24:31.735Z", "labels": {"alertname": name, "severity": "critical"},
                "status": {"inhibitedBy": [], "silencedBy": [], "state": state},
            })
        };
        let alerts: serde_json::Value = alerts.iter().map(alert).collect();
        let status = serde_json::json!({
            "cluster": {"peers": [], "status": "disabled"}, "config": {"original": "x"},
            "uptime": start, "versionInfo": {"version": "0.25.0"},
        });
        let (alerts, status) = (alerts.to_string(), status.to_string());
        judge(alerts.as_bytes(), status.as_bytes(), NOW.parse().unwrap())
    }

    fn judge_alerts(alerts: &[(&str, &str)]) -> Result<GateReply, String> {
        judge_at(alerts, "2026-11-20T00:00:00.294Z")
    }

    #[test]
    fn it_passes_when_no_alert_fires_and_names_those_that_do() {
        let not_passed = |text: &str| Ok(GateReply::NotPassed(text.to_owned()));
        assert_eq!(judge_alerts(&[]), Ok(GateReply::Passed("no alert fires".to_owned())));
        assert_eq!(judge_alerts(&[("Down", "active")]), not_passed("1 alert fires: Down"));
        let down = [("Down", "active"), ("Down", "unprocessed"), ("Slow", "active")];
        assert_eq!(judge_alerts(&down), not_passed("3 alerts fire: Down (2 times), Slow"));
        let names: Vec<String> = (1..=7).map(|n| format!("A{n}")).collect();
        let alerts: Vec<_> = names.iter().map(|name| (name.as_str(), "active")).collect();
        let expected = "7 alerts fire: A1, A2, A3, A4, A5, and 2 others";
        assert_eq!(judge_alerts(&alerts), not_passed(expected));
    }

    #[test]
    fn an_alert_that_is_suppressed_does_not_fire() {
        let alerts = [("Down", "suppressed")];
        assert_eq!(judge_alerts(&alerts), Ok(GateReply::Passed("no alert fires".to_owned())));
    }

    #[test]
    fn a_server_that_has_just_started_says_nothing_but_that_an_alert_fires() {
        for start in ["2026-11-24T22:29:00Z", "2026-11-24T22:28:00.001Z", "2026-11-24T22:31:00Z"] {
            let reason = judge_at(&[], start).unwrap_err();
            assert!(reason.contains("knows all alerts only 2 minutes later"), "{reason}");
            assert!(matches!(judge_at(&[("Down", "active")], start), Ok(GateReply::NotPassed(_))));
        }
        assert!(matches!(judge_at(&[], "2026-11-24T22:28:00Z"), Ok(GateReply::Passed(_))));
    }

    #[test]
    fn an_answer_of_another_form_is_unanswered() {
        let status = br#"{"uptime": "2026-11-20T00:00:00Z"}"#;
        let now = NOW.parse().unwrap();
        for alerts in [
            "",
            "<html>",
            "{}",
            "null",
            "[1]",
            r#"[{"labels":{}}]"#,
            r#"{"status":"success","data":[]}"#,
        ] {
            let result = judge(alerts.as_bytes(), status, now);
            assert_eq!(result.unwrap_err(), "Alertmanager answers what cannot be read", "{alerts}");
        }
        for status in ["", "{}", r#"{"uptime":"yesterday"}"#] {
            assert!(judge(b"[]", status.as_bytes(), now).is_err(), "{status}");
        }
        assert_eq!(
            read_error(br#""bad matcher format: x""#).as_deref(),
            Some("bad matcher format: x")
        );
        assert_eq!(read_error(br#"{"code":601}"#), None);
    }

    proptest::proptest! {
        #[test]
        fn no_answer_makes_it_panic_and_only_a_list_passes(
            parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..16),
        ) {
            let body = parts.concat();
            let _ = read_error(body.as_bytes());
            let status = br#"{"uptime": "2026-11-20T00:00:00Z"}"#;
            let result = judge(body.as_bytes(), status, NOW.parse().unwrap());
            if matches!(result, Ok(GateReply::Passed(_))) {
                let json: serde_json::Value = serde_json::from_str(&body).unwrap();
                let is_suppressed = |alert: &serde_json::Value| alert["status"]["state"] == "suppressed";
                proptest::prop_assert!(json.as_array().unwrap().iter().all(is_suppressed), "{}", body);
            }
        }
    }

    const PARTS: &[&str] = &[
        "[",
        "]",
        ",",
        "{",
        "}",
        r#""labels":{"alertname":"A"}"#,
        r#""status":{"state":"active"}"#,
        r#""status":{"state":"suppressed"}"#,
        r#"{"labels":{},"status":{"state":"active"}}"#,
        r#"{"labels":{},"status":{"state":"suppressed"}}"#,
        "null",
        "\u{0}",
        "é",
    ];
}
