//! Tests that changes that wait while the writer pushes go together: one push, a commit for each, and one that is
//! refused does not stop the others.

use std::time::Duration;

use futures::future::join_all;
use the_deployer::git::writer::{
    DeploymentChange, ManifestRepository, PushAllowance, PushBy, PushOutcome, WriteError,
    WriterSettings,
};
use the_deployer::model::release::Release;
use the_deployer::support::lease::Lease;
use the_deployer::support::retry::Disposition;

use crate::git::place::{Place, deploy, deploy_files, noon, pushed, write};
use crate::harness::git::Bare;
use crate::harness::git_host::Behaviour;

/// A first deployment of so many apps, in their order.
fn apps(count: u32) -> Vec<DeploymentChange> {
    let app = |n| deploy_files(n, &format!("app-{n}"), &[("deployment.yaml", &format!("{n}"))]);
    (100..100 + count).map(app).collect()
}

/// Pushes the first, and hands in the others while the server is at it; their results, in order.
async fn behind_a_push(
    place: &Place,
    repository: &ManifestRepository,
    first: DeploymentChange,
    others: Vec<DeploymentChange>,
) -> Vec<Result<PushOutcome, WriteError>> {
    let hook = std::fs::read_to_string(place.bare.0.join("hooks/pre-receive")).unwrap_or_default();
    place.bare.hook("pre-receive", &format!("while [ ! -e go ]; do sleep 0.02; done\n{hook}"));
    let under_way = tokio::spawn({
        let repository = repository.clone();
        async move { write(&repository, first).await.unwrap() }
    });
    while place.host().is_idle() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waiting = others.into_iter().map(|one| write(repository, one));
    let open = async {
        tokio::task::yield_now().await;
        std::fs::write(place.bare.0.join("go"), "").unwrap();
    };
    let (answers, ()) = tokio::join!(join_all(waiting), open);
    assert!(matches!(under_way.await.unwrap(), PushOutcome::Pushed { .. }));
    answers
}

fn pushes(place: &Place) -> usize {
    let requests = place.host().requests();
    requests.iter().filter(|line| line.starts_with("POST /m.git/git-receive-pack")).count()
}

/// The deploy ids on the branch, oldest first.
fn order(bare: &Bare) -> Vec<String> {
    let log =
        bare.run(&["log", "--reverse", "--format=%(trailers:key=Deploy-Id,valueonly)", "main"]);
    log.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_waits_during_a_push_goes_in_the_next_one_with_a_commit_for_each() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.host().requests();
    let answers = behind_a_push(&place, &repository, deploy(2, "two"), apps(20)).await;
    assert_eq!(pushes(&place), 2);
    let commits = place.bare.run(&["rev-list", "--reverse", "main"]);
    let commits: Vec<_> = commits.lines().skip(2).collect();
    assert_eq!(commits.len(), 20);
    for (answer, commit) in answers.into_iter().zip(commits) {
        let PushOutcome::Pushed { commit: said } = answer.unwrap() else { panic!("not pushed") };
        assert_eq!(said.as_str(), commit);
    }
    let ids = order(&place.bare);
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(repository.counts().changes, 22);
    assert_eq!((repository.counts().pushes, repository.counts().waiting), (3, 0));
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deployments_of_one_app_keep_their_order_and_the_last_is_live() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    let others = (3..12).map(|n| deploy(n, &format!("text {n}"))).collect();
    let answers = behind_a_push(&place, &repository, deploy(2, "two"), others).await;
    assert!(answers.iter().all(|one| matches!(one, Ok(PushOutcome::Pushed { .. }))), "{answers:?}");
    let files = place.bare.files();
    assert_eq!(files["manifests/prod-1/devx/my-app/latest/deployment.yaml"], "text 11");
    let kept = files.keys().filter(|path| path.starts_with("manifests/prod-1/devx/my-app/2"));
    assert_eq!(kept.count(), 5);
    assert!(order(&place.bare).is_sorted());
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_that_a_hook_refuses_does_not_stop_the_others() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.bare.hook(
        "pre-receive",
        "read old new ref; if git diff $old $new | grep -q hunter2; then echo 'a secret' >&2; exit 1; fi",
    );
    let mut others = apps(16);
    others[6] = deploy_files(106, "app-106", &[("secret.yaml", "hunter2")]);
    place.host().requests();
    let answers = behind_a_push(&place, &repository, deploy(2, "two"), others).await;
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Ok(PushOutcome::Pushed { .. }) => assert_ne!(n, 6),
            Err(WriteError::Refused { refusal, .. }) => {
                assert_eq!(n, 6);
                assert!(refusal.message.contains("a secret"), "{refusal}");
            }
            other => panic!("{n}: {other:?}"),
        }
    }
    let pushes = pushes(&place);
    assert!(pushes <= 10, "{pushes} pushes to find one of sixteen");
    assert_eq!(place.bare.commits(), 17);
    assert!(order(&place.bare).is_sorted());
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_branch_that_takes_nothing_is_not_asked_about_each_and_nobody_gets_anothers_no() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.bare.hook("pre-receive", "[ -e second ] && exit 1; touch second; exit 0");
    place.host().requests();
    let answers = behind_a_push(&place, &repository, deploy(2, "two"), apps(32)).await;
    let refused = answers.iter().filter(|one| matches!(one, Err(WriteError::Refused { .. })));
    assert_eq!(refused.count(), 3);
    for answer in &answers[3..] {
        let error = answer.as_ref().unwrap_err();
        assert!(matches!(error, WriteError::NotAsked { .. }), "{error}");
        assert_eq!(error.disposition(), Disposition::Retry { after: None });
        assert!(error.to_string().contains("hook declined"), "{error}");
    }
    let pushes = pushes(&place);
    assert!(pushes <= 10, "{pushes} pushes for thirty-two refusals");
    assert_eq!(place.bare.commits(), 2);
    std::fs::remove_file(place.bare.0.join("hooks/pre-receive")).unwrap();
    pushed(&repository, deploy(3, "three")).await;
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_bad_ones_side_by_side_cost_the_others_a_little_time_and_nothing_else() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.bare.hook(
        "pre-receive",
        "read old new ref; if git diff $old $new | grep -q hunter2; then exit 1; fi",
    );
    let mut others = apps(16);
    for (n, bad) in (104..107).zip(&mut others[4..7]) {
        *bad = deploy_files(n, &format!("app-{n}"), &[("secret.yaml", "hunter2")]);
    }
    let answers = behind_a_push(&place, &repository, deploy(2, "two"), others.clone()).await;
    let mut again = Vec::new();
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(PushOutcome::Pushed { .. }) | Err(WriteError::NotAsked { .. })
                if (4..7).contains(&n) =>
            {
                panic!("{n} is bad, and was asked about: {answer:?}")
            }
            Err(WriteError::Refused { .. }) => assert!((4..7).contains(&n), "{n} is innocent"),
            Err(WriteError::NotAsked { .. }) => again.push(others[n].clone()),
            other => drop(other.unwrap()),
        }
    }
    for one in again {
        pushed(&repository, one).await;
    }
    assert_eq!(place.bare.commits(), 2 + 13);
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_push_that_is_too_large_for_the_servers_door_goes_in_parts() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    let noise = |n: u32| {
        (0..4000)
            .map(|i| format!("{:x}", u64::from(i * 7919 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect::<String>()
    };
    let big = |n: u32| deploy_files(n, &format!("app-{n}"), &[("a.yaml", &noise(n))]);
    place.host().behave(Behaviour::LargestBody(100_000));
    let answers =
        behind_a_push(&place, &repository, deploy(2, "two"), (100..110).map(big).collect()).await;
    assert!(answers.iter().all(|one| matches!(one, Ok(PushOutcome::Pushed { .. }))), "{answers:?}");
    let pushes = pushes(&place);
    assert!(pushes > 3, "{pushes}: in parts");
    assert_eq!(place.bare.commits(), 12);
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_in_the_way_of_one_app_does_not_stop_the_others() {
    let place = Place::http().await;
    place.bare.somebody_writes("manifests/prod-1/devx/app-103", "a file");
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    let answers = behind_a_push(&place, &repository, deploy(2, "two"), apps(8)).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(matches!(answer, Err(WriteError::Blocked { .. })), n == 3, "{n}: {answer:?}");
        assert_eq!(answer.is_ok(), n != 3);
    }
    assert_eq!(place.bare.files()["manifests/prod-1/devx/app-103"], "a file");
    place.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_budget_delays_pushes_and_what_waits_goes_along() {
    let place = Place::http().await;
    let budget = PushAllowance { burst: 1, per_minute: 60 };
    let settings = WriterSettings { budget, ..place.settings("clone") };
    let repository = ManifestRepository::open(settings).await.unwrap();
    pushed(&repository, deploy(1, "one")).await;
    place.host().requests();
    let answers = join_all(apps(30).into_iter().map(|one| write(&repository, one))).await;
    assert!(answers.iter().all(|one| matches!(one, Ok(PushOutcome::Pushed { .. }))), "{answers:?}");
    assert_eq!(pushes(&place), 1);
    assert_eq!(place.bare.commits(), 31);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_targets_of_a_release_that_are_on_their_way_go_in_one_push() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.host().requests();
    let note = deploy(1, "").note;
    let release =
        Release { repository: note.repository, app: None, commit: note.commit, tag: note.tag };
    let lease = Lease::without_end();
    let to = |n: u32| {
        let mut one = deploy(n, "two");
        one.revision.target = format!("prod-{n}").parse().unwrap();
        repository.write_announced(one, noon(), &lease, Some(repository.announce(&release)))
    };
    // All three are announced; the first is here before the others, and waits for them.
    let (second, third, failed) = (to(3), to(4), Some(repository.announce(&release)));
    let first = tokio::spawn({
        let repository = repository.clone();
        let (one, way) = (deploy(5, "own"), Some(repository.announce(&release)));
        async move { repository.write_announced(one, noon(), &Lease::without_end(), way).await }
    });
    drop(failed);
    let (a, b, c) = tokio::join!(second, third, async { first.await.unwrap() });
    for one in [a, b, c] {
        assert!(matches!(one, Ok(PushOutcome::Pushed { .. })), "{one:?}");
    }
    assert_eq!(pushes(&place), 1);
    assert_eq!(place.bare.commits(), 4);
}

#[tokio::test]
async fn a_large_push_is_sound_here_and_there() {
    for push in [PushBy::Direct, PushBy::Libgit2] {
        for place in Place::both().await {
            let settings = WriterSettings { push, ..place.settings("clone") };
            let repository = ManifestRepository::open(settings).await.unwrap();
            for round in 0..3_u32 {
                let texts: Vec<String> = (0..150).map(|n| format!("{round} {n}")).collect();
                let names: Vec<String> = (0..150).map(|n| format!("f{n}.yaml")).collect();
                let files: Vec<_> = names
                    .iter()
                    .map(String::as_str)
                    .zip(texts.iter().map(String::as_str))
                    .collect();
                pushed(&repository, deploy_files(round + 1, "my-app", &files)).await;
            }
            assert_eq!(place.bare.files().len(), 4 * 150 + 2);
            place.bare.assert_sound();
            if place.host.is_some() {
                let clone = Bare(place.folder.path().join("clone"));
                let report = clone.run(&["fsck", "--full", "--no-dangling"]);
                assert_eq!(report, "", "the clone is whole");
                let packs = std::fs::read_dir(clone.0.join("objects/pack")).unwrap().count();
                assert!(packs >= 6, "{packs}: three packs with their indexes");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_takes_no_thin_packs_gets_whole_ones() {
    let place = Place::http().await;
    let repository = place.open().await;
    // Folders that are worth a difference.
    for n in 1..8 {
        pushed(&repository, deploy_files(n, &format!("app-{n}"), &[("a.yaml", "a")])).await;
    }
    place.host().behave(Behaviour::NoThinPacks);
    place.host().requests();
    let post = "POST /m.git/git-receive-pack";
    let asked = "GET /m.git/info/refs?service=git-receive-pack";
    // The first could be an accident.
    for n in 10..12 {
        pushed(&repository, deploy_files(n, &format!("app-{n}"), &[("a.yaml", "b")])).await;
        assert_eq!(place.host().requests(), [post, asked, post]);
    }
    pushed(&repository, deploy_files(12, "app-12", &[("a.yaml", "b")])).await;
    assert_eq!(place.host().requests(), [post], "it is remembered");
    place.bare.assert_sound();
}
