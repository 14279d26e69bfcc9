//! What templates see: valid settings with everything resolved that a template would otherwise
//! have to work out. `docs/templates.md` lists it.
//!
//! The names at the top are the WAML's own, so that a template that looks at `service` is known
//! to use `service`. What a WAML does not set is null or empty, never undefined.

pub(crate) mod network;
mod probes;

use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::model::id::is_rfc1123_label;
use crate::model::release::Release;
use crate::pipeline::validate::{NumberOrPercent, Valid};
use crate::waml::section::Section;
use crate::waml::section_operations::Disruption;
use crate::waml::section_workload::{Amounts, Image, Scaling, Secret};

/// The context of a template.
pub(crate) fn of(valid: &Valid<'_>) -> Map<String, Json> {
    let (waml, section, target, release) =
        (valid.waml(), valid.section(), valid.target(), valid.release());
    let slug = waml.app.slug.as_str();
    let mut view = as_written(section);
    let mut set = |name: &str, value: Json| drop(view.insert(name.to_owned(), value));
    set(
        "app",
        json!({
            "name": waml.name, "slug": slug, "namespace": waml.app.namespace,
            "owner": waml.owner, "slack": waml.slack,
        }),
    );
    set(
        "target",
        json!({
            "name": target.name, "domain": target.domain, "environment": target.environment,
            "labels": target.labels, "platform": target.platform,
        }),
    );
    set("release", json!(release));
    set("image", image(section.image.as_ref(), valid));
    set("service", json!(network::services(section.services(), slug)));
    set(
        "ports",
        json!(network::container_ports(&network::service_ports(section.services(), slug))),
    );
    set(
        "ingress",
        json!(network::ingresses(section.ingresses(), section.services(), slug, target)),
    );
    set(
        "probes",
        probes::of(section.probes.as_ref(), &network::service_ports(section.services(), slug)),
    );
    set("secrets", secrets(section.secrets.as_deref()));
    set("resources", resources(section));
    set("scaling", scaling(section));
    set("disruption", disruption(section.disruption.as_ref()));
    view
}

/// What is set, as the WAML writes it: parts that are not set are left out.
pub(crate) fn settings(section: &Section) -> Json {
    without_nulls(json!(section))
}

/// Every part by its name, null where it is not set; parts of it that are not set are left out.
fn as_written(section: &Section) -> Map<String, Json> {
    match serde_json::to_value(section) {
        Ok(Json::Object(map)) => {
            map.into_iter().map(|(key, value)| (key, without_nulls(value))).collect()
        }
        _ => Map::new(),
    }
}

fn without_nulls(value: Json) -> Json {
    match value {
        Json::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Json::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Json::Array(list) => Json::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// With its whole reference.
fn image(image: Option<&Image>, valid: &Valid<'_>) -> Json {
    json!({
        "reference": reference(image, valid.release()),
        "pullPolicy": image.and_then(|image| image.pull_policy),
    })
}

/// `ghcr.io/owner/name:tag`; a repository with a registry of its own stands as it is.
pub(crate) fn reference(image: Option<&Image>, release: &Release) -> String {
    let from_release = release.repository.as_str().to_ascii_lowercase();
    let repository = image.and_then(|i| i.repository.clone()).unwrap_or(from_release);
    let registry = image.and_then(|i| i.registry.as_deref()).filter(|_| !has_registry(&repository));
    let name = registry.map_or(repository.clone(), |registry| {
        format!("{}/{repository}", registry.trim_end_matches('/'))
    });
    format!("{name}:{}", release.tag)
}

/// Whether the first part of a repository is a host (as Docker decides it).
pub(crate) fn has_registry(repository: &str) -> bool {
    repository
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

/// With `volume`, the name of the volume that a mounted secret becomes.
fn secrets(secrets: Option<&[Secret]>) -> Json {
    let view = |secret: &Secret| {
        let mut view = without_nulls(json!(secret));
        if let Some(map) = view.as_object_mut() {
            map.insert("volume".to_owned(), volume_name(&secret.name).into());
        }
        view
    };
    secrets.map_or(Json::Null, |secrets| secrets.iter().map(view).collect())
}

/// A Secret's name may be longer than a volume's, and have dots; then a part of its hash keeps
/// two of them apart.
fn volume_name(secret: &str) -> String {
    let plain = format!("secret-{secret}");
    if is_rfc1123_label(&plain) {
        return plain;
    }
    let hash = hex::encode(Sha256::digest(secret));
    let start: String = plain.replace('.', "-").chars().take(50).collect();
    format!("{}-{}", start.trim_end_matches('-'), hash.get(..8).unwrap_or_default())
}

/// In Kubernetes' own words; null when nothing is set.
fn resources(section: &Section) -> Json {
    let amounts = |amounts: Option<&Amounts>| {
        let Amounts { cpu, memory, ephemeral_storage } = amounts?;
        let named = [("cpu", cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage)];
        let set = named
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?))));
        Some(Json::Object(set.collect()))
    };
    let both = section.resources.as_ref().map(|r| {
        [("requests", amounts(r.requests.as_ref())), ("limits", amounts(r.limits.as_ref()))]
    });
    let set = both.into_iter().flatten().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let map: Map<String, Json> = set.collect();
    if map.is_empty() { Json::Null } else { Json::Object(map) }
}

/// With autoscaling the number of replicas is the autoscaler's, and must not stand in git: each
/// sync would set it back.
fn scaling(section: &Section) -> Json {
    let none = Scaling::default();
    let scaling = section.scaling.as_ref().unwrap_or(&none);
    let autoscaled = section.autoscaling.as_ref().is_some_and(|a| a.horizontal.is_some());
    json!({
        "replicas": scaling.replicas.filter(|_| !autoscaled),
        "maxUnavailable": number(scaling.max_unavailable.as_deref()),
        "maxSurge": number(scaling.max_surge.as_deref()),
    })
}

/// `minAvailable` wins over the template's `maxUnavailable`; Kubernetes takes only one.
fn disruption(disruption: Option<&Disruption>) -> Json {
    let Some(disruption) = disruption else { return Json::Null };
    match (
        number(disruption.min_available.as_deref()),
        number(disruption.max_unavailable.as_deref()),
    ) {
        (Json::Null, Json::Null) => Json::Null,
        (Json::Null, unavailable) => json!({"maxUnavailable": unavailable}),
        (available, _) => json!({"minAvailable": available}),
    }
}

fn number(text: Option<&str>) -> Json {
    text.and_then(NumberOrPercent::parse).map_or(Json::Null, NumberOrPercent::to_json)
}
