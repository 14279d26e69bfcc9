//! The deploy clock on the whole way: GitHub, the service, Argo CD's webhook, and a cluster whose Application moves.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};
use the_deployer::cluster::object::WatchedKind;
use the_deployer::model::deploy_clock::{DeployInterval, DeployMark, DeployMarks, MarkClock};
use the_deployer::model::deployment::{Deployment, State};

use crate::harness::argocd::{ArgoCd, SECRET};
use crate::harness::deployer::Deployer;
use crate::progress::cluster::{Pods, TARGET, Watched};

const ALL: Pods = Pods { updated: 2, available: 2 };

/// A service with a cluster that is watched, and whose Argo CD wants to hear of pushes.
pub(crate) async fn with_argocd(mut deployer: Deployer) -> (Watched, ArgoCd) {
    let argocd = ArgoCd::start().await;
    deployer.variable("ARGOCD", SECRET);
    let webhook =
        format!(", argocd: {{webhook: {{url: '{}', secret: {{env: ARGOCD}}}}}}", argocd.url());
    (Watched::start(deployer, &webhook).await, argocd)
}

/// The Application of `devx/shop` with that status.
fn application(status: &Json) -> Json {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "namespace": "argocd", "name": format!("{TARGET}.devx.shop"), "uid": "uid-of-shop",
            "labels": {"app.kubernetes.io/managed-by": "the-deployer"},
        },
        "status": status,
    })
}

/// Argo CD's times, as Kubernetes writes them: so many seconds after one.
pub(crate) struct Times(pub(crate) Timestamp);

impl Times {
    fn after(&self, seconds: i64) -> String {
        let at = self.0 + SignedDuration::from_secs(seconds);
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn running(&self, commit: &str) -> Json {
        application(&json!({
            "sync": {"status": "OutOfSync", "revision": commit}, "reconciledAt": self.after(8),
            "operationState": {
                "phase": "Running", "syncResult": {"revision": commit}, "startedAt": self.after(10),
            },
        }))
    }

    pub(crate) fn synced(&self, commit: &str) -> Json {
        let (started, finished) = (self.after(10), self.after(40));
        application(&json!({
            "sync": {"status": "Synced", "revision": commit}, "reconciledAt": self.after(41),
            "operationState": {
                "phase": "Succeeded", "syncResult": {"revision": commit}, "startedAt": started,
                "finishedAt": finished,
            },
            "history": [{"revision": commit, "deployStartedAt": started, "deployedAt": finished}],
        }))
    }
}

/// The seconds of each mark after the first one, with its clock.
fn seconds(marks: &DeployMarks) -> Vec<(DeployMark, i64, MarkClock)> {
    let first = marks.iter().next().unwrap().at;
    let second = |at: Timestamp| at.duration_since(first).as_secs();
    marks.iter().map(|time| (time.mark, second(time.at), time.clock)).collect()
}

fn has(mark: DeployMark) -> impl Fn(&Deployment) -> bool {
    move |deployment| deployment.marks.get(mark).is_some()
}

async fn answer(world: &Watched, path: &str) -> String {
    let answer = reqwest::get(format!("{}{path}", world.deployer.url())).await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}

async fn json_of(world: &Watched, path: &str) -> Json {
    serde_json::from_str(&answer(world, path).await).unwrap()
}

#[tokio::test]
async fn each_step_has_the_time_of_its_own_clock_and_the_intervals_lie_between() {
    for deployer in Deployer::prepared_on_both().await {
        let (mut world, argocd) = Box::pin(with_argocd(deployer)).await;
        let (shop, times) = (world.app("shop"), Times(world.deployer.clock.now()));
        let id = shop.deploys(TARGET, "v1").await;
        world.deployer.github.delivered().await;
        world.deployer.clock.advance(Duration::from_secs(4));
        let pushed = world.reaches(id, State::Syncing).await;
        assert_eq!(argocd.came().len(), 1);
        let commit = pushed.pushed.unwrap().commit.to_string();
        // The cluster's clock is not ahead of what it writes.
        world.deployer.clock.advance(Duration::from_secs(56));
        world.server.apply(times.running(&commit));
        world.until(id, "syncing in the cluster", has(DeployMark::SyncBegan)).await;
        world.sync(id, "shop", 1).await;
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        // The pods are there before Argo CD has ended its sync.
        world.server.apply(times.synced(&commit));
        let done = world.until(id, "synced", has(DeployMark::Synced)).await;
        let (service, cluster) = (MarkClock::Service, MarkClock::Cluster);
        let steps = seconds(&done.marks);
        let expected = [
            (DeployMark::Requested, 0, MarkClock::CodeHost),
            (DeployMark::Received, 0, service),
            (DeployMark::Planned, 4, service),
            (DeployMark::Pushed, 4, service),
            (DeployMark::ArgocdNotified, 4, service),
            (DeployMark::CommitSeen, 8, cluster),
            (DeployMark::SyncBegan, 10, cluster),
            (DeployMark::Synced, 40, cluster),
        ];
        assert_eq!(steps[..8], expected, "{steps:?}");
        let last: Vec<DeployMark> = steps[8..].iter().map(|step| step.0).collect();
        assert_eq!(last, [DeployMark::RolloutBegan, DeployMark::Finished]);

        let series = |interval: &str| {
            format!(
                "the_deployer_deploy_interval_seconds_count{{target=\"{TARGET}\",interval=\"{interval}\"}} 1\n"
            )
        };
        let metrics = answer(&world, "/metrics").await;
        for interval in DeployInterval::ALL {
            assert!(metrics.contains(&series(interval.as_str())), "{metrics}");
        }
        let exemplar = format!("# {{deployment=\"{}\"}} 40.0", done.id);
        assert!(metrics.contains(&exemplar), "{metrics}");

        // A process that takes over sees it all again, and the first times stay.
        world.stop.cancel();
        world.server.watched(0).await;
        world.deployer.clock.advance(Duration::from_mins(1));
        world.follow();
        world.server.watched(WatchedKind::ALL.len()).await;
        let shop = world.deployer.github.repository("example/shop");
        let second = world.push(&shop, "v2").await;
        world.sync(second, "shop", 2).await;
        world.reaches(second, State::Progressing).await;
        assert_eq!(world.deployer.deployment(id).await.marks, done.marks);
        let metrics = answer(&world, "/metrics").await;
        assert!(metrics.contains(&series("total")), "observed once: {metrics}");

        let detail = json_of(&world, &format!("/api/v1/deployments/{}", done.id)).await;
        let intervals = detail["intervals"].as_array().unwrap();
        let millis: Vec<_> = intervals.iter().map(|one| one["millis"].as_i64().unwrap()).collect();
        assert_eq!(millis, [4_000, 4_000, 10_000, 36_000, 40_000], "{detail}");
        assert_eq!(detail["marks"][5]["mark"], "commit_seen");
        assert_eq!(detail["marks"][5]["clock"], "cluster");
        let page = answer(&world, &format!("/deployments/{}", done.id)).await;
        for part in
            ["Timeline</h2>", "commit seen by Argo CD", "+40.0 s", "pickup to synced", "36.0 s"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        let log = answer(&world, &format!("/api/v1/deployments/{}/log", done.id)).await;
        assert!(log.contains("sync began, by the clock of the cluster"), "{log}");
        assert!(
            log.contains("deploy clock: deployer time 4.0 s, pickup by Argo CD 4.0 s"),
            "{log}"
        );
        world.bring(second, "shop", 2, ALL).await;
        world.reaches(second, State::Succeeded).await;
        world.ends().await;
    }
}

#[tokio::test]
async fn a_cluster_whose_clock_is_a_day_off_skews_its_intervals_and_no_average() {
    for (deployer, day) in Deployer::prepared_on_both().await.into_iter().zip([1, -1]) {
        let (world, _argocd) = Box::pin(with_argocd(deployer)).await;
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        let pushed = world.reaches(id, State::Syncing).await;
        let commit = pushed.pushed.unwrap().commit.to_string();
        let off = SignedDuration::from_hours(24 * day);
        world.deployer.clock.advance(Duration::from_mins(1));
        world.server.apply(Times(pushed.received_at + off).synced(&commit));
        world.sync(id, "shop", 1).await;
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        let done = world.until(id, "synced", has(DeployMark::Synced)).await;
        let skewed: Vec<bool> =
            done.marks.intervals().iter().map(|time| time.skew_millis.is_some()).collect();
        assert_eq!(skewed, [false, false, true, true, true], "{:?}", done.marks);
        let page = answer(&world, &format!("/deployments/{}", done.id)).await;
        assert!(page.contains("clock skew of 2"), "{page}");
        let insights = json_of(&world, "/api/v1/insights?window=90d").await;
        let total = &insights["intervals"][4];
        assert_eq!(
            (&total["interval"], &total["count"], &total["skewed"], &total["average_millis"]),
            (&json!("total"), &json!(0), &json!(1), &Json::Null)
        );
        assert_eq!(insights["intervals"][0]["count"], 1);
        assert_eq!(insights["dora"]["successes"], 1);
        world.ends().await;
    }
}
