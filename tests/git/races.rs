//! Many writers at once: nothing is lost, nothing is doubled, whoever they are.

use the_deployer::git::writer::{DeploymentChange, ManifestRepository, PushOutcome, WriteError};

use crate::git::place::{Place, deploy_files, write};
use crate::harness::folder;
use crate::harness::git::git;

/// How many deployments each writer makes.
const EACH: u32 = 12;

/// Deployment `n` of an app of this writer's own, with an id that no other writer has.
fn own(writer: &str, n: u32) -> DeploymentChange {
    let id = n + 100 * u32::from(writer.as_bytes()[0]);
    deploy_files(id, writer, &[("deployment.yaml", &format!("{writer} {n}"))])
}

/// Writes like the controller does: an error that may pass is tried again.
async fn write_all(repository: ManifestRepository, name: &'static str) {
    for n in 1..=EACH {
        loop {
            match write(&repository, own(name, n)).await {
                Ok(PushOutcome::Pushed { .. }) => break,
                Err(WriteError::LostRaces { .. }) => {}
                other => panic!("{name} {n}: {other:?}"),
            }
        }
    }
}

fn assert_every_deployment_is_there_once(place: &Place, writers: &[&str]) {
    let subjects =
        place.bare.run(&["log", "--format=%(trailers:key=Deploy-Id,valueonly)%s", "main"]);
    for writer in writers {
        let count =
            subjects.lines().filter(|line| line.contains(&format!("devx/{writer} "))).count();
        assert_eq!(count, EACH as usize, "{writer}");
        let latest = format!("manifests/prod-1/devx/{writer}/latest/deployment.yaml");
        assert_eq!(place.bare.files()[&latest], format!("{writer} {EACH}"));
    }
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_clones_and_somebody_race_and_every_commit_survives() {
    for place in Place::both().await {
        let (a, b) = (place.open_as("a").await, place.open_as("b").await);
        let bare = place.bare.clone();
        let somebody = tokio::task::spawn_blocking(move || somebody_pushes(&bare.0));
        let (first, second) =
            tokio::join!(tokio::spawn(write_all(a, "a")), tokio::spawn(write_all(b, "b")));
        first.unwrap();
        second.unwrap();
        somebody.await.unwrap();
        assert_every_deployment_is_there_once(&place, &["a", "b"]);
        assert_eq!(place.bare.commits(), 3 * EACH as usize);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_writer_serves_many_callers_in_turn() {
    for place in Place::both().await {
        let repository = place.open().await;
        let names = ["a", "b", "c", "d", "e"];
        let tasks = names.map(|name| tokio::spawn(write_all(repository.clone(), name)));
        for task in tasks {
            task.await.unwrap();
        }
        assert_every_deployment_is_there_once(&place, &names);
        assert_eq!(place.bare.commits(), names.len() * EACH as usize);
    }
}

#[tokio::test]
async fn a_caller_that_leaves_leaves_its_write_whole_or_not_begun() {
    for place in Place::both().await {
        let repository = place.open().await;
        let mut leaving = Box::pin(write(&repository, own("a", 1)));
        // Polled once: the write waits, or has begun, and its answer is awaited by nobody.
        assert!(futures::poll!(&mut leaving).is_pending());
        drop(leaving);
        let again = write(&repository, own("a", 1)).await.unwrap();
        let arrived =
            matches!(again, PushOutcome::AlreadyPushed { .. } | PushOutcome::Pushed { .. });
        assert!(arrived, "{again:?}");
        assert_eq!(place.bare.commits(), 1);
    }
}

/// The real git in a clone of its own: commits, pulls and pushes until each commit is in.
fn somebody_pushes(bare: &std::path::Path) {
    let folder = folder::temporary();
    let run = |arguments: &[&str]| {
        let output = git(folder.path()).args(arguments).output().unwrap();
        output.status.success()
    };
    assert!(run(&["clone", "--quiet", bare.to_str().unwrap(), "."]));
    assert!(run(&["checkout", "--quiet", "-B", "main"]));
    for n in 0..EACH {
        std::fs::write(folder.path().join(format!("theirs-{n}")), "x").unwrap();
        assert!(run(&["add", "."]) && run(&["commit", "--quiet", "-m", "theirs"]));
        while !run(&["push", "--quiet", "origin", "main"]) {
            assert!(run(&["pull", "--quiet", "--rebase", "origin", "main"]));
        }
    }
}
