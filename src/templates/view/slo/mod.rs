//! The service level objective: its numbers, its indicators, and its rules.
//!
//! For each of availability and latency, over HTTP and over gRPC, as far as the app has them, there are recording rules
//! for the share of failed requests over several windows, and alerts by burn rate (Site Reliability Workbook, chapter
//! 5).

mod traefik; // what Traefik calls what it counts
mod indicators;
mod rules;

use serde_json::{Value as Json, json};

use crate::model::platform::monitoring::Objectives;
use crate::templates::view::observability::ObservedApp;
use crate::waml::section_operations::Slo;

pub(crate) use indicators::{Indicator, find_missing_part, indicators, usual_bounds};
pub(crate) use rules::FASTEST_BURN;

/// Builds `slo` of the view: the objects' labels, the objectives, and a group of rules for each. Null without `slo`,
/// and where the target has no Prometheus that would take them.
pub(super) fn build_slo_view(watched: &ObservedApp<'_>) -> Json {
    let Some(slo) = watched.section.slo.as_ref().filter(|_| watched.monitoring().enabled) else {
        return Json::Null;
    };
    let promise = resolve_objective(slo, &watched.monitoring().slo);
    let indicators = indicators(watched, &promise);
    let groups: Vec<Json> =
        indicators.iter().map(|indicator| rules::group(watched, indicator)).collect();
    let objectives: Vec<Json> = indicators
        .iter()
        .map(|indicator| json!({"name": indicator.name, "percent": indicator.percent}))
        .collect();
    json!({
        "requestClass": slo.request_class,
        "labels": watched.object_labels(),
        "objectives": objectives,
        "groups": groups,
    })
}

/// The numbers of an objective; parts without a value are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ObjectiveView {
    /// Percent of requests that succeed.
    pub(crate) availability: Option<f64>,
    /// Milliseconds within which requests are answered.
    pub(crate) milliseconds: Option<u32>,
    /// Percent of requests that are that fast.
    pub(crate) fast: Option<f64>,
}

/// Finds the named class, if it is one of the operator's, with the WAML's own numbers over it.
pub(crate) fn resolve_objective(slo: &Slo, objectives: &Objectives) -> ObjectiveView {
    let class = slo.request_class.as_ref().and_then(|name| objectives.classes.get(name));
    let latency = class.and_then(|class| class.latency);
    let own_latency = slo.latency.as_ref();
    ObjectiveView {
        availability: slo.availability.or(class.map(|class| class.availability)),
        milliseconds: own_latency.and_then(|l| l.milliseconds).or(latency.map(|l| l.milliseconds)),
        fast: own_latency.and_then(|l| l.objective).or(latency.map(|l| l.objective)),
    }
}
