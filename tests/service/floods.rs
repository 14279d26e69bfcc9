//! A hostile registry against the real program: what its answers cost in memory.

use futures::future::join_all;

use crate::harness::events::{Event, waml};
use crate::harness::floods::Flood;
use crate::harness::memory::MIB;
use crate::harness::process::Home;
use crate::harness::registry::{Entry, Registry};

/// What all lists of builds together may take, in MiB; the container has 512.
const MAX: u64 = 192;

#[tokio::test]
async fn no_registry_fills_the_memory() {
    let registry = Registry::start(Entry::Open, &["acme/shop:v1"]).await;
    let home = Home::configured(&format!(
        "registries: [{{host: '{}', insecure: true}}]\nclusters:\n- {{name: prod-cluster-1, environment: production, domain: example.com}}\n",
        registry.host()
    ));
    let process = home.start().await;
    let image = format!("image: {{registry: '{}', repository: acme/shop}}", registry.host());
    let text =
        waml("shop").replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {image}\n"));
    let commit = home.commit("example/shop", &text);
    let id = Event::new(1, "shop", &commit).accepted(&process).await;
    process.ended(&id).await;
    let before = process.peak_memory() / MIB;
    for flood in Flood::ALL {
        registry.lock().flood = Some(flood);
        let asking = (0..8).map(|_| process.get("/api/v1/builds?app=devx/shop"));
        for (status, text) in join_all(asking).await {
            // On a busy machine nine seconds are too few for eight lists.
            assert!(matches!(status, 200 | 503 | 504), "{flood:?}: {status} {text}");
            assert!(text.len() < 100_000, "{flood:?}: {}", text.len());
        }
        let grown = process.peak_memory() / MIB - before;
        assert!(grown < MAX, "{flood:?}: {grown} MiB more than {before} MiB");
    }
    assert_eq!(process.get("/healthz").await.0, 200);
}
