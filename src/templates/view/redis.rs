//! A Redis of the app's own: one pod beside it, or an instance of Memorystore.

use serde_json::{Value as Json, json};

use crate::manifests::quantity::Quantity;
use crate::model::id::AppKey;
use crate::model::platform::cloud::RedisKind;
use crate::model::target::{Environment, Target};
use crate::templates::view::database::gibibytes;
use crate::templates::view::{naming, without_nulls};
use crate::waml::section::Section;
use crate::waml::section_operations::Redis;

/// An instance's id has at most 40 characters (Memorystore for Redis, `instanceId`).
const LONGEST_INSTANCE: usize = 40;

const PORT: u16 = 6379;

/// Builds `redis` as in the WAML, with `cluster` or `memorystore` for the kind that the target creates; null for an app
/// without one.
pub(super) fn build_redis_view(section: &Section, app: &AppKey, target: &Target) -> Json {
    let Some(redis) = &section.redis else { return Json::Null };
    let mut view = without_nulls(json!(redis));
    let parts_by_key = match target.platform.cloud.redis {
        RedisKind::None => None,
        RedisKind::InCluster => Some(("cluster", in_cluster(redis, app, target))),
        RedisKind::Memorystore => Some(("memorystore", memorystore(redis, app, target))),
    };
    if let (Some((key, parts)), Some(map)) = (parts_by_key, view.as_object_mut()) {
        map.insert(key.to_owned(), parts);
    }
    view
}

/// Lists the variables by which an app finds its Redis.
pub(super) fn env(section: &Section, app: &AppKey, target: &Target) -> Vec<(&'static str, String)> {
    let gcp = &target.platform.cloud.gcp;
    match (&section.redis, target.platform.cloud.redis) {
        (None, _) | (_, RedisKind::None) => Vec::new(),
        (Some(_), RedisKind::InCluster) => {
            let host = name(app);
            let url = format!("redis://{host}:{PORT}/0");
            vec![("REDIS_HOST", host), ("REDIS_PORT", PORT.to_string()), ("REDIS_URL", url)]
        }
        (Some(_), RedisKind::Memorystore) => {
            let (project, region) = (gcp.project_of(app), &gcp.region);
            let id = instance(app, target);
            vec![(
                "REDIS_INSTANCE",
                format!("projects/{project}/locations/{region}/instances/{id}"),
            )]
        }
    }
}

/// Names the instance as it is called in the project.
pub(super) fn instance(app: &AppKey, target: &Target) -> String {
    naming::unique(&target.name, app, LONGEST_INSTANCE)
}

/// The pods of a `StatefulSet` carry its name and a hash in a label, which takes 63 characters.
const LONGEST_STATEFUL_SET: usize = 63 - 11;

/// Names the Service by which a Redis in the cluster, and its exporter, are reached.
pub(super) fn service(app: &AppKey) -> String {
    name(app)
}

fn name(app: &AppKey) -> String {
    naming::shorten_name(&format!("{}-redis", app.slug), LONGEST_STATEFUL_SET)
}

/// Shows a Redis in the cluster, which may use three quarters of its memory for data; the rest is
/// for its own business while it copies them.
fn in_cluster(redis: &Redis, app: &AppKey, target: &Target) -> Json {
    let memory = redis.memory.as_deref().unwrap_or_default();
    let bytes = Quantity::parse(memory).and_then(Quantity::whole).unwrap_or_default();
    let version = redis.version.as_deref().unwrap_or_default();
    let persistent = redis.persistent.unwrap_or(false);
    let data = (bytes / 4 * 3).to_string();
    let policy = if persistent { "noeviction" } else { "allkeys-lru" };
    let log = if persistent { "yes" } else { "no" };
    json!({
        "name": name(app),
        // No app's slug has a dot: an app that is called as the Redis is does not take its pods.
        "label": naming::join_name(app.slug.as_str(), "redis"),
        "image": format!("{}:{version}", target.platform.cloud.redis_image),
        "port": PORT,
        "exporter": target.platform.cloud.redis_exporter,
        "pullSecrets": super::pull_secrets(None, target),
        "memory": memory,
        "args": [
            "--maxmemory", data, "--maxmemory-policy", policy,
            "--appendonly", log, "--save", "", "--dir", "/data",
        ],
        // Rewriting the log takes as much again.
        "disk": if persistent { json!(format!("{}Gi", gibibytes(memory).unwrap_or(1) * 2)) } else { Json::Null },
    })
}

fn memorystore(redis: &Redis, app: &AppKey, target: &Target) -> Json {
    let gcp = &target.platform.cloud.gcp;
    let version = redis.version.as_deref().unwrap_or_default();
    let production = target.environment == Environment::Production;
    let persistent = redis.persistent.unwrap_or(false);
    json!({
        "name": name(app),
        "project": gcp.project_of(app),
        "instance": instance(app, target),
        "displayName": app.to_string(),
        "region": gcp.region,
        "network": gcp.network,
        "gigabytes": redis.memory.as_deref().and_then(gibibytes),
        "version": format!("REDIS_{}", version.replace('.', "_").to_ascii_uppercase()),
        "tier": if production { "STANDARD_HA" } else { "BASIC" },
        "persistence": if persistent {
            json!({"persistenceMode": "RDB", "rdbSnapshotPeriod": "TWELVE_HOURS"})
        } else {
            json!({"persistenceMode": "DISABLED"})
        },
    })
}
