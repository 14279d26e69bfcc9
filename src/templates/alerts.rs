//! The list of default alerts: the name by which a WAML tunes each, its meaning, the unit of its threshold, and the
//! part that an app must have for it.
//!
//! Thresholds are not here but in a template's `defaults.yaml`; expressions and texts are in `view/alerts/`.
//! `docs/alerts.md` is made from this list.

/// One default alert.
#[derive(Debug, Clone, Copy)]
pub struct AlertRule {
    /// The name in `alerts`. In Prometheus it begins with a capital: `CpuThrottled`.
    pub name: &'static str,
    /// The meaning, in one sentence.
    pub about: &'static str,
    /// The unit of its threshold; `None` for an alert without one.
    pub threshold: Option<Unit>,
    /// The part that an app must have for it.
    pub needs: AlertNeeds,
}

/// The unit of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A part of a whole, from 0 to 1.
    Share,
    /// A number of things.
    Count,
    /// Seconds.
    Seconds,
}

/// The part that an app must have for an alert. One group of rules each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertNeeds {
    /// Pods: every app has them.
    Pods,
    /// Pods that always run, of a Deployment.
    Replicas,
    /// An autoscaler with room between its bounds.
    Autoscaler,
    /// A schedule.
    Schedule,
    /// `grpc`.
    Grpc,
    /// `database`.
    Database,
    /// `redis`.
    Redis,
    /// `slo`.
    Objective,
}

/// The alert that fires while a page is due by the burn rates; see `view/slo/`.
pub const BURNS_FAST: &str = "errorBudgetBurnsFast";
/// The alert that fires while a ticket is due by the burn rates.
pub const BURNS_SLOWLY: &str = "errorBudgetBurnsSlowly";

/// The table of alerts: the name, the part that an app must have, the unit of the threshold; the meaning.
macro_rules! alerts {
    ($($name:tt $needs:ident $($unit:ident)?; $about:literal;)*) => {
        &[$(AlertRule {
            name: $name,
            about: $about,
            threshold: alerts!(@threshold $($unit)?),
            needs: AlertNeeds::$needs,
        }),*]
    };
    (@threshold) => { None };
    (@threshold $unit:ident) => { Some(Unit::$unit) };
}

/// Every alert, in the order in which they are rendered.
pub const ALERTS: &[AlertRule] = alerts! {
    "cpuThrottled" Pods Share;
        "The container was held back in more than this share of the CPU periods of 5 minutes.";
    "containerRestarts" Pods Count;
        "A container restarted more often than this within an hour.";
    "containerWaiting" Pods;
        "A container cannot start: its image cannot be pulled, it crashes again and again, a secret is missing.";
    "containerNotReady" Pods;
        "A container runs and is not ready: its readiness probe fails, so it gets no traffic.";
    "noReplicasAvailable" Replicas;
        "None of the pods that should serve is available.";
    "memoryNearLimit" Pods Share;
        "A container uses more than this share of its memory limit.";
    "maxReplicasReached" Autoscaler Share;
        "The autoscaler runs at least this share of its `maxReplicas`.";
    "jobFailed" Schedule;
        "The last run has failed, all its retries included.";
    "jobLate" Schedule Seconds;
        "A run is later than this by the schedule, in seconds.";
    "grpcErrors" Grpc Share;
        "More than this share of the gRPC calls of 5 minutes failed through the server's fault.";
    "grpcLatency" Grpc Seconds;
        "One unary gRPC call in a hundred takes longer than this, in seconds.";
    "databaseDown" Database;
        "The database does not answer.";
    "databaseConnections" Database Count;
        "More connections than this are open.";
    "databaseStorage" Database Share;
        "The database fills more than this share of its disk.";
    "databaseCpu" Database Share;
        "The database uses more than this share of its CPUs.";
    "redisDown" Redis;
        "Redis does not answer.";
    "redisMemory" Redis Share;
        "Redis uses more than this share of its memory.";
    "redisRejectedConnections" Redis Count;
        "Redis refused more connections than this within 15 minutes, because it had too many.";
    "redisEvictions" Redis Count;
        "Redis dropped more keys than this within 15 minutes, because its memory was full.";
    BURNS_FAST Objective;
        "The error budget of 30 days would be gone within 5 days at the rate of the last hours (14.4 or 6 times what it can bear).";
    BURNS_SLOWLY Objective;
        "The error budget of 30 days would be gone before they are over at the rate of the last days (3 or 1 times what it can bear).";
};

/// Finds the alert of that name.
pub fn find(name: &str) -> Option<&'static AlertRule> {
    ALERTS.iter().find(|alert| alert.name == name)
}

/// Lists all names.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ALERTS.iter().map(|alert| alert.name)
}

/// Returns its name in Prometheus, where names begin with a capital.
pub fn in_prometheus(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}
