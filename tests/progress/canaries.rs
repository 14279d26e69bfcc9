//! A canary on pages and in the API: its weight over time, and its failed checks with their reasons.

use std::time::Duration;

use serde_json::{Value as Json, json};
use the_deployer::model::deployment::State;

use crate::progress::cluster::{Pods, TARGET, Watched};

const SHOP: &str = "/apps/prod-cluster-1/devx/shop";

/// The Canary of the shop, as Flagger reports it; each version is another one.
pub(crate) fn canary(version: u32, phase: &str, weight: u32, failed_checks: u32) -> Json {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
        "metadata": {"name": "shop", "namespace": "devx", "uid": "canary-uid", "generation": version,
            "labels": {"app.kubernetes.io/managed-by": "the-deployer"}},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
            "analysis": {"threshold": 3},
        },
        "status": {
            "phase": phase, "canaryWeight": weight, "lastAppliedSpec": "two", "failedChecks": failed_checks,
        },
    })
}

/// Flagger's word about a check that has failed.
pub(crate) fn halted(reason: &str) -> Json {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "devx", "name": "shop.1"},
        "involvedObject": {
            "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "namespace": "devx", "name": "shop",
        },
        "reason": "Synced", "type": "Warning", "message": format!("Halt shop.devx advancement {reason}"),
        "lastTimestamp": "2026-11-21T10:00:00Z",
    })
}

impl Watched {
    /// The canary of the shop gets that far, and the record says so.
    pub(crate) async fn canary_reaches(
        &self,
        id: i64,
        weight: u32,
        failed_checks: u32,
        version: u32,
    ) {
        self.server.apply(canary(version, "Progressing", weight, failed_checks));
        let checks = match failed_checks {
            0 => format!("{weight} % of the traffic)"),
            count => format!("{count} of 3 checks failed"),
        };
        self.until(id, &checks, |one| {
            one.waiting.as_ref().is_some_and(|waiting| waiting.what.contains(&checks))
        })
        .await;
    }
}

async fn page(world: &Watched, path: &str) -> String {
    let answer = reqwest::get(format!("{}{path}", world.deployer.url())).await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}

#[tokio::test]
async fn the_weight_of_a_canary_and_its_failed_checks_are_on_its_pages_and_in_the_api() {
    Watched::on_both_with(", policies: {on_canary_failure: keep}", async |world| {
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.sync(id, "shop", 1).await;
        world.bring(id, "shop", 1, Pods { updated: 2, available: 2 }).await;
        world.reaches(id, State::Succeeded).await;
        world.deployer.clock.advance(Duration::from_secs(1));
        let id = world.push(&shop, "v2").await;
        world.sync(id, "shop", 2).await;
        // Complete it would be finished where the watch of the Canary is slower.
        world.bring(id, "shop", 2, Pods { updated: 1, available: 0 }).await;
        world.canary_reaches(id, 0, 0, 1).await;
        world.server.apply(halted("success rate 61.39% < 99% <b>"));
        for (n, (weight, failed)) in [(10, 0), (20, 0), (20, 1), (20, 2)].into_iter().enumerate() {
            world.deployer.clock.advance(Duration::from_secs(30));
            world.canary_reaches(id, weight, failed, u32::try_from(n).unwrap() + 2).await;
        }
        let deployment = world.deployer.deployment(id).await;
        let path = format!("/deployments/{}", deployment.id);
        for path in [path.as_str(), SHOP] {
            let text = page(world, path).await;
            for part in [
                "<h2 id=\"canary\">Canary</h2>",
                "<b>Deployment devx/shop</b> <span class=\"badge going\">Progressing</span> 20 % of the traffic, 2 of 3 checks failed",
                "2 of 3 checks failed at 20 %: success rate 61.39% &#60; 99% &#60;b&#62;",
                "1 of 3 checks failed at 20 %: success rate 61.39% &#60; 99% &#60;b&#62;",
                "aria-label=\"weight of the canary of Deployment devx/shop over time, in percent of the traffic\"",
                "<path class=\"p50\"",
                "<td data-label=\"Weight\" class=\"number\">10 %</td>",
                "<td data-label=\"Failed\">2 of 3 checks</td>",
            ] {
                assert!(text.contains(part), "{part} is missing in {path}:\n{text}");
            }
        }
        let detail: Json =
            serde_json::from_str(&page(world, &format!("/api/v1{path}")).await).unwrap();
        let samples = detail["canary"].as_array().unwrap();
        let seen: Vec<_> = samples
            .iter()
            .map(|one| (one["weight"].as_u64().unwrap(), one["failed_checks"].as_u64().unwrap()))
            .collect();
        assert!(seen.ends_with(&[(10, 0), (20, 0), (20, 1), (20, 2)]), "{detail}");
        assert_eq!(samples.last().unwrap()["reason"], "success rate 61.39% < 99% <b>");
        // Flagger takes it back.
        world.server.apply(canary(9, "Failed", 0, 0));
        let failed = world.reaches(id, State::Failed).await;
        let text = page(world, &path).await;
        assert!(text.contains("<b>Deployment devx/shop</b> <span class=\"badge bad\">failed</span>"));
        assert!(text.contains("Flagger rolled the canary back"), "{text}");
        let shown = page(world, SHOP).await;
        assert!(shown.contains(&format!("of deployment <a class=\"mono\" href=\"{path}\">")));
        assert_eq!(failed.request.target.as_str(), TARGET);
        // What goes on after that has nothing of it.
        world.server.delete("Canary", "devx", "shop");
        world.deployer.clock.advance(Duration::from_secs(1));
        let id = world.push(&shop, "v3").await;
        world.sync(id, "shop", 3).await;
        world.bring(id, "shop", 3, Pods { updated: 2, available: 2 }).await;
        world.reaches(id, State::Succeeded).await;
        assert!(!page(world, SHOP).await.contains("id=\"canary\""));
    })
    .await;
}
