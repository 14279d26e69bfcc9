//! How the program is.

use std::time::Duration;

use crate::deployments::health::{CheckResult, Health, HealthCheck};
use crate::deployments::{Deployments, signals};

/// How long one readiness check may take; probes ask every few seconds.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

impl Deployments {
    /// All checks, made now; each bounds itself.
    pub(crate) async fn checks(&self) -> Vec<HealthCheck> {
        let Self { health, clock, .. } = self;
        let database = check("database", health.database(&self.store, clock));
        let disk = check("disk", health.disk(clock));
        let repositories = self.manifests.iter().map(|one| {
            check(
                format!("manifest repository {}", one.name),
                Health::repository((&one.name, &one.repository), &one.readiness, clock),
            )
        });
        let repositories = futures::future::join_all(repositories);
        let (database, disk, repositories) = tokio::join!(database, disk, repositories);
        let templates = self.templates.check();
        let forge = self.remark().map(|remark| HealthCheck {
            name: "code host".to_owned(),
            // Events are taken and deployed all the same, so traffic makes sense.
            waiting_for: None,
            note: Some(remark),
        });
        let all = [database, disk].into_iter().chain(repositories).chain([templates]);
        all.chain(forge).collect()
    }

    /// Returns what whoever looks at deployments should know: the code host limits us, so that what
    /// it shows comes late. Shown to anybody.
    pub(crate) fn remark(&self) -> Option<String> {
        // Nothing is asked here: everybody may ask how the service is, as often as they like.
        let hour = self.forge_hour.used_up_until(self.clock.now());
        signals::limit_sentence(self.forge.limited(), hour)
    }
}

async fn check(name: impl Into<String>, ready: impl Future<Output = CheckResult>) -> HealthCheck {
    check_within(LONGEST_CHECK, name, ready).await
}

async fn check_within(
    longest: Duration,
    name: impl Into<String>,
    ready: impl Future<Output = CheckResult>,
) -> HealthCheck {
    let waiting_for = match tokio::time::timeout(longest, ready).await {
        Ok(answer) => answer.err().map(|not| not.waiting_for),
        Err(_elapsed) => Some(format!("no answer within {} s", longest.as_secs())),
    };
    HealthCheck { name: name.into(), waiting_for, note: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_that_hangs_is_not_waited_for() {
        let hangs = check_within(Duration::ZERO, "it", std::future::pending()).await;
        assert_eq!(hangs.waiting_for.as_deref(), Some("no answer within 0 s"));
        let ready = check_within(LONGEST_CHECK, "it", std::future::ready(Ok(()))).await;
        assert_eq!((ready.name.as_str(), ready.waiting_for), ("it", None));
    }
}
