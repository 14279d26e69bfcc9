//! The service level objective: what is promised, what measures it, and the rules that follow.
//!
//! For each of availability and latency, over HTTP and over gRPC, as far as the app has them:
//! recording rules for the share of failed requests over several windows, and alerts by burn
//! rate (Site Reliability Workbook, chapter 5).

mod traefik; // what Traefik calls what it counts
mod indicators;
mod promise;
mod rules;

use serde_json::{Value as Json, json};

use crate::templates::view::watched::Watched;

pub(crate) use indicators::{Indicator, indicators, unmeasured, usual_bounds};
pub(crate) use promise::{Promise, promised};
pub(crate) use rules::FASTEST_BURN;

/// What templates see as `slo`: the objects' labels, what is promised, and a group of rules for
/// each objective. Null without `slo`, and where the target has no Prometheus that would take them.
pub(super) fn of(watched: &Watched<'_>) -> Json {
    let Some(slo) = watched.section.slo.as_ref().filter(|_| watched.monitoring().enabled) else {
        return Json::Null;
    };
    let promise = promised(slo, &watched.monitoring().slo);
    let indicators = indicators(watched, &promise);
    let groups: Vec<Json> = indicators.iter().map(|one| rules::group(watched, one)).collect();
    let objectives: Vec<Json> =
        indicators.iter().map(|one| json!({"name": one.name, "percent": one.percent})).collect();
    json!({
        "requestClass": slo.request_class,
        "labels": watched.object_labels(),
        "objectives": objectives,
        "groups": groups,
    })
}
