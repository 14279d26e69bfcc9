//! CPU and memory in Kubernetes' own words.

use serde_json::{Map, Value as Json, json};

use crate::waml::section_workload::{Amounts, Resources};

/// Shows resources in the form of a container's; null when nothing is set.
pub(super) fn resources(resources: Option<&Resources>) -> Json {
    let amounts = |amounts: Option<&Amounts>| {
        let Amounts { cpu, memory, ephemeral_storage } = amounts?;
        let amounts_by_name =
            [("cpu", cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage)];
        let set = amounts_by_name
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?))));
        Some(Json::Object(set.collect()))
    };
    let amounts_of_kinds = resources.map(|r| {
        [("requests", amounts(r.requests.as_ref())), ("limits", amounts(r.limits.as_ref()))]
    });
    let set = amounts_of_kinds
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let map: Map<String, Json> = set.collect();
    if map.is_empty() { Json::Null } else { Json::Object(map) }
}
