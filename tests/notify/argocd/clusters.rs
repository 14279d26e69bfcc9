//! Several clusters: each is told of its own commits, and what that means for the rest.

use super::{TARGET, asks_for, assert_exact, cluster, names, prepared, settled};
use crate::harness::argocd::ArgoCd;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

async fn deploys_to(deployer: &Deployer, app: &str, target: &str, tag: &str) {
    asks_for(deployer, app, target, tag).await;
    deployer.settle().await;
}

#[tokio::test]
async fn each_cluster_hears_of_its_own_and_the_others_say_nothing() {
    let (mut deployer, argocd) = prepared().await;
    let other = ArgoCd::start().await;
    deployer.configure(|config| {
        let silent = "- {name: dev, environment: development, domain: dev.example.com}\n";
        format!("{config}{}{silent}", cluster("prod-2", &other))
    });
    deployer.starts().await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&(waml("shop") + "  prod-2: {}\n  dev: {}\n"));
    for target in [TARGET, "prod-2", "dev"] {
        shop.deploys(target, "v1").await;
    }
    deployer.settle().await;
    let of = |argocd: &ArgoCd, target: &str| {
        let [came] = &argocd.came()[..] else { panic!("one each") };
        let latest = format!("manifests/{target}/devx/shop/latest/deployment.yaml A");
        assert!(came.push.paths().contains(&latest), "{:?}", came.push);
    };
    of(&argocd, TARGET);
    of(&other, "prod-2");
    settled(&deployer, &argocd).await;
    other.settled();
}

/// Two clusters with an Argo CD each in one repository: what docs/argocd.md says of it.
#[tokio::test]
async fn who_does_not_hear_of_a_commit_between_carries_nothing_over_and_refreshes_the_same() {
    let (mut deployer, first) = prepared().await;
    let second = ArgoCd::start().await;
    deployer.configure(|config| format!("{config}{}", cluster("prod-2", &second)));
    deployer.starts().await;
    let bare = deployer.manifests();
    for app in ["shop", "cart"] {
        deploys_to(&deployer, app, TARGET, "v1").await;
    }
    first.syncs(&bare);
    let cart = names(["apps-prod-cluster-1", "prod-cluster-1.devx.cart"]);
    deploys_to(&deployer, "shop", TARGET, "v2").await;
    assert_eq!(first.came().pop().unwrap().carried_over, cart, "it has heard of every commit");
    deploys_to(&deployer, "shop", "prod-2", "v2").await;
    deploys_to(&deployer, "shop", TARGET, "v3").await;
    let came = first.came().pop().unwrap();
    assert_exact(&came, &bare);
    assert_eq!(came.refreshed, names(["prod-cluster-1.devx.shop"]));
    assert_eq!(came.carried_over, names([]), "the commit before is one that it knows nothing of");
    settled(&deployer, &first).await;
    second.settled();
}

/// One Argo CD for all clusters of a repository.
#[tokio::test]
async fn who_has_all_clusters_hears_of_every_commit_and_carries_all_others_over() {
    let (mut deployer, argocd) = prepared().await;
    deployer.configure(|config| format!("{config}{}", cluster("prod-2", &argocd)));
    deployer.starts().await;
    let bare = deployer.manifests();
    deploys_to(&deployer, "shop", TARGET, "v1").await;
    deploys_to(&deployer, "shop", "prod-2", "v1").await;
    argocd.syncs(&bare);
    for target in [TARGET, "prod-2", TARGET] {
        let tag = format!("v{}", bare.commits());
        deploys_to(&deployer, "shop", target, &tag).await;
        let came = argocd.came().pop().unwrap();
        assert_eq!(came.refreshed, names([&format!("{target}.devx.shop")]));
        assert_eq!(came.carried_over.len(), 3, "{came:?}");
    }
    settled(&deployer, &argocd).await;
}
