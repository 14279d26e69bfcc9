//! Asks the gates of rollouts. The time between two questions to a gate is the caller's business.

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::rollouts::gate_clients::RolloutGates;
use crate::lookups::gates::GateReply;
use crate::lookups::gates::clients::GateClients;
use crate::lookups::gates::promql::ValueBound;
use crate::model::lock::Window;
use crate::model::window::{self, Opening};
use crate::rollout::facts::{GateAnswer, GateOutcome};
use crate::rollout::plan::{Bound, Gate};
use crate::support::clock::Clock;

impl Deployments {
    /// Asks a gate, and returns the answer of that step. It takes at most the time of the settings, 10 s by default.
    pub async fn ask_gate(&self, gate: &Gate, step: usize, now: Timestamp) -> GateAnswer {
        ask(&self.gates, &self.clock, (gate, step), now).await
    }
}

async fn ask(
    gates: &RolloutGates,
    clock: &Clock,
    (gate, step): (&Gate, usize),
    now: Timestamp,
) -> GateAnswer {
    let watch = clock.stopwatch();
    let reply = reply(&gates.clients, gate, now).await;
    let (result, value) = match reply {
        GateReply::Passed(value) => (GateOutcome::Passed, value),
        GateReply::NotPassed(value) => (GateOutcome::NotPassed, value),
        GateReply::Unanswered(reason) => (GateOutcome::Unanswered, reason),
    };
    gates.metrics.observe(gate.kind(), result.as_str(), Duration::from_micros(watch.micros()));
    GateAnswer { step, at: now, result, value }
}

async fn reply(clients: &GateClients, gate: &Gate, now: Timestamp) -> GateReply {
    match gate {
        Gate::Http { url } => clients.ask_http(url).await,
        Gate::PromQl { query, bound } => {
            let bound = match bound {
                Bound::AtMost(limit) => ValueBound::AtMost(limit),
                Bound::AtLeast(limit) => ValueBound::AtLeast(limit),
            };
            clients.ask_promql(query, bound).await
        }
        Gate::NoAlert { matchers } => clients.ask_alerts(matchers, now).await,
        Gate::Calendar { windows } => decide_calendar(windows, now),
        Gate::Bake { .. } => no_question("time passes by itself"),
        Gate::Approval { .. } => no_question("a person approves it"),
    }
}

fn no_question(reason: &str) -> GateReply {
    GateReply::Unanswered(format!("nothing can be asked: {reason}"))
}

/// Decides whether the calendar is open.
pub fn decide_calendar(windows: &[Window], now: Timestamp) -> GateReply {
    match window::at_written(windows, now) {
        Err(error) => GateReply::Unanswered(format!("a window of the gate: {error}")),
        Ok(Opening::Open) => GateReply::Passed("the calendar is open".to_owned()),
        Ok(Opening::Closed { reason, next }) => {
            let until = next.map_or_else(
                || "with no time at which it opens".to_owned(),
                |next| next.strftime("until %a %F %H:%M %Z").to_string(),
            );
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            GateReply::NotPassed(format!("the calendar is closed {until}{reason}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::rollouts::gate_clients::GateMetrics;
    use crate::lookups::gates::{GATE_TIMEOUT, GateSettings};
    use crate::support::http::OutboundHttp;
    use crate::support::telemetry::Metrics;

    fn window(days: &str, from: &str, is_closed: bool) -> Window {
        Window {
            days: days.to_owned(),
            from: from.to_owned(),
            to: "17:00".to_owned(),
            time_zone: Some("Europe/Berlin".to_owned()),
            closed: is_closed,
            reason: is_closed.then(|| "freeze".to_owned()),
        }
    }

    #[test]
    fn a_calendar_is_open_or_says_until_when_it_is_closed() {
        let at = |windows: &[Window], now: &str| decide_calendar(windows, now.parse().unwrap());
        let office = [window("mon-fri", "09:00", false)];
        let open = GateReply::Passed("the calendar is open".to_owned());
        assert_eq!(at(&office, "2026-08-21T07:00:00Z"), open);
        assert_eq!(at(&[], "2026-08-21T07:00:00Z"), open, "without windows it is never closed");
        let closed = |text: &str| GateReply::NotPassed(format!("the calendar is closed {text}"));
        assert_eq!(at(&office, "2026-08-21T15:00:00Z"), closed("until Mon 2026-08-24 09:00 CEST"));
        let freeze = [window("*", "17:00", true)];
        assert_eq!(
            at(&freeze, "2026-08-21T15:00:00Z"),
            closed("with no time at which it opens: freeze")
        );
    }

    #[tokio::test]
    async fn a_gate_that_is_not_configured_is_unanswered_says_what_to_configure_and_is_counted() {
        crate::support::http::install_tls_provider();
        let metrics = Metrics::default();
        let settings = GateSettings {
            prometheus: None,
            alertmanager: None,
            http_hosts: Vec::new(),
            http_timeout: GATE_TIMEOUT,
        };
        let gates = RolloutGates {
            clients: GateClients::new(settings, &OutboundHttp::default()).unwrap(),
            metrics: metrics.register(GateMetrics::new),
        };
        let query = Gate::PromQl { query: "up".to_owned(), bound: Bound::AtLeast("1".to_owned()) };
        for (gate, kind, reason) in [
            (
                Gate::Http { url: "https://shop.example.com/".to_owned() },
                "http",
                "`gates.http.allowed_hosts`",
            ),
            (query, "promql", "`gates.prometheus`"),
            (Gate::NoAlert { matchers: Vec::new() }, "no_alert", "`gates.alertmanager`"),
            (Gate::Approval { team: None }, "approval", "a person approves it"),
        ] {
            let now = "2026-11-24T22:30:00Z".parse().unwrap();
            let answer = ask(&gates, &Clock::system(), (&gate, 7), now).await;
            assert_eq!((answer.step, answer.at, answer.result), (7, now, GateOutcome::Unanswered));
            assert!(answer.value.contains(reason), "{answer:?}");
            let count =
                format!("rollout_gate_questions_total{{gate=\"{kind}\",result=\"unanswered\"}} 1");
            assert!(metrics.encode().contains(&count), "{}", metrics.encode());
            let count = format!("rollout_gate_duration_seconds_count{{gate=\"{kind}\"}} 1");
            assert!(metrics.encode().contains(&count), "{}", metrics.encode());
        }
    }

    #[test]
    fn a_window_that_cannot_be_read_leaves_the_calendar_unanswered() {
        let windows = [window("mon-fri", "9:00", false)];
        let reply = decide_calendar(&windows, "2026-08-21T07:00:00Z".parse().unwrap());
        let GateReply::Unanswered(reason) = &reply else { panic!("{reply:?}") };
        assert!(reason.contains("`from`: \"9:00\" is not a time of day"), "{reason}");
    }
}
