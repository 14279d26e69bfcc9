//! The real process, killed between the push and the statuses; by the machine's own clock.

use the_deployer::support::clock::Clock;

use crate::harness::events::waml;
use crate::harness::github::World;
use crate::harness::process::{Home, Process, killed_in_time};

const SECRET: &str = "of-the-webhook-0123456789";

#[tokio::test]
async fn killed_after_the_push_it_tells_each_state_once() {
    for point in ["push took", "deployment succeeded"] {
        killed_in_time(async || killed_at(point).await).await;
    }
}

/// False when the process had told all before it was dead.
async fn killed_at(point: &str) -> bool {
    let github = World::start(&Clock::system()).await;
    let shop = github.repository("example/shop");
    shop.commit(&waml("shop"));
    let home = home(&github);
    let process = home.start_doomed(&format!("\"{point}")).await;
    hooks(&github, &process);
    let id = shop.deploys("prod-cluster-1", "v1").await;
    process.dead().await;
    if github.told(id).contains(&"success".to_owned()) {
        assert_each_once(point, &github.told(id));
        github.settled();
        return false;
    }
    let process = home.start().await;
    hooks(&github, &process);
    let ours = process.deployments().await[0]["id"].as_str().unwrap().to_owned();
    process.ended(&ours).await;
    let told = github.told(id);
    assert_each_once(point, &told);
    assert_eq!(told.last().unwrap(), "success", "{point}: {told:?}");
    assert_eq!(home.manifests().commits(), 1, "{point}");
    process.kill();
    github.settled();
    true
}

fn assert_each_once(point: &str, told: &[String]) {
    let mut once = told.to_vec();
    once.dedup();
    assert_eq!(told, once, "{point}");
}

fn home(github: &World) -> Home {
    let home = Home::configured(&format!(
        "forge:\n  github:\n    api_url: {}\n    token: {{file: token}}\n    \
         webhook_secret: {{file: .the-deployer/webhook-secret}}\n",
        github.url()
    ));
    std::fs::write(home.path("token"), github.token()).unwrap();
    std::fs::create_dir(home.state("")).unwrap();
    std::fs::write(home.state("webhook-secret"), SECRET).unwrap();
    home
}

fn hooks(github: &World, process: &Process) {
    github.hooks_to(&format!("{}/webhooks/github", process.address()), SECRET);
}
