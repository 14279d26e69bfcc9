//! The texts of each default alert: the fault in one line, then its meaning and the first steps. `{{ … }}` is filled in
//! by Prometheus.

use crate::templates::view::observability::ObservedApp;

/// Describes an alert: its summary and description.
pub(super) fn describe_alert(name: &str, watched: &ObservedApp<'_>) -> (String, String) {
    let (title, text) = words(name);
    (format!("{}: {title}", watched.slug()), text.to_owned())
}

fn words(name: &str) -> (&'static str, &'static str) {
    match name {
        "cpuThrottled" => (
            "the CPU limit holds a container back",
            "Pod {{ $labels.pod }} was held back in {{ $value | humanizePercentage }} of the CPU periods of the last 5 minutes: it answers slower than it could. Raise `resources.limits.cpu`, or find what takes the CPU.",
        ),
        "containerRestarts" => (
            "a container restarts again and again",
            "Pod {{ $labels.pod }} restarted its container {{ $value | humanize }} times within an hour. Look at the last exit code and at the log of the container before: `kubectl describe pod`, `kubectl logs --previous`.",
        ),
        "containerWaiting" => (
            "a container cannot start",
            "Pod {{ $labels.pod }} waits: {{ $labels.reason }}. `kubectl describe pod` says why; often it is an image that cannot be pulled, a secret that is missing, or a process that ends at once.",
        ),
        "containerNotReady" => (
            "a container runs and is not ready",
            "Pod {{ $labels.pod }} runs and gets no traffic, because its readiness probe fails. `kubectl describe pod` shows what the probe was answered, `kubectl logs` what the app does instead.",
        ),
        "noReplicasAvailable" => (
            "no pod serves requests",
            "Of the pods of {{ $labels.deployment }} none is available: requests are not answered. `kubectl get pods` shows whether they cannot start or are not ready. If a release is the cause, `bart rollback` brings the former one back.",
        ),
        "memoryNearLimit" => (
            "a container is about to run out of memory",
            "Pod {{ $labels.pod }} uses {{ $value | humanizePercentage }} of its memory limit, and is killed when it needs more. Raise `resources.limits.memory`, or find what keeps the memory.",
        ),
        "maxReplicasReached" => (
            "the autoscaler has no pods left to add",
            "The app runs {{ $value | humanizePercentage }} of its `maxReplicas`: more load will not be met by more pods. Raise `autoscaling.horizontal.maxReplicas`, or find out where the load comes from.",
        ),
        "jobFailed" => (
            "the last run has failed",
            "Job {{ $labels.job_name }} has failed, all its retries included. Look at the log of its last pod; the alert ends with the next run that begins.",
        ),
        "jobLate" => (
            "a run has not begun when it was due",
            "The next run is {{ $value | humanizeDuration }} late. Perhaps the last one still runs and `cron.concurrency` forbids a second, or it could not begin within `cron.startingDeadlineSeconds`.",
        ),
        "grpcErrors" => (
            "gRPC calls fail",
            "{{ $value | humanizePercentage }} of the gRPC calls of the last 5 minutes failed through the server's fault.",
        ),
        "grpcLatency" => (
            "gRPC calls are slow",
            "One unary gRPC call in a hundred takes longer than {{ $value | humanizeDuration }}.",
        ),
        "databaseDown" => (
            "the database does not answer",
            "The database is down, or whoever measures it cannot reach it.",
        ),
        "databaseConnections" => (
            "the database has too many connections",
            "{{ $value | humanize }} connections are open; when the database takes no more, requests fail. Look for connections that are not given back, and at the pool sizes of all pods together.",
        ),
        "databaseStorage" => (
            "the database's disk is nearly full",
            "The database fills {{ $value | humanizePercentage }} of its disk. Raise `database.storage`, or remove what is not needed.",
        ),
        "databaseCpu" => (
            "the database is short of CPU",
            "The database uses {{ $value | humanizePercentage }} of its CPUs. Look for slow queries, or choose a larger `database.tier`.",
        ),
        "redisDown" => ("Redis does not answer", "Redis is down, or its exporter cannot reach it."),
        "redisMemory" => (
            "Redis is about to run out of memory",
            "Redis uses {{ $value | humanizePercentage }} of its memory. When it is full it drops keys or refuses writes. Raise `redis.memory`, or let keys expire.",
        ),
        "redisRejectedConnections" => (
            "Redis refuses connections",
            "Redis refused {{ $value | humanize }} connections within 15 minutes, because it had too many. Look for connections that are not given back.",
        ),
        _ => (
            "Redis drops keys",
            "Redis dropped {{ $value | humanize }} keys within 15 minutes, because its memory was full. For a cache that may be right; then raise the threshold.",
        ),
    }
}
