//! Tests faults of GitHub and Slack, told in sentences. Each scenario ends right by itself, and says how long that took
//! by the clock that the test moves.

mod acts; // locks, a cancelled deployment, plans
mod app; // as an App: tokens end, permissions change
mod day; // a day of work, by chance, against a model
mod checks; // why a commit was not deployed
mod delivery; // events that are lost, doubled, out of order
mod killed; // the real process, and SIGKILL
mod limits; // more to tell than may be told
mod lost; // events that never came, and a GitHub that is behind
mod undelivered; // events that GitHub could not deliver to our App
mod forgotten; // the record is lost, and made again
mod outage; // GitHub is down, limits, or answers badly
mod statuses; // what GitHub is told
mod previews; // what pull requests are shown
mod refused; // what GitHub refuses for good
mod rollback; // a rollback, as GitHub shows it
mod renamed; // repositories with another name or owner
mod extra_manifests; // objects from files beside the WAML
mod several_apps; // several apps in one repository

use jiff::SignedDuration;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

/// What the forge is told of a deployment that goes well.
const WELL: [&str; 3] = ["queued", "in_progress", "success"];

/// The target that the WAMLs here know.
const TARGET: &str = "prod-cluster-1";

/// Says how long it took, and that it was no longer than that.
fn took(what: &str, time: SignedDuration, at_most: SignedDuration) {
    eprintln!("{what}: settled after {time:#} by the moved clock (at most {at_most:#})");
    assert!(time <= at_most, "{what}: {time:#} is longer than {at_most:#}");
}

/// An app with a WAML on `main`.
fn app<'d>(deployer: &'d Deployer, name: &str) -> crate::harness::github::Repository<'d> {
    let repository = deployer.github.repository(&format!("example/{name}"));
    repository.commit(&waml(name));
    repository
}
