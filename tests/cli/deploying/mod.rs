//! `bart deploy` and `bart rollout`, against the real service.

mod github; // where deployments are GitHub's
mod daily; // init, doctor, promote, holds
mod local; // where the service has the repositories
mod rollouts; // bart rollout
mod traffic; // bart traffic
mod canary; // the steps and times of a canary
mod hand_edits; // bart import-edit
mod several_apps; // several apps in one repository

use crate::harness::developer::Developer;
use crate::harness::events::waml;
use crate::harness::process::{Home, Process};

/// Starts a service whose repository of `shop` has this WAML, and clones it for a developer.
async fn place_with(home: Home, waml: &str) -> (Home, Process, Developer) {
    let process = home.start().await;
    home.commit("example/shop", waml);
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    (home, process, developer)
}

/// Deploys to `dev`, `prod-1` and `prod-2`.
fn three_targets() -> String {
    let one = waml("shop");
    let (head, settings) = one.split_once("  prod-cluster-1:\n").unwrap();
    let each = |name: &str| format!("  {name}:\n{settings}");
    format!("{head}{}{}{}", each("dev"), each("prod-1"), each("prod-2"))
}
