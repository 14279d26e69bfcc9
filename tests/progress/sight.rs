//! A cluster that cannot be seen stops nothing, and the deployments say what they wait for.

use the_deployer::model::deployment::State;

use crate::harness::api_server::{Fault, FaultRule, Verb};
use crate::progress::cluster::{Pods, Watched};

#[tokio::test]
async fn deployments_are_pushed_and_say_that_the_cluster_does_not_answer() {
    Watched::on_both(async |world| {
        world.server.fail(FaultRule::always(Fault::Status(503)));
        world.server.cut_watches();
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        let is_blind = |one: &the_deployer::model::deployment::Deployment| {
            one.waiting
                .as_ref()
                .is_some_and(|waiting| waiting.what.contains("the API server of the cluster"))
        };
        let blind = world.until(id, "blind", is_blind).await;
        assert!(blind.pushed.is_some());
        assert_eq!(
            blind.waiting.unwrap().gives_up_at,
            None,
            "what is not seen does not stand still"
        );
        let ready = reqwest::get(format!("{}/readyz", world.deployer.url())).await.unwrap();
        assert_eq!(ready.status(), 200, "a cluster that is not seen keeps nobody from deploying");
        let ready = ready.text().await.unwrap();
        assert!(ready.contains("cluster prod-cluster-1") && ready.contains("not seen"), "{ready}");
        let page = async |path: &str| {
            let url = format!("{}{path}", world.deployer.url());
            reqwest::get(url).await.unwrap().text().await.unwrap()
        };
        for path in ["/".to_owned(), format!("/deployments/{}", blind.id)] {
            let page = page(&path).await;
            assert!(page.contains("cluster prod-cluster-1 is not seen whole since "), "{page}");
        }
        world.server.recover();
        world.sync(id, "shop", 1).await;
        world.bring(id, "shop", 1, Pods { updated: 2, available: 2 }).await;
        world.reaches(id, State::Succeeded).await;
        assert!(!page("/").await.contains("not seen whole"), "it is seen again");
    })
    .await;
}

#[tokio::test]
async fn kinds_that_may_not_be_seen_or_never_answer_stop_no_deployment() {
    Watched::on_both(async |world| {
        // The process starts with fewer rights than it should have, beside a server that is ill.
        world.stop.cancel();
        world.server.watched(0).await;
        for resource in ["pods", "canaries"] {
            world.server.edit(|state| state.forbidden.insert(("list", resource)));
        }
        for resource in ["jobs", "statefulsets"] {
            world.server.fail(FaultRule::always(Fault::Status(500)).of(Verb::List, resource));
        }
        world.follow();
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.sync(id, "shop", 1).await;
        world.bring(id, "shop", 1, Pods { updated: 2, available: 1 }).await;
        let names_it = |one: &the_deployer::model::deployment::Deployment| {
            one.summary.contains("the service cannot see pods, canaries.flagger.app")
        };
        world.until(id, "told with what is missing", names_it).await;
        world.bring(id, "shop", 1, Pods { updated: 2, available: 2 }).await;
        world.reaches(id, State::Succeeded).await;
    })
    .await;
}
