//! The rules of one objective.
//!
//! Two series are counted, requests and failed requests per second; everything else is computed from them, so that
//! every window weighs requests alike and none reads raw counters over days. Names are the field's (Sloth's); labels
//! are `namespace`, `app`, `slo`.
//!
//! Without traffic there is no ratio, and no alert fires.

use serde_json::{Map, Value as Json, json};

use crate::templates::alerts::{BURNS_FAST, BURNS_SLOWLY};
use crate::templates::view::alerts::{of_prometheus, setting};
use crate::templates::view::observability::ObservedApp;
use crate::templates::view::slo::Indicator;

/// The period of the error budget, in days.
const DAYS: u32 = 30;

/// The windows beyond the first, 5 minutes, over which the share of failed requests is recorded.
const WINDOWS: [&str; 7] = ["30m", "1h", "2h", "6h", "1d", "3d", "30d"];

/// One pair of windows, and the factor by which the budget burns faster than it can bear. The short window ends the
/// alert soon after the failures do.
struct Burn {
    rate: f64,
    long: &'static str,
    short: &'static str,
}

/// The greatest burn rate that is looked for: 2 % of the budget within an hour.
pub(crate) const FASTEST_BURN: f64 = 14.4;

/// A page: 2 % of the budget in an hour, 5 % in 6 hours.
const FAST: [Burn; 2] = [
    Burn { rate: FASTEST_BURN, long: "1h", short: "5m" },
    Burn { rate: 6.0, long: "6h", short: "30m" },
];

/// A ticket: 10 % of the budget in a day, 10 % in 3 days.
const SLOW: [Burn; 2] =
    [Burn { rate: 3.0, long: "1d", short: "2h" }, Burn { rate: 1.0, long: "3d", short: "6h" }];

/// Writes one group: recordings in the order in which they build on each other, then alerts.
pub(super) fn group(watched: &ObservedApp<'_>, indicator: &Indicator) -> Json {
    let objective = Objective { watched, indicator };
    let mut rules = objective.recordings();
    rules.extend(objective.budget());
    rules.extend(objective.alerts());
    json!({"name": format!("{}.{}", watched.slug(), indicator.name), "rules": rules})
}

struct Objective<'a> {
    watched: &'a ObservedApp<'a>,
    indicator: &'a Indicator,
}

impl Objective<'_> {
    /// Writes the objective's own labels:
    /// `{namespace="devx", app="my-app", slo="http-availability"}`
    fn own_labels(&self) -> String {
        let (namespace, app) = (self.watched.namespace(), self.watched.slug());
        format!(r#"{{namespace="{namespace}", app="{app}", slo="{}"}}"#, self.indicator.name)
    }

    fn labels(&self) -> Map<String, Json> {
        let labels = [
            ("namespace", self.watched.namespace()),
            ("app", self.watched.slug()),
            ("slo", self.indicator.name),
        ];
        labels.map(|(key, value)| (key.to_owned(), json!(value))).into_iter().collect()
    }

    fn record(&self, name: &str, expr: &str) -> Json {
        json!({"record": name, "expr": expr, "labels": self.labels()})
    }

    fn recordings(&self) -> Vec<Json> {
        let labels = self.own_labels();
        let (total, failed) = ("slo:sli_total:rate5m", "slo:sli_error:rate5m");
        let mut rules = vec![
            self.record(total, &self.indicator.all),
            self.record(failed, &self.indicator.failed),
            self.record(&ratio("5m"), &format!("{failed}{labels}\n/\n({total}{labels} > 0)")),
        ];
        for window in WINDOWS {
            let sum = |series: &str| format!("sum_over_time({series}{labels}[{window}])");
            let expr = format!("{}\n/\n({} > 0)", sum(failed), sum(total));
            rules.push(self.record(&ratio(window), &expr));
        }
        rules
    }

    /// Lists what dashboards show of the budget.
    fn budget(&self) -> Vec<Json> {
        let (labels, budget) = (self.own_labels(), self.budget_ratio());
        let period = format!("{DAYS}d");
        [
            ("slo:objective:ratio", format!("vector({})", decimal(self.indicator.percent))),
            ("slo:error_budget:ratio", format!("vector({budget})")),
            ("slo:time_period:days", format!("vector({DAYS})")),
            ("slo:current_burn_rate:ratio", format!("{}{labels} / {budget}", ratio("5m"))),
            ("slo:period_burn_rate:ratio", format!("{}{labels} / {budget}", ratio(&period))),
            (
                "slo:period_error_budget_remaining:ratio",
                format!("1 - slo:period_burn_rate:ratio{labels}"),
            ),
        ]
        .map(|(name, expr)| self.record(name, &expr))
        .into()
    }

    fn alerts(&self) -> Vec<Json> {
        let burns_by_name = [(BURNS_FAST, &FAST), (BURNS_SLOWLY, &SLOW)];
        burns_by_name.into_iter().filter_map(|(name, burns)| self.alert(name, burns)).collect()
    }

    fn alert(&self, name: &str, burns: &[Burn; 2]) -> Option<Json> {
        let alert = setting(self.watched, name)?;
        let parts: Vec<String> = burns.iter().map(|burn| self.over(burn)).collect();
        let Indicator { name: slo, percent, fault, .. } = self.indicator;
        let summary = format!("{}: the error budget of {slo} burns", self.watched.slug());
        let text = format!(
            "{{{{ $value | humanizePercentage }}}} of the requests of the last hours {fault}; over {DAYS} days no more than {} % may. {}",
            percentage(100.0 - percent),
            if name == BURNS_FAST {
                "At this rate the budget is gone within days."
            } else {
                "At this rate the budget does not last."
            },
        );
        let expr = parts.join("\nor\n");
        let mut rule = of_prometheus(self.watched, name, alert, &expr, &summary, &text);
        if let Some(labels) = rule.get_mut("labels").and_then(Json::as_object_mut) {
            labels.insert("slo".to_owned(), json!(slo));
        }
        Some(rule)
    }

    /// Writes the condition of an alert; the long window comes first: the alert's text shows its ratio.
    fn over(&self, burn: &Burn) -> String {
        let (labels, budget) = (self.own_labels(), self.budget_ratio());
        let Burn { rate, long, short } = burn;
        let exceeds = |window: &str| format!("{}{labels} > {rate} * {budget}", ratio(window));
        format!("(\n  {}\n  and\n  {}\n)", exceeds(long), exceeds(short))
    }

    fn budget_ratio(&self) -> String {
        decimal(100.0 - self.indicator.percent)
    }
}

fn ratio(window: &str) -> String {
    format!("slo:sli_error:ratio_rate{window}")
}

/// Writes percent as a ratio, without the tail that binary fractions leave: 0.01 percent is
/// `0.0001`.
fn decimal(percent: f64) -> String {
    format_number(&format!("{:.9}", percent / 100.0))
}

fn percentage(percent: f64) -> String {
    format_number(&format!("{percent:.7}"))
}

fn format_number(number: &str) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_written_as_a_person_would() {
        assert_eq!(decimal(100.0 - 99.99), "0.0001");
        assert_eq!(decimal(99.99), "0.9999");
        assert_eq!(decimal(100.0 - 99.5), "0.005");
        assert_eq!(percentage(100.0 - 99.9), "0.1");
    }

    /// Chapter 5, table 5-8: a burn rate over its long window takes so much of 30 days' budget.
    #[test]
    fn burn_rates_take_what_the_workbook_says() {
        let share = |burn: &Burn| {
            burn.rate * crate::templates::promql::seconds(burn.long).unwrap() / (30.0 * 86_400.0)
        };
        let shares: Vec<f64> = FAST.iter().chain(&SLOW).map(share).collect();
        for (share, expected) in shares.into_iter().zip([0.02, 0.05, 0.1, 0.1]) {
            assert!((share - expected).abs() < 1e-9, "{share} {expected}");
        }
    }
}
