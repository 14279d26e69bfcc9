//! How the program is.

use std::time::Duration;

use crate::app::backend::Backend;
use crate::app::readiness;
use crate::server::ports::{self, Check};

/// How long one readiness check may take; probes ask every few seconds.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

impl ports::Condition for Backend {
    async fn checks(&self) -> Vec<Check> {
        let database =
            check("database", async { self.store.ready().await.map_err(|e| e.to_string()) });
        let repositories = self.world.manifests.iter().map(|one| {
            let repository = one.repository.clone();
            let ask = async move { repository.ready().await.map_err(|e| e.to_string()) };
            let ready = one.readiness.or(self.world.clock.clone(), ask);
            check(format!("manifest repository {}", one.name), ready)
        });
        let (database, repositories) =
            tokio::join!(database, futures::future::join_all(repositories));
        let templates = self.world.templates.check();
        std::iter::once(database).chain(repositories).chain([templates]).collect()
    }

    fn metrics(&self) -> String {
        self.world.templates.measure();
        self.registry.encode()
    }
}

async fn check(name: impl Into<String>, ready: impl Future<Output = readiness::Answer>) -> Check {
    let waiting_for = match tokio::time::timeout(LONGEST_CHECK, ready).await {
        Ok(answer) => answer.err(),
        Err(_elapsed) => Some(format!("no answer within {} s", LONGEST_CHECK.as_secs())),
    };
    Check { name: name.into(), waiting_for, note: None }
}
