//! The readiness checks of the service.

use std::time::Duration;

use crate::cluster::watch::health::{ClusterHealth, ClusterUnseen};
use crate::deployments::health::{CheckResult, Health, HealthCheck};
use crate::deployments::{Deployments, signals};
use crate::model::id::TargetName;

/// The longest duration of one readiness check; probes come every few seconds.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

impl Deployments {
    /// Runs all checks; each has a bound of its own.
    pub(crate) async fn checks(&self) -> Vec<HealthCheck> {
        // A cluster that cannot be seen delays the ends of its deployments, and nothing else.
        let clusters = self.cluster_sights().into_iter().filter_map(|(cluster, sight)| {
            let ClusterSight::Unseen(sentence) = sight else { return None };
            let name = format!("cluster {cluster}");
            Some(HealthCheck { name, waiting_for: None, note: Some(sentence) })
        });
        let mut checks = self.checks_without_clusters().await;
        checks.extend(clusters);
        checks
    }

    /// Returns how this process sees each watched cluster.
    pub(crate) fn cluster_sights(&self) -> Vec<(TargetName, ClusterSight)> {
        let sight = |health: &ClusterHealth| match health.unseen() {
            Some(unseen) => ClusterSight::Unseen(unseen_sentence(&unseen)),
            None if health.is_complete() => ClusterSight::Whole,
            None => ClusterSight::NotYet,
        };
        let clusters = self.watches.iter();
        clusters.map(|(name, cluster)| (name.clone(), sight(&cluster.health))).collect()
    }

    /// Runs the checks of the service and of the repositories; each has a bound of its own.
    pub(crate) async fn checks_without_clusters(&self) -> Vec<HealthCheck> {
        let Self { health, clock, .. } = self;
        let database = check("database", health.database(&self.store, clock));
        let disk = check("disk", health.disk(clock));
        let repositories = self.manifests.iter().map(|served| {
            check(
                format!("manifest repository {}", served.name),
                Health::repository((&served.name, &served.repository), &served.readiness, clock),
            )
        });
        let repositories = futures::future::join_all(repositories);
        let (database, disk, repositories) = tokio::join!(database, disk, repositories);
        let templates = self.templates.check();
        let forge = self.remark().map(|remark| HealthCheck {
            name: "code host".to_owned(),
            // The service accepts events and deploys them all the same, so it is ready for traffic.
            waiting_for: None,
            note: Some(remark),
        });
        let checks = [database, disk].into_iter().chain(repositories).chain([templates]);
        checks.chain(forge).collect()
    }

    /// Returns a sentence for people who look at deployments while the code host limits the
    /// service, so that statuses come late. Public.
    pub(crate) fn remark(&self) -> Option<String> {
        // No lookup happens here: any caller may read the service's state, as often as they like.
        let hour = self.forge_hour.used_up_until(self.clock.now());
        signals::limit_sentence(self.forge.rate_limited(), hour)
    }

    /// Returns the notices for people who look at deployments, or at those of one target.
    pub(crate) fn notices(&self, target: Option<&TargetName>) -> Vec<Notice> {
        let limit = self.remark().map(|text| Notice { badge: "limited", text });
        let clusters = self.watches.iter();
        let clusters = clusters.filter(|(name, _)| target.is_none_or(|target| target == *name));
        let unseen: Vec<_> =
            clusters.filter_map(|(name, one)| Some((name, one.health.unseen()?))).collect();
        limit.into_iter().chain(cluster_notices(&unseen)).collect()
    }
}

/// How this process sees a cluster that the service watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClusterSight {
    /// Changes of every kind arrive.
    Whole,
    /// The first lists are not complete, or another process follows the cluster.
    NotYet,
    /// Some changes do not arrive; the sentence says since when. Public.
    Unseen(String),
}

/// A notice for people who look at deployments: something makes what they see late. Public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The word for it.
    pub(crate) badge: &'static str,
    /// The sentence, without its full stop.
    pub(crate) text: String,
}

/// The most clusters with a notice of their own.
const MAX_CLUSTERS: usize = 5;

/// Writes the notices about clusters that are not seen whole; of many, only the number of the last ones.
fn cluster_notices(unseen: &[(&TargetName, ClusterUnseen)]) -> Vec<Notice> {
    let notice = |text: String| Notice { badge: "not seen", text };
    let named = unseen.iter().take(MAX_CLUSTERS).map(|(cluster, unseen)| {
        notice(format!("cluster {cluster} is not seen whole {}", late_ends(unseen)))
    });
    let more = unseen.len().saturating_sub(MAX_CLUSTERS);
    let more = (more > 0).then(|| notice(format!("nor are {more} more clusters")));
    named.chain(more).collect()
}

/// Says since when a cluster is not seen whole. The reason, which may name addresses, is in the log.
fn unseen_sentence(unseen: &ClusterUnseen) -> String {
    format!("it is not seen whole {}, and the log says why", late_ends(unseen))
}

fn late_ends(unseen: &ClusterUnseen) -> String {
    let since = unseen
        .since
        .map_or_else(|| "since the start".to_owned(), |since| format!("since {since:.0}"));
    format!("{since}; its deployments end later")
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
        Ok(answer) => answer.err().map(|not_ready| not_ready.waiting_for),
        Err(_elapsed) => Some(format!("no answer within {} s", longest.as_secs())),
    };
    HealthCheck { name: name.into(), waiting_for, note: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_that_hangs_is_not_waited_for() {
        let check = check_within(Duration::ZERO, "it", std::future::pending()).await;
        assert_eq!(check.waiting_for.as_deref(), Some("no answer within 0 s"));
        let ready = check_within(LONGEST_CHECK, "it", std::future::ready(Ok(()))).await;
        assert_eq!((ready.name.as_str(), ready.waiting_for), ("it", None));
    }

    #[test]
    fn each_cluster_that_is_not_seen_is_named_with_the_time_and_of_many_the_number() {
        let names: Vec<TargetName> =
            (1..=7).map(|n| TargetName::parse(format!("prod-{n}")).unwrap()).collect();
        let since = Some("2026-11-21T05:48:12.5Z".parse().unwrap());
        let unseen = |since| ClusterUnseen { since, reason: "https://10.0.0.1 refuses".to_owned() };
        let of = |names: &[TargetName], since| {
            let clusters: Vec<_> = names.iter().map(|name| (name, unseen(since))).collect();
            cluster_notices(&clusters).into_iter().map(|one| one.text).collect::<Vec<_>>()
        };
        assert_eq!(
            of(&names[..1], since),
            [
                "cluster prod-1 is not seen whole since 2026-11-21T05:48:12Z; its deployments end later"
            ]
        );
        assert_eq!(
            of(&names[..1], None),
            ["cluster prod-1 is not seen whole since the start; its deployments end later"]
        );
        let many = of(&names, since);
        assert_eq!((many.len(), many[5].as_str()), (6, "nor are 2 more clusters"));
    }
}
