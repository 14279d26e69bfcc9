//! Scaling by events, by KEDA.

use serde_json::{Map, Value as Json, json};

use crate::templates::view::pod::{list, set_only};
use crate::waml::section_workload::Keda;

/// Shows KEDA's numbers as keys of a `ScaledObject`'s `spec`; null without any.
pub(super) fn build_scaled_object_view(keda: Option<&Keda>) -> Json {
    let Some(keda) = keda else { return Json::Null };
    let Keda { min_replicas, max_replicas, polling_interval_seconds, cooldown_seconds, triggers } =
        keda;
    let triggers = triggers.iter().flatten().map(|trigger| {
        let metadata = trigger.metadata.iter().flatten();
        let metadata: Map<String, Json> = metadata
            .filter_map(|(key, value)| Some((key.clone(), json!(value.as_ref()?))))
            .collect();
        let authentication = trigger.authentication.as_ref().map(|name| json!({"name": name}));
        set_only([
            ("type", json!(trigger.scaler)),
            ("name", json!(trigger.name)),
            ("metadata", Json::Object(metadata)),
            ("authenticationRef", json!(authentication)),
        ])
    });
    set_only([
        ("pollingInterval", json!(polling_interval_seconds)),
        ("cooldownPeriod", json!(cooldown_seconds)),
        ("minReplicaCount", json!(min_replicas)),
        ("maxReplicaCount", json!(max_replicas)),
        ("triggers", list(triggers.collect())),
    ])
}
