//! The expression of each default alert. Metrics of containers are those of cadvisor in the kubelet, those of
//! Kubernetes' objects are kube-state-metrics', stores have exporters.
//!
//! A ratio of nothing is no number, and no number is above a threshold: an alert without data does not fire.

use crate::manifests::quantity::Quantity;
use crate::model::platform::cloud::RedisKind;
use crate::model::platform::monitoring::{StoreMetrics, StoreSource};
use crate::templates::alerts::{AlertNeeds, AlertRule};
use crate::templates::view::observability::ObservedApp;
use crate::templates::view::{database, redis};
use crate::waml::section_operations::{Database, Engine};

/// Calls that ended with a code that is the server's fault, as OpenTelemetry's conventions for gRPC servers have them.
pub(crate) const GRPC_FAILED: &str =
    r#"grpc_code=~"Unknown|DeadlineExceeded|Unimplemented|Internal|Unavailable|DataLoss""#;

/// Writes the expression, or returns the part that the app or the target lacks for it, as in "the app has no …".
pub(crate) fn expression(
    watched: &ObservedApp<'_>,
    alert: &AlertRule,
    threshold: f64,
) -> Result<String, &'static str> {
    let expression = match alert.needs {
        AlertNeeds::Pods => pods(watched, alert.name),
        AlertNeeds::Replicas => replicas(watched)?,
        AlertNeeds::Autoscaler => autoscaler(watched)?,
        AlertNeeds::Schedule => schedule(watched, alert.name)?,
        AlertNeeds::Grpc => grpc(watched, alert.name)?,
        AlertNeeds::Database => of_database(watched, alert.name)?,
        AlertNeeds::Redis => of_redis(watched, alert.name)?,
        AlertNeeds::Objective => return Err("the app has no `slo`"),
    };
    let compared = match (alert.threshold, alert.needs) {
        (None, _) => expression,
        // All that there may be is reached when it is met, not when it is passed.
        (_, AlertNeeds::Autoscaler) => format!("{expression}\n>= {threshold}"),
        _ => format!("{expression}\n> {threshold}"),
    };
    Ok(compared)
}

fn pods(watched: &ObservedApp<'_>, name: &str) -> String {
    let labels = watched.container();
    let grouping = "by (namespace, pod, container)";
    match name {
        "cpuThrottled" => format!(
            "sum {grouping} (increase(container_cpu_cfs_throttled_periods_total{{{labels}}}[5m]))\n/\nsum {grouping} (increase(container_cpu_cfs_periods_total{{{labels}}}[5m]))"
        ),
        "containerRestarts" => {
            format!(
                "sum {grouping} (increase(kube_pod_container_status_restarts_total{{{labels}}}[1h]))"
            )
        }
        // Between two crashes a container runs for a moment: five minutes back are looked at.
        "containerWaiting" => format!(
            "max by (namespace, pod, container, reason) (max_over_time(kube_pod_container_status_waiting_reason{{{labels}}}[5m])) > 0"
        ),
        "containerNotReady" => format!(
            "max {grouping} (kube_pod_container_status_ready{{{labels}}}) == 0\nand on (namespace, pod, container)\nmax {grouping} (kube_pod_container_status_running{{{labels}}}) == 1"
        ),
        _ => format!(
            "max {grouping} (container_memory_working_set_bytes{{{labels}}})\n/\nmax {grouping} (kube_pod_container_resource_limits{{{labels}, resource=\"memory\"}})"
        ),
    }
}

/// Writes the expression for missing replicas: while none should run, none is missing.
fn replicas(watched: &ObservedApp<'_>) -> Result<String, &'static str> {
    if watched.section.cron.is_some() {
        return Err("the app runs on a schedule");
    }
    let labels = format!(r#"namespace="{}", {}"#, watched.namespace(), watched.deployments());
    let grouping = "by (namespace, deployment)";
    Ok(format!(
        "max {grouping} (kube_deployment_status_replicas_available{{{labels}}}) == 0\nand on (namespace, deployment)\nmax {grouping} (kube_deployment_spec_replicas{{{labels}}}) > 0"
    ))
}

fn autoscaler(watched: &ObservedApp<'_>) -> Result<String, &'static str> {
    let autoscaling = watched.section.autoscaling.as_ref();
    let horizontal =
        autoscaling.and_then(|a| a.horizontal.as_ref()).ok_or("the app has no autoscaler")?;
    if horizontal.min_replicas >= horizontal.max_replicas {
        return Err("the autoscaler has no room between `minReplicas` and `maxReplicas`");
    }
    let labels = format!(r#"namespace="{}", {}"#, watched.namespace(), watched.autoscalers());
    let grouping = "by (namespace, horizontalpodautoscaler)";
    Ok(format!(
        "max {grouping} (kube_horizontalpodautoscaler_status_current_replicas{{{labels}}})\n/\nmax {grouping} (kube_horizontalpodautoscaler_spec_max_replicas{{{labels}}})"
    ))
}

/// Writes the expression for a schedule: a run's Job is called by the app and the minute it was
/// due, so an app whose slug only begins likewise is not meant.
fn schedule(watched: &ObservedApp<'_>, name: &str) -> Result<String, &'static str> {
    watched.section.cron.as_ref().ok_or("the app has no `cron`")?;
    let (namespace, workload) = (watched.namespace(), watched.workload());
    let jobs = format!(r#"namespace="{namespace}", job_name=~"{workload}-[0-9]+""#);
    let cron = format!(r#"namespace="{namespace}", cronjob="{workload}""#);
    Ok(match name {
        "jobFailed" => format!(
            "max by (namespace, job_name) (kube_job_failed{{{jobs}, condition=\"true\"}}) > 0\nand on (namespace, job_name)\ntopk by (namespace) (1, max by (namespace, job_name) (kube_job_status_start_time{{{jobs}}}))"
        ),
        _ => format!(
            "time() - max by (namespace, cronjob) (kube_cronjob_next_schedule_time{{{cron}}})"
        ),
    })
}

fn grpc(watched: &ObservedApp<'_>, name: &str) -> Result<String, &'static str> {
    watched.section.grpc.as_ref().ok_or("the app has no `grpc`")?;
    let labels = watched.container();
    Ok(match name {
        "grpcErrors" => format!(
            "sum(rate(grpc_server_handled_total{{{labels}, {GRPC_FAILED}}}[5m]))\n/\nsum(rate(grpc_server_handled_total{{{labels}}}[5m]))"
        ),
        _ => format!(
            "histogram_quantile(0.99, sum by (le) (rate(grpc_server_handling_seconds_bucket{{{labels}, grpc_type=\"unary\"}}[5m])))"
        ),
    })
}

fn of_database(watched: &ObservedApp<'_>, name: &str) -> Result<String, &'static str> {
    let database = watched.section.database.as_ref().ok_or("the app has no `database`")?;
    let metrics = &watched.monitoring().database;
    let is_mysql = database.engine == Some(Engine::Mysql);
    match metrics.source.unwrap_or(StoreSource::Stackdriver) {
        StoreSource::Stackdriver => {
            let instance = database::instance(&watched.waml.app, watched.target);
            let labels = selector(watched, metrics, &format!(r#"database_id=~".+:{instance}""#));
            Ok(cloud_sql(name, &labels, is_mysql))
        }
        StoreSource::Exporter => {
            let service = r#"namespace="{namespace}", service=~"{slug}-(prometheus-)?(postgres|mysql)-exporter""#;
            let labels = selector(watched, metrics, service);
            if is_mysql {
                mysqld(name, &labels, database)
            } else {
                postgres(name, &labels, database)
            }
        }
    }
}

fn cloud_sql(name: &str, labels: &str, is_mysql: bool) -> String {
    let metric = |name: &str| {
        format!("stackdriver_cloudsql_database_cloudsql_googleapis_com_database_{name}{{{labels}}}")
    };
    match name {
        "databaseDown" => format!("min({}) == 0", metric("up")),
        "databaseConnections" if is_mysql => format!("sum({})", metric("network_connections")),
        "databaseConnections" => format!("sum({})", metric("postgresql_num_backends")),
        "databaseStorage" => format!("max({})", metric("disk_utilization")),
        _ => format!("max({})", metric("cpu_utilization")),
    }
}

const NO_CPU: &str = "the database's exporter does not know its CPUs";

fn postgres(name: &str, labels: &str, database: &Database) -> Result<String, &'static str> {
    match name {
        "databaseDown" => Ok(format!("min(pg_up{{{labels}}}) == 0")),
        "databaseConnections" => Ok(format!("sum(pg_stat_database_numbackends{{{labels}}})")),
        "databaseStorage" => {
            Ok(format!("sum(pg_database_size_bytes{{{labels}}}) / {}", bytes(database)?))
        }
        _ => Err(NO_CPU),
    }
}

fn mysqld(name: &str, labels: &str, database: &Database) -> Result<String, &'static str> {
    match name {
        "databaseDown" => Ok(format!("min(mysql_up{{{labels}}}) == 0")),
        "databaseConnections" => {
            Ok(format!("sum(mysql_global_status_threads_connected{{{labels}}})"))
        }
        "databaseStorage" => Ok(format!(
            "sum(mysql_info_schema_table_size{{{labels}, component!=\"data_free\"}}) / {}",
            bytes(database)?
        )),
        _ => Err(NO_CPU),
    }
}

/// Returns the bytes of the disk in the WAML: exporters do not see it.
fn bytes(database: &Database) -> Result<u64, &'static str> {
    let quantity = database.storage.as_deref().and_then(Quantity::parse);
    let bytes = quantity.and_then(Quantity::whole).filter(|bytes| *bytes > 0);
    bytes.ok_or("the database has no `storage` that its size could be measured against")
}

fn of_redis(watched: &ObservedApp<'_>, name: &str) -> Result<String, &'static str> {
    let redis = watched.section.redis.as_ref().ok_or("the app has no `redis`")?;
    let metrics = &watched.monitoring().redis;
    let kind = watched.target.platform.cloud.redis;
    let is_cache = kind == RedisKind::InCluster && !redis.persistent.unwrap_or(false);
    if is_cache && name == "redisMemory" {
        return Err(
            "a Redis that is not `persistent` is a cache: when it is full it drops keys, as it should",
        );
    }
    let source = metrics.source.or(match kind {
        RedisKind::Memorystore => Some(StoreSource::Stackdriver),
        RedisKind::InCluster if watched.target.platform.cloud.redis_exporter.is_some() => {
            Some(StoreSource::Exporter)
        }
        RedisKind::None | RedisKind::InCluster => None,
    });
    match source {
        None if metrics.selector.is_none() => Err("nothing on the target measures a Redis"),
        None | Some(StoreSource::Exporter) => {
            let exporter = redis::service(&watched.waml.app);
            let usual = format!(
                r#"namespace="{{namespace}}", service=~"{exporter}(-exporter)?|{{slug}}-prometheus-redis(-exporter)?""#
            );
            Ok(redis_exporter(name, &selector(watched, metrics, &usual)))
        }
        Some(StoreSource::Stackdriver) => {
            let instance = redis::instance(&watched.waml.app, watched.target);
            let labels = selector(watched, metrics, &format!(r#"instance_id=~".+/{instance}""#));
            memorystore(name, &labels)
        }
    }
}

fn redis_exporter(name: &str, labels: &str) -> String {
    let sum_of_increases = |metric: &str| format!("sum(increase({metric}{{{labels}}}[15m]))");
    match name {
        "redisDown" => format!("min(redis_up{{{labels}}}) == 0"),
        // Without a limit the maximum is 0, and nothing is near it.
        "redisMemory" => format!(
            "max(redis_memory_used_bytes{{{labels}}})\n/\n(max(redis_memory_max_bytes{{{labels}}}) > 0)"
        ),
        "redisRejectedConnections" => sum_of_increases("redis_rejected_connections_total"),
        _ => sum_of_increases("redis_evicted_keys_total"),
    }
}

fn memorystore(name: &str, labels: &str) -> Result<String, &'static str> {
    let metric = |name: &str, range: &str| {
        format!("stackdriver_redis_instance_redis_googleapis_com_{name}{{{labels}}}{range}")
    };
    match name {
        "redisMemory" => Ok(format!("max({})", metric("stats_memory_usage_ratio", ""))),
        "redisRejectedConnections" => {
            Ok(format!("sum(max_over_time({}))", metric("stats_reject_connections_count", "[15m]")))
        }
        "redisEvictions" => {
            Ok(format!("sum(max_over_time({}))", metric("stats_evicted_keys", "[15m]")))
        }
        _ => Err("Memorystore does not say whether a Redis answers"),
    }
}

fn selector(watched: &ObservedApp<'_>, metrics: &StoreMetrics, usual: &str) -> String {
    watched.fill_pattern(metrics.selector.as_deref().unwrap_or(usual))
}
