//! How the program is.

use std::time::Duration;

use crate::app::backend::Backend;
use crate::app::health::Health;
use crate::app::limits;
use crate::app::readiness;
use crate::server::ports::{self, Check};

/// How long one readiness check may take; probes ask every few seconds.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

impl ports::Condition for Backend {
    async fn checks(&self) -> Vec<Check> {
        let (health, world) = (&self.health, &self.world);
        let database = check("database", health.database(&self.store, world));
        let disk = check("disk", health.disk(world));
        let repositories = world.manifests.iter().map(|one| {
            check(format!("manifest repository {}", one.name), Health::repository(one, world))
        });
        let repositories = futures::future::join_all(repositories);
        let (database, disk, repositories) = tokio::join!(database, disk, repositories);
        let templates = self.world.templates.check();
        let forge = self.remark().await.map(|remark| Check {
            name: "code host".to_owned(),
            // Events are taken and deployed all the same, so traffic makes sense.
            waiting_for: None,
            note: Some(remark),
        });
        let all = [database, disk].into_iter().chain(repositories).chain([templates]);
        all.chain(forge).collect()
    }

    async fn remark(&self) -> Option<String> {
        // Nothing is asked here: everybody may ask how the service is, as often as they like.
        let hour = self.controller.hour_used_up_until();
        limits::sentence(self.world.forge.limited(), hour)
    }

    fn metrics(&self) -> String {
        self.world.templates.measure();
        self.registry.encode()
    }
}

async fn check(name: impl Into<String>, ready: impl Future<Output = readiness::Answer>) -> Check {
    let waiting_for = match tokio::time::timeout(LONGEST_CHECK, ready).await {
        Ok(answer) => answer.err().map(|not| not.waiting_for),
        Err(_elapsed) => Some(format!("no answer within {} s", LONGEST_CHECK.as_secs())),
    };
    Check { name: name.into(), waiting_for, note: None }
}
