//! Checks that clusters can be watched, before anything depends on it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::connection::access::{AccessProblem, check_access};
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::connection::settings::ClusterSettings;
use crate::config::settings::Settings;
use crate::model::id::TargetName;
use crate::model::violation::Violation;
use crate::support::clock::Clock;

/// The time for all questions to one cluster; nobody waits for longer before a restart.
const PATIENCE: Duration = Duration::from_secs(45);

const HELP: &str =
    "docs/clusters.md says how a cluster is reached, and what the service may need to do there";

/// Asks each cluster with a connection for the permission to watch it; returns what is missing, by cluster.
pub async fn check_clusters(settings: &Settings) -> Vec<Violation> {
    crate::support::http::install_tls_provider();
    let clusters: &BTreeMap<TargetName, ClusterSettings> = &settings.kubernetes;
    // Where an agent reports, the service asks nothing.
    let connected =
        clusters.iter().filter_map(|(name, cluster)| Some((name, cluster.access()?.clone())));
    let checks = connected.map(async |(name, access)| {
        let connection = ClusterConnection::new(access, settings.outbound.clone(), Clock::system());
        let problems = tokio::time::timeout(PATIENCE, check_access(&connection)).await;
        let late = |_elapsed| vec![AccessProblem::Unreachable("it takes too long".to_owned())];
        problems.unwrap_or_else(late).into_iter().map(|problem| violation(name, problem)).collect()
    });
    let violations: Vec<Vec<Violation>> = futures::future::join_all(checks).await;
    violations.into_iter().flatten().collect()
}

fn violation(name: &TargetName, problem: AccessProblem) -> Violation {
    let message = match problem {
        AccessProblem::Unreachable(reason) => {
            format!("the cluster {name} cannot be watched: {reason}")
        }
        AccessProblem::Denied { kind, verbs } => {
            let (verbs, resource) = (verbs.join("` and `"), kind.resource());
            format!("the cluster {name} does not let the service `{verbs}` {resource}")
        }
    };
    Violation::error("configuration", message).at("clusters", None).help(HELP)
}
