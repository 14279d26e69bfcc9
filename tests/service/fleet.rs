//! Several manifest repositories, and several targets of one release, end to end.

use futures::future::join_all;

use crate::harness::events::{Event, waml};
use crate::harness::git_host::{GitHost, TOKEN};
use crate::harness::process::Home;

/// A WAML of the app for these targets.
fn waml_for(app: &str, targets: &[&str]) -> String {
    let more = targets.iter().map(|target| format!("  {target}: {{}}\n"));
    waml(app) + &more.collect::<String>()
}

#[tokio::test]
async fn each_repository_has_a_writer_of_its_own_and_none_waits_for_another() {
    let host = GitHost::start().await;
    let (one, other) = (host.create("prod.git"), host.create("dev.git"));
    let repository = |name: &str, targets: &str| {
        format!(
            "  - {{name: {name}, url: \"{}\", targets: [{targets}], token: {{file: token}}}}\n",
            host.url(&format!("{name}.git"))
        )
    };
    let home = Home::configured(&format!(
        "manifests:\n  repositories:\n{}{}",
        repository("prod", "prod-*"),
        repository("dev", "\"*\"")
    ));
    std::fs::write(home.path("token"), TOKEN).unwrap();
    let process = home.start().await;
    one.hook("pre-receive", "while [ ! -e go ]; do sleep 0.02; done");
    let commit = home.commit("example/shop", &waml_for("shop", &["dev-cluster-1"]));
    let prod = Event::new(1, "shop", &commit);
    let dev = Event { number: 2, target: "dev-cluster-1".to_owned(), ..prod.clone() };
    let waits = prod.accepted(&process).await;
    while host.is_idle() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let goes = dev.accepted(&process).await;
    assert_eq!(process.ended(&goes).await["state"], "succeeded", "{}", process.log());
    assert_eq!((one.commits(), other.commits()), (0, 1));
    std::fs::write(one.0.join("go"), "").unwrap();
    assert_eq!(process.ended(&waits).await["state"], "succeeded", "{}", process.log());
    assert_eq!((one.commits(), other.commits()), (1, 1));
    let in_one = |path: &str| one.files().keys().any(|key| key.starts_with(path));
    assert!(in_one("manifests/prod-cluster-1/") && !in_one("manifests/dev-cluster-1/"));
}

#[tokio::test]
async fn the_targets_of_a_release_that_wait_go_in_one_push() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start_with(&[("THE_DEPLOYER_LIMITS_WORKERS", "8")]).await;
    bare.hook("pre-receive", "while [ ! -e go ]; do sleep 0.02; done");
    let busy = Event::of_app(&home, 1, "other").accepted(&process).await;
    while host.is_idle() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let targets = ["eu-1", "eu-2", "us-1"];
    let commit = home.commit("example/shop", &waml_for("shop", &targets));
    let event = |(n, target): (i64, &&str)| Event {
        target: (*target).to_owned(),
        ..Event::new(n, "shop", &commit)
    };
    let events: Vec<_> = (2..).zip(&targets).map(event).collect();
    let ids = join_all(events.iter().map(|event| event.accepted(&process))).await;
    for id in &ids {
        process.when(id, "the push", |one| one["state"] == "pushing").await;
    }
    host.requests();
    std::fs::write(bare.0.join("go"), "").unwrap();
    for id in ids.iter().chain([&busy]) {
        assert_eq!(process.ended(id).await["state"], "succeeded", "{}", process.log());
    }
    let pushes = host.requests().iter().filter(|line| line.contains("git-receive-pack")).count();
    assert_eq!(pushes, 1, "three targets, one push");
    assert_eq!(bare.commits(), 4);
    bare.assert_sound();
}
