//! The first page, and that of a deployment.

use serde_json::json;

use crate::harness::browser::Page;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

/// A service with a deployment that has succeeded and one that was refused.
async fn with_two() -> Deployer {
    let deployer = Deployer::start().await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    shop.deploys("prod-cluster-1", "v1").await;
    deployer.settle().await;
    shop.commit(&waml("shop").replace("servicePort: 8000", "servicePort: 80"));
    shop.deploys("prod-cluster-1", "v2").await;
    deployer.settle().await;
    deployer
}

#[tokio::test]
async fn a_deployment_reads_the_same_with_and_without_scripts() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let deployer = with_two().await;
    let newest = deployer.deployments().await.pop().unwrap().id;
    for scripts in [true, false] {
        page.scripts(scripts).await;
        page.open(&deployer.url(), &format!("/deployments/{newest}")).await;
        assert!(page.title().await.ends_with("the-deployer"));
        assert_eq!(page.text("h1").await, "devx/shop to prod-cluster-1");
        assert_eq!(page.text(".summary .badge").await, "failed");
        assert_eq!(page.count("ol.complaints > li").await, 1);
        page.press("the-deployer").await;
        assert_eq!(page.path().await, "/");
        assert_eq!(page.count("h1").await, 1);
    }
    assert_eq!(page.console().await, Vec::<String>::new());
    deployer.settled().await;
}

#[tokio::test]
async fn pages_are_accessible_in_every_size_and_colour() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let deployer = with_two().await;
    let newest = deployer.deployments().await.pop().unwrap().id;
    for (name, path) in [
        ("grid", "/".to_owned()),
        ("app", super::SHOP.to_owned()),
        ("list", "/deployments".to_owned()),
        ("deployment", format!("/deployments/{newest}")),
        ("nothing", "/nothing".to_owned()),
    ] {
        for (width, scheme) in [(400, "light"), (1280, "dark"), (1280, "light"), (3840, "dark")] {
            page.resize(width, 800).await;
            page.colors(scheme).await;
            page.open(&deployer.url(), &path).await;
            page.assert_fits().await;
            page.assert_accessible().await;
            let color = "return getComputedStyle(document.body).colorScheme";
            assert_eq!(page.run(color, json!([])).await, "light dark");
            page.screenshot(&format!("{name}-{width}-{scheme}")).await;
        }
    }
    deployer.settled().await;
}
