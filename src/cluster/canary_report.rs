//! Reads why Flagger holds a canary back: from the events that it records about it, which its status leaves out.
//!
//! Flagger writes a sentence for each look, `Halt shop.devx advancement request duration 2.485s > 1s`. Kubernetes keeps
//! events for an hour, makes one of several that are alike, and lists them in no order, so the newest counts, and only
//! what came after the run began.

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::cluster::fields::{MESSAGE_BYTES, text_at, time_at};
use crate::cluster::flagger::CanaryReport;
use crate::model::status::one_line;
use crate::support::secret_mask::mask_secrets;

/// The longest reason, in characters.
const REASON_CHARS: usize = 200;

/// Finds the newest reason among the events of a canary; `None` where none of this run says why.
pub fn read_report(events: &[Json]) -> Option<CanaryReport> {
    let mut sentences: Vec<(Timestamp, Box<str>)> = events.iter().filter_map(read_event).collect();
    sentences.sort();
    let begin = sentences.iter().rposition(|(_, text)| begins_run(text));
    let of_run = sentences.get(begin.map_or(0, |begin| begin + 1)..).unwrap_or_default();
    let reason = of_run.iter().rev().find_map(|(_, text)| read_reason(text))?;
    let failed_checks = of_run.iter().rev().find_map(|(_, text)| read_count(text));
    Some(CanaryReport { reason, failed_checks })
}

fn read_event(event: &Json) -> Option<(Timestamp, Box<str>)> {
    let times = [
        &["lastTimestamp"][..],
        &["series", "lastObservedTime"],
        &["eventTime"],
        &["metadata", "creationTimestamp"],
    ];
    let at = times.iter().find_map(|path| time_at(event, path))?;
    Some((at, text_at(event, &["message"], MESSAGE_BYTES)?))
}

fn begins_run(text: &str) -> bool {
    text.starts_with("New revision detected!")
}

/// Reads the reason of a sentence that says one: `request duration 2.485 s > 1 s`.
fn read_reason(text: &str) -> Option<String> {
    let reason = if let Some(rest) = text.strip_prefix("Halt ") {
        // `Halt NAME.NAMESPACE advancement REASON`, or `Halt advancement REASON`.
        let (_, reason) = rest.split_once("advancement ")?;
        let reason = reason
            .split(": ")
            .next()
            .filter(|_| reason.contains("no values found"))
            .unwrap_or(reason);
        reason.to_owned()
    } else if text.starts_with("Prometheus query failed")
        || text.starts_with("Metric query failed")
        || text.starts_with("Metric template")
        || text.starts_with("canary deployment ")
    {
        text.to_owned()
    } else if let Some((_, reason)) = text.split_once(" progress deadline exceeded ") {
        format!("progress deadline exceeded: {reason}")
    } else if text.starts_with("Rolling back ") && text.ends_with("manual webhook invoked") {
        "a webhook asked to roll it back".to_owned()
    } else {
        return None;
    };
    Some(one_line(&mask_secrets(&space_units(&reason)), REASON_CHARS))
}

/// Reads the number of failed checks at which Flagger rolled back.
fn read_count(text: &str) -> Option<u32> {
    text.split_once("failed checks threshold reached ")?.1.trim().parse().ok()
}

/// Writes Go's durations with a space before the unit: `2.485s` becomes `2.485 s`.
fn space_units(text: &str) -> String {
    let word = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.');
        match end.map(|end| word.split_at(end)) {
            Some((number, unit @ ("s" | "ms" | "µs" | "m" | "h"))) if !number.is_empty() => {
                format!("{number} {unit}")
            }
            Some(_) | None => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(minute: u32, message: &str) -> Json {
        json!({"message": message, "lastTimestamp": format!("2026-11-21T10:{minute:02}:00Z")})
    }

    fn reason(events: &[Json]) -> Option<String> {
        read_report(events).map(|report| report.reason)
    }

    #[test]
    fn the_newest_reason_of_this_run_counts() {
        let slow = event(4, "Halt shop.devx advancement request duration 2.485s > 1s");
        let faults = event(3, "Halt shop.devx advancement success rate 61.39% < 99%");
        let begin = event(2, "New revision detected! Scaling up shop.devx");
        let former = event(1, "Halt shop.devx advancement success rate 0.00% < 99%");
        let all = [slow.clone(), begin.clone(), former.clone(), faults.clone()];
        assert_eq!(reason(&all).unwrap(), "request duration 2.485 s > 1 s");
        assert_eq!(reason(&[begin.clone(), faults]).unwrap(), "success rate 61.39% < 99%");
        assert_eq!(reason(&[begin, former.clone()]), None, "the run before");
        assert!(reason(&[former]).is_some(), "its begin is forgotten by now");
    }

    #[test]
    fn the_end_of_a_run_counts_its_checks() {
        let events = [
            event(1, "Halt shop.devx advancement request duration 1.2s > 1s"),
            event(2, "Rolling back shop.devx failed checks threshold reached 3"),
            event(2, "Canary failed! Scaling down shop.devx"),
        ];
        let report = read_report(&events).unwrap();
        assert_eq!(
            (report.reason.as_str(), report.failed_checks),
            ("request duration 1.2 s > 1 s", Some(3))
        );
    }

    #[test]
    fn other_sentences_say_it_in_their_own_words() {
        for (message, said) in [
            (
                "Halt advancement no values found for istio metric request-success-rate probably shop.devx is not receiving traffic: no values found",
                "no values found for istio metric request-success-rate probably shop.devx is not receiving traffic",
            ),
            (
                "Halt shop.devx advancement external check load-test failed Post http://l/: EOF",
                "external check load-test failed Post http://l/: EOF",
            ),
            ("Rolling back shop.devx manual webhook invoked", "a webhook asked to roll it back"),
            (
                "Rolling back shop.devx progress deadline exceeded shop.devx not ready",
                "progress deadline exceeded: shop.devx not ready",
            ),
            ("Halt shop.devx advancement queue 120.00 > 100", "queue 120.00 > 100"),
        ] {
            assert_eq!(reason(&[event(1, message)]).unwrap(), said);
        }
        for message in [
            "Advance shop.devx canary weight 20",
            "Halt",
            "",
            "Starting canary analysis for shop.devx",
        ] {
            assert_eq!(reason(&[event(1, message)]), None, "{message}");
        }
    }

    #[test]
    fn absurd_events_say_nothing_and_long_ones_little() {
        assert_eq!(
            read_report(&[
                json!(null),
                json!({"message": 7}),
                json!({"message": "Halt a.b advancement c"})
            ]),
            None
        );
        let long = format!("Halt a.b advancement {}", "x".repeat(10_000));
        assert!(reason(&[event(1, &long)]).unwrap().chars().count() <= REASON_CHARS);
        let secret =
            "Halt a.b advancement Post http://x/?token=ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5";
        assert!(!reason(&[event(1, secret)]).unwrap().contains("ghp_aB3d"));
    }
}
