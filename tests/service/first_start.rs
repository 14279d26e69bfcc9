//! The very first start, killed at any moment: whatever it leaves, the next one starts.

use std::time::Duration;

use futures::future::join_all;

use crate::harness::events::Event;
use crate::harness::git_host::GitHost;
use crate::harness::process::Home;
use crate::harness::random::Random;

/// How many there are; more where `THE_DEPLOYER_TEST_FIRST_STARTS` asks for more.
const STARTS: usize = 60;
/// So many go on beside each other.
const SIDE_BY_SIDE: usize = 3;
/// A first start takes a twentieth of a second, and more where others are at work.
const WINDOW: usize = 120_000;

const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ app.slug }}\ndata: {a: b}\n";

fn starts() -> usize {
    let asked = std::env::var("THE_DEPLOYER_TEST_FIRST_STARTS").ok();
    asked.map_or(STARTS, |text| text.parse().expect("a number of starts"))
}

/// Everything embedded, or everything that is kept of others: a clone of the manifests, one of the
/// templates.
fn home(n: usize, host: &GitHost) -> Home {
    if n.is_multiple_of(2) {
        return Home::embedded();
    }
    let home = Home::pushing_to(&host.url("m.git"));
    let url = host.url("templates.git");
    let templates =
        format!("templates: {{repository: {{url: \"{url}\", token: {{file: token}}}}}}\n");
    let config = std::fs::read_to_string(home.path("config.yaml")).unwrap() + &templates;
    std::fs::write(home.path("config.yaml"), config).unwrap();
    home
}

async fn killed_and_started_again(n: usize, after: Duration, host: &GitHost) {
    let home = home(n, host);
    let mut first = home.command().spawn().unwrap();
    tokio::time::sleep(after).await;
    first.kill().unwrap();
    first.wait().unwrap();
    let process = home.start().await;
    process.until_ready().await;
    if n.is_multiple_of(10) {
        let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
        assert_eq!(process.ended(&id).await["state"], "succeeded", "{}", process.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_that_is_killed_is_made_good_by_the_next() {
    let seed = Random::seed();
    eprintln!("THE_DEPLOYER_TEST_SEED={seed}");
    let host = GitHost::start().await;
    host.create("m.git");
    let templates = host.create("templates.git");
    templates.somebody_writes(
        "apps/backend-default/defaults.yaml",
        "resources: {requests: {cpu: 100m}}",
    );
    templates.somebody_writes("apps/backend-default/latest/configmap.yaml.tmpl", CONFIG_MAP);
    let numbers: Vec<usize> = (0..starts()).collect();
    let mut random = Random::new(seed);
    for numbers in numbers.chunks(SIDE_BY_SIDE) {
        let killed = numbers.iter().map(|n| {
            let after = Duration::from_micros(random.below(WINDOW) as u64);
            killed_and_started_again(*n, after, &host)
        });
        join_all(killed.collect::<Vec<_>>()).await;
    }
}
