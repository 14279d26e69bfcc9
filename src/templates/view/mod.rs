//! The view: the values for a template. These are valid settings with everything resolved that a template would
//! otherwise have to work out. `docs/templates.md` lists them.
//!
//! The names at the top are the WAML's own, so that a template that reads `service` is known to use `service`. A value
//! that the WAML does not set is null or empty, never undefined.

pub(crate) mod network; // services, ports
pub(crate) mod ingress; // addresses, routes, certificates
pub(crate) mod canary; // the traffic of a new release, by Flagger
pub(crate) mod versions; // several releases live at once
pub(crate) mod probes; // probes in Kubernetes' form
mod volumes; // disks, files
pub(crate) mod pod; // rights, life, nodes
mod amounts; // CPU, memory
pub(crate) mod containers; // those beside the app's own
mod jobs; // before a release
pub(crate) mod processes; // of the same image
mod keda; // scaling by events
pub(crate) mod metrics; // the app's own
pub(crate) mod naming; // joined names, and names outside the namespace
pub(crate) mod observability;
pub(crate) mod alerts;
pub(crate) mod slo;
pub(crate) mod secrets; // the secrets of an app
pub(crate) mod delivery; // … and their way to its pods
pub(crate) mod vault; // roles and policies in Vault
pub(crate) mod iam; // roles in the cloud
mod database;
mod redis;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

use crate::manifests::int_or_string::NumberOrPercent;
use crate::model::fleet::FleetPlace;
use crate::model::id::AppKey;
use crate::model::release::Release;
use crate::model::target::Target;
use crate::waml::Waml;
use crate::waml::node::Node;
use crate::waml::section::Section;
use crate::waml::section_operations::Disruption;
use crate::waml::section_workload::{Image, Scaling, Volume};

/// Valid settings for one target, of which a view is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewInput<'a> {
    pub(crate) waml: &'a Waml,
    pub(crate) section: &'a Section,
    /// The settings with every value's place.
    pub(crate) tree: &'a Node,
    pub(crate) target: &'a Target,
    pub(crate) release: &'a Release,
    /// True if nothing of the app is live on the target yet.
    pub(crate) is_new: bool,
    /// The cluster, among those of its fleet.
    pub(crate) fleet: &'a FleetPlace,
    /// True if the template renders versions: for others, routes lead to the app's Services.
    pub(crate) has_versions: bool,
    /// The processes beside the one that the app's Services lead to.
    pub(crate) processes: &'a [ProcessSettings],
}

/// The valid settings of a process.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSettings {
    /// The name of the process.
    pub(crate) name: String,
    pub(crate) section: Section,
    /// The settings with every value's place.
    pub(crate) tree: Node,
}

/// Builds the context of a template.
pub(crate) fn build_context(input: ViewInput<'_>) -> Map<String, Json> {
    let ViewInput { waml, section, tree, target, release, is_new, fleet, has_versions, .. } = input;
    let slug = waml.app.slug.as_str();
    let mut view = as_written(section);
    let mut set = |name: &str, value: Json| drop(view.insert(name.to_owned(), value));
    set(
        "app",
        json!({
            "name": waml.name, "slug": slug, "namespace": waml.app.namespace,
            "workload": naming::workload(slug), "container": slug, "serviceAccount": slug,
            "podsService": naming::of_two(slug, "pods"),
            "owner": waml.owner, "slack": waml.slack,
        }),
    );
    set(
        "target",
        json!({
            "name": target.name, "domain": target.domain, "environment": target.environment,
            "labels": target.labels, "platform": target.platform, "kubernetes": kubernetes(target),
        }),
    );
    set("versions", versions::build_versions_view(section, &waml.app, release, (fleet, target)));
    set("release", json!(release));
    // Each that the template declares, null where it is not set.
    set("parameters", json!(section.parameters.as_ref().unwrap_or(&IndexMap::new())));
    set("image", image(section.image.as_ref(), release, target));
    set("service", json!(network::services(section, slug)));
    set("ports", json!(network::container_ports(&network::app_ports(section, slug))));
    let mut ingresses = ingress::ingresses(section, slug, target);
    let canary_app = canary::CanaryApp { section, slug, target, ingresses: &ingresses, is_new };
    let canary = canary::build_canary_view(canary_app);
    if let Some(canary) = &canary {
        canary.keep_routes(&mut ingresses);
    }
    set("canary", json!(canary));
    if has_versions {
        versions::split_routes(&mut ingresses, section, &waml.app, target, fleet);
    }
    set("splits", json!(versions::splits(&ingresses)));
    set("certificates", json!(ingress::certificates(&ingresses)));
    set("caching", json!(ingress::caching(&ingresses)));
    set("ingress", json!(ingresses));
    set("probes", probes::ProbedApp::of(section, tree, slug).view());
    set("secrets", secrets::of_the_pod(section, target.platform.secrets.delivery));
    set("delivery", delivery::objects(section, &waml.app, target));
    set("vault", vault::build_vault_view(section, &waml.app, target));
    set("iam", iam::build_iam_view(section, &waml.app, target));
    set("database", database::build_database_view(section, &waml.app, target));
    set("redis", redis::build_redis_view(section, &waml.app, target));
    set("env", env(section, &waml.app, target));
    set("volumes", volumes::build_volumes_view(section, slug));
    set("claims", volumes::claims(section));
    set("security", pod::security(section, target));
    set("lifecycle", pod::lifecycle(section, &network::app_ports(section, slug), target));
    set("scheduling", pod::scheduling(section, slug, target));
    let annotations = volumes::annotations(section);
    set("annotations", delivery::annotations(annotations, section, &waml.app, target));
    set("resources", amounts::resources(section.resources.as_ref()));
    set("scaling", scaling(section));
    set("disruption", disruption(section.disruption.as_ref()));
    let watched = observability::ObservedApp { waml, section, target };
    set("alerts", alerts::build_alerts_view(&watched));
    set("slo", slo::build_slo_view(&watched));
    let pod = containers::PodParts { section, tree, target, view: &view };
    let (init_containers, sidecars) = (pod.init_containers(), pod.sidecars());
    let jobs = jobs::AppParts { section, app: &waml.app, view: &view }.jobs();
    view.insert("initContainers".to_owned(), init_containers);
    view.insert("sidecars".to_owned(), sidecars);
    view.insert("jobs".to_owned(), jobs);
    let scaled_object = keda::build_scaled_object_view(section.keda());
    view.insert("scaledObject".to_owned(), scaled_object);
    let metrics = metrics::build_metrics_view(section, slug, target);
    view.insert("monitoring".to_owned(), metrics);
    let processes = processes::build_processes_view(input, view.get("app").unwrap_or(&Json::Null));
    view.insert("processes".to_owned(), processes);
    view
}

/// Shows the version that its manifests are judged by, as text and as a number that can be
/// compared.
fn kubernetes(target: &Target) -> Json {
    let version = target.kubernetes();
    json!({"version": version, "minor": version.minor()})
}

/// Shows the settings as the WAML has them: parts without a value are left out.
pub(crate) fn settings(section: &Section) -> Json {
    without_nulls(json!(section))
}

/// Shows every part by its name, null where it is not set; parts of it that are not set are left
/// out.
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
            let entries = map.into_iter().filter(|(_, value)| !value.is_null());
            Json::Object(entries.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Json::Array(list) => Json::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Shows the WAML's labels, and one of ours.
fn labels_with(section: &Section, key: &str, value: &str) -> Json {
    let own = section.labels.iter().flatten();
    let own = own.map(|(key, value)| (key.clone(), json!(value.as_deref().unwrap_or_default())));
    Json::Object(own.chain([(key.to_owned(), json!(value))]).collect())
}

/// Shows the image with its whole reference, and the Secrets with which nodes pull the pod's images.
fn image(image: Option<&Image>, release: &Release, target: &Target) -> Json {
    json!({
        "reference": reference(image, release),
        "pullPolicy": image.and_then(|image| image.pull_policy),
        "pullSecrets": pull_secrets(image, target),
    })
}

/// Lists the platform's pull secrets and the WAML's, each once; null without any.
fn pull_secrets(image: Option<&Image>, target: &Target) -> Json {
    let mut names: Vec<&String> = Vec::new();
    let written = image.and_then(|image| image.pull_secrets.as_ref());
    for name in target.platform.images.pull_secrets.iter().chain(written.into_iter().flatten()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    pod::list(names.into_iter().map(|name| json!({"name": name})).collect())
}

/// Writes the image's reference, `ghcr.io/owner/name:tag`; a repository with a registry of its own is used as it is.
pub(crate) fn reference(image: Option<&Image>, release: &Release) -> String {
    let from_release = release.repository.as_str().to_ascii_lowercase();
    let repository = image.and_then(|i| i.repository.clone()).unwrap_or(from_release);
    let registry = image.and_then(|i| i.registry.as_deref()).filter(|_| !has_registry(&repository));
    let name = registry.map_or(repository.clone(), |registry| {
        format!("{}/{repository}", registry.trim_end_matches('/'))
    });
    format!("{name}:{}", release.tag)
}

/// Checks that the first part of a repository is a host (as Docker decides it).
pub(crate) fn has_registry(repository: &str) -> bool {
    repository
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

/// Shows the WAML's variables, and those of its stores that it does not set itself; null without
/// any.
fn env(section: &Section, app: &AppKey, target: &Target) -> Json {
    let variables = section.env.as_deref().unwrap_or_default();
    let of_stores =
        database::env(section, app, target).into_iter().chain(redis::env(section, app, target));
    let missing_variables =
        of_stores.filter(|(name, _)| variables.iter().all(|variable| variable.name != *name));
    let store_variables =
        missing_variables.map(|(name, value)| json!({"name": name, "value": value}));
    let merged: Vec<Json> = variables
        .iter()
        .map(|variable| without_nulls(json!(variable)))
        .chain(store_variables)
        .collect();
    if merged.is_empty() { Json::Null } else { Json::Array(merged) }
}

/// Shows the scaling; with autoscaling the number of replicas is the autoscaler's, and must not be in git: each sync
/// would set it back.
///
/// With a disk that pods cannot share, the old pod goes before the new one comes: in a rolling update the new one would
/// wait for the disk, and the old one for the new one, for ever.
fn scaling(section: &Section) -> Json {
    let no_scaling = Scaling::default();
    let scaling = section.scaling.as_ref().unwrap_or(&no_scaling);
    let autoscaled = section.is_autoscaled();
    let rolling = !section.volumes.iter().flatten().any(Volume::is_for_one);
    let rolls = |text: &Option<String>| number(text.as_deref().filter(|_| rolling));
    json!({
        "replicas": scaling.replicas.filter(|_| !autoscaled),
        "strategy": if rolling { "RollingUpdate" } else { "Recreate" },
        "maxUnavailable": rolls(&scaling.max_unavailable),
        "maxSurge": rolls(&scaling.max_surge),
    })
}

/// Shows the disruption budget: `minAvailable` wins over the template's `maxUnavailable`;
/// Kubernetes takes only one.
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
