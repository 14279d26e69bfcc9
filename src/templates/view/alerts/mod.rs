//! The rules of the alerts, one group for each kind of object that they watch.
//!
//! An alert is on when `alerts` has it, the template's defaults included, and does not turn it off; and when the app
//! has the part that it measures.

mod expressions;
mod texts;

use serde_json::{Map, Value as Json, json};

use crate::templates::alerts::{ALERTS, AlertNeeds, AlertRule as Known, find, in_prometheus};
use crate::templates::view::observability::ObservedApp;
use crate::waml::section_operations::Alert;

pub(crate) use expressions::{GRPC_FAILED, expression};

/// Builds what templates see as `alerts`: the objects' labels, and a list of rules for each group.
/// Null where the target has no Prometheus that would take them.
pub(super) fn build_alerts_view(watched: &ObservedApp<'_>) -> Json {
    if !watched.monitoring().enabled {
        return Json::Null;
    }
    json!({
        "labels": watched.object_labels(),
        "workload": rules(watched, &[AlertNeeds::Pods, AlertNeeds::Replicas, AlertNeeds::Autoscaler]),
        "cron": rules(watched, &[AlertNeeds::Schedule]),
        "grpc": rules(watched, &[AlertNeeds::Grpc]),
        "database": rules(watched, &[AlertNeeds::Database]),
        "redis": rules(watched, &[AlertNeeds::Redis]),
        "own": own_rules(watched),
    })
}

/// Lists the alerts that are set and not turned off.
pub(crate) fn on<'a>(watched: &ObservedApp<'a>) -> impl Iterator<Item = (&'a str, &'a Alert)> {
    let alerts = watched.section.alerts.iter().flatten();
    alerts
        .filter_map(|(name, alert)| Some((name.as_str(), alert.as_ref()?)))
        .filter(|(_, alert)| alert.enabled != Some(false))
}

/// Finds a default alert as the app has it, if it is on.
pub(crate) fn setting<'a>(watched: &ObservedApp<'a>, name: &str) -> Option<&'a Alert> {
    on(watched).find(|(other, _)| *other == name).map(|(_, alert)| alert)
}

fn rules(watched: &ObservedApp<'_>, needs: &[AlertNeeds]) -> Vec<Json> {
    let of_group = ALERTS.iter().filter(|alert| needs.contains(&alert.needs));
    of_group
        .filter_map(|known_alert| rule(watched, known_alert, setting(watched, known_alert.name)?))
        .collect()
}

fn rule(watched: &ObservedApp<'_>, known_alert: &Known, alert: &Alert) -> Option<Json> {
    let expr = expression(watched, known_alert, alert.threshold.unwrap_or_default()).ok()?;
    let (summary, text) = texts::describe_alert(known_alert.name, watched);
    Some(of_prometheus(watched, known_alert.name, alert, &expr, &summary, &text))
}

/// Lists the app's own alerts: names that are no default alert's, with an expression.
fn own_rules(watched: &ObservedApp<'_>) -> Vec<Json> {
    let own_alerts = on(watched).filter(|(name, _)| find(name).is_none());
    own_alerts
        .filter_map(|(name, alert)| {
            let expr = alert.expr.as_ref()?;
            let summary =
                alert.summary.clone().unwrap_or_else(|| format!("{}: {name}", watched.slug()));
            let text = alert.description.as_deref().unwrap_or_default();
            Some(of_prometheus(watched, name, alert, expr, &summary, text))
        })
        .collect()
}

/// Writes one rule in Prometheus' own shape.
pub(super) fn of_prometheus(
    watched: &ObservedApp<'_>,
    name: &str,
    alert: &Alert,
    expr: &str,
    summary: &str,
    text: &str,
) -> Json {
    let mut rule = Map::new();
    rule.insert("alert".to_owned(), in_prometheus(name).into());
    rule.insert("expr".to_owned(), expr.into());
    if let Some(duration) = alert.for_.as_ref().filter(|duration| *duration != "0") {
        rule.insert("for".to_owned(), json!(duration));
    }
    rule.insert("labels".to_owned(), watched.labels(alert).into());
    rule.insert("annotations".to_owned(), watched.annotations(name, summary, text).into());
    Json::Object(rule)
}
