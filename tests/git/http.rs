//! Tests what is particular to a git server over HTTP: refusals, tokens, cuts, and the clone that is kept.

use std::fs;
use std::time::Duration;

use the_deployer::git::transport::push_rejection::RefusalKind;
use the_deployer::git::transport::token::Tokens;
use the_deployer::git::writer::{ManifestRepository, PushOutcome, WriteError};
use the_deployer::support::retry::Disposition;

use crate::git::place::{HELP, Place, deploy, deploy_files, pushed, settings, write};
use crate::harness::git::Bare;
use crate::harness::git_host::{Behaviour, TOKEN};

const RETRY: Disposition = Disposition::Retry { after: None };

#[tokio::test]
async fn an_idle_writer_pushes_with_one_request() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.host().requests();
    pushed(&repository, deploy(2, "two")).await;
    assert_eq!(place.host().requests(), ["POST /m.git/git-receive-pack"]);
}

#[tokio::test]
async fn the_first_clone_is_shallow_and_can_push_and_fetch() {
    let place = Place::http().await;
    for n in 0..20 {
        place.bare.somebody_writes("README.md", &format!("version {n}"));
    }
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.bare.somebody_writes("README.md", "theirs");
    pushed(&repository, deploy(2, "two")).await;
    let depth = place.folder.path().join("clone/shallow");
    assert_eq!(fs::read_to_string(depth).unwrap().lines().count(), 1);
    assert_eq!(place.bare.commits(), 23);
    assert_eq!(place.bare.files()["README.md"], "theirs");
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_protected_branch_is_told_apart_and_not_tried_again() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.bare.hook(
        "pre-receive",
        "echo 'error: GH006: Protected branch update failed for refs/heads/main.' >&2; exit 1",
    );
    place.host().requests();
    let error = write(&repository, deploy(2, "two")).await.unwrap_err();
    let WriteError::Refused { refusal, branch, .. } = &error else { panic!("{error}") };
    assert_eq!((refusal.kind, branch.as_str()), (RefusalKind::Protected, "main"));
    assert_eq!(error.disposition(), Disposition::Stop);
    let text = error.to_string();
    assert!(text.contains("pre-receive hook declined (error: GH006: Protected branch"), "{text}");
    assert!(text.contains("What to do: let this service's account bypass"), "{text}");
    let tries = place.host().requests();
    assert_eq!(
        tries.iter().filter(|line| line.starts_with("POST")).count(),
        1,
        "one try: {tries:?}"
    );
    fs::remove_file(place.bare.0.join("hooks/pre-receive")).unwrap();
    pushed(&repository, deploy(2, "two")).await;
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_server_that_loses_the_race_for_its_own_lock_is_asked_again() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    // Another writer gets in after the advertisement, while our push waits in the hook.
    place.bare.hook(
        "pre-receive",
        "rm hooks/pre-receive; old=$(git rev-parse main); \
        unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES; \
        git update-ref refs/heads/main $(git commit-tree -p $old -m theirs $old^{tree})",
    );
    pushed(&repository, deploy(2, "two")).await;
    assert_eq!(place.bare.commits(), 3);
    assert!(place.bare.run(&["log", "--format=%s", "main"]).contains("theirs"));
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_wrong_token_is_told_apart_and_never_shown() {
    let place = Place::http().await;
    for token in [Some("wr0ng"), None] {
        let mut settings = place.settings("wrong");
        settings.remote.tokens =
            token.map_or_else(Tokens::none, |token| Tokens::fixed(token.into(), HELP));
        assert!(!format!("{settings:?}").contains("wr0ng"));
        let repository = ManifestRepository::open(settings).await.unwrap();
        for error in [
            write(&repository, deploy(1, "one")).await.unwrap_err(),
            repository.ready().await.unwrap_err(),
        ] {
            assert!(matches!(error, WriteError::Unauthorized { status: 401, .. }), "{error}");
            assert_eq!(error.disposition(), Disposition::Stop);
            assert!(!format!("{error} {error:?}").contains("wr0ng"));
            let help = token.map_or("give it a token", |_| HELP);
            assert!(error.to_string().contains(help), "{error}");
        }
    }
    place.open().await.ready().await.unwrap();
    assert!(place.host().requests().iter().all(|line| !line.contains(TOKEN)));
}

#[tokio::test]
async fn a_missing_repository_and_a_missing_server_are_told_apart() {
    let place = Place::http().await;
    let missing = settings(place.host().url("nowhere.git"), &place.folder.path().join("a"));
    let repository = ManifestRepository::open(missing).await.unwrap();
    let error = write(&repository, deploy(1, "one")).await.unwrap_err();
    assert!(matches!(error, WriteError::NotFound { .. }), "{error}");
    assert_eq!(error.disposition(), Disposition::Stop);

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = settings(format!("http://{free}/m.git"), &place.folder.path().join("b"));
    let repository = ManifestRepository::open(gone).await.unwrap();
    for error in [
        write(&repository, deploy(1, "one")).await.unwrap_err(),
        repository.ready().await.unwrap_err(),
    ] {
        assert!(matches!(error, WriteError::Unreachable { .. }), "{error}");
        assert_eq!(error.disposition(), RETRY);
        assert!(error.to_string().contains("no connection (Connection refused"), "{error}");
    }
}

#[tokio::test]
async fn a_url_with_a_password_is_refused_and_not_repeated() {
    let place = Place::http().await;
    let url = place.host().url("m.git").replace("http://", "http://user:hunter2@");
    let error = ManifestRepository::open(settings(url, place.folder.path())).await.err().unwrap();
    assert!(error.to_string().contains("token file"), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error}");
}

#[tokio::test]
async fn answers_that_are_not_gits_are_told_apart() {
    let place = Place::http().await;
    let repository = place.open().await;
    let wait = Some(Duration::from_mins(1));
    let cases = [
        (Behaviour::Status(500, None), RETRY, "HTTP 500"),
        (Behaviour::Status(403, None), Disposition::Doubt, "HTTP 403"),
        (
            Behaviour::Status(403, Some(60)),
            Disposition::Retry { after: wait },
            "asks the service to wait",
        ),
        (Behaviour::Status(429, None), RETRY, "asks the service to wait"),
        (Behaviour::Html, Disposition::Stop, "not git's (text/html)"),
        (Behaviour::Moved, Disposition::Stop, "/moved/m.git"),
    ];
    for (behaviour, disposition, words) in cases {
        place.host().behave(behaviour.clone());
        let error = write(&repository, deploy(1, "one")).await.unwrap_err();
        assert_eq!(error.disposition(), disposition, "{behaviour:?}: {error}");
        assert!(error.to_string().contains(words), "{behaviour:?}: {error}");
    }
    place.host().behave(Behaviour::Good);
    pushed(&repository, deploy(1, "one")).await;
}

#[tokio::test]
async fn a_repository_that_was_renamed_is_told_with_its_new_address() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.host().behave(Behaviour::Moved);
    // The clone is kept: what is sent first is the push.
    let error = write(&repository, deploy(2, "two")).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Stop);
    let to = format!("has moved to {}:", place.host().url("moved/m.git"));
    assert!(error.to_string().contains(&to), "{error}");
    assert_eq!(place.bare.commits(), 1);
    place.host().behave(Behaviour::Good);
    pushed(&repository, deploy(2, "two")).await;
}

#[tokio::test]
async fn what_a_server_says_in_place_of_a_report_is_told() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.host().behave(Behaviour::Complains);
    let error = write(&repository, deploy(2, "two")).await.unwrap_err();
    assert_eq!(error.disposition(), RETRY);
    assert!(error.to_string().ends_with("but said: closed for today"), "{error}");
    place.host().behave(Behaviour::Good);
    pushed(&repository, deploy(2, "two")).await;
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_counts_if_the_branch_has_it() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    place.host().behave(Behaviour::CutAfterPush);
    let commit = pushed(&repository, deploy(2, "two")).await;
    assert_eq!(place.bare.tip(), commit);
    assert_eq!(place.bare.commits(), 2);
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_push_that_comes_through_after_we_gave_up_is_found_by_the_next_try() {
    let place = Place::http().await;
    let mut settings = place.settings("clone");
    settings.remote.silence = Duration::from_millis(1500);
    let repository = ManifestRepository::open(settings).await.unwrap();
    pushed(&repository, deploy(1, "one")).await;
    place.bare.hook("pre-receive", "while [ ! -e go ]; do sleep 0.02; done");
    let error = write(&repository, deploy(2, "two")).await.unwrap_err();
    assert!(error.to_string().contains("said nothing for 1.5 s"), "{error}");
    assert_eq!(error.disposition(), RETRY);
    fs::write(place.bare.0.join("go"), "").unwrap();
    // Either the late push is in, and found; or the client's leaving ended it, and this one is.
    let written = write(&repository, deploy(2, "two")).await.unwrap();
    let (PushOutcome::AlreadyPushed { commit } | PushOutcome::Pushed { commit }) = written else {
        panic!("{written:?}")
    };
    assert_eq!(place.bare.tip(), commit.as_str());
    assert_eq!(place.bare.commits(), 2);
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_cut_clone_is_begun_again() {
    let place = Place::http().await;
    place.bare.somebody_writes("README.md", "hello");
    let repository = place.open().await;
    place.host().behave(Behaviour::CutDuringFetch);
    let error = write(&repository, deploy(1, "one")).await.unwrap_err();
    assert_eq!(error.disposition(), RETRY, "{error}");
    place.host().behave(Behaviour::Good);
    pushed(&repository, deploy(1, "one")).await;
    assert_eq!(place.bare.commits(), 2);
}

#[tokio::test]
async fn a_kept_clone_is_used_again_after_a_restart() {
    let place = Place::http().await;
    pushed(&place.open().await, deploy(1, "one")).await;
    place.host().requests();
    pushed(&place.open().await, deploy(2, "two")).await;
    assert_eq!(place.host().requests().len(), 1, "nothing is fetched");
}

#[tokio::test]
async fn a_damaged_clone_is_noticed_and_made_again() {
    let place = Place::http().await;
    pushed(&place.open().await, deploy_files(1, "other", &[("a.yaml", "a")])).await;
    let clone = place.folder.path().join("clone");
    let damages: [&dyn Fn(); 4] = [
        &|| fs::remove_file(clone.join("HEAD")).unwrap(),
        &|| fs::remove_dir_all(clone.join("objects")).unwrap(),
        &|| fs::write(clone.join("refs/remotes/origin/tip"), "nonsense").unwrap(),
        &|| empty_every_object(&clone.join("objects")),
    ];
    for (n, damage) in (2..).zip(damages) {
        damage();
        pushed(&place.open().await, deploy(n, &format!("text {n}"))).await;
        place.bare.assert_sound();
    }
    // While it is in use, too.
    let repository = place.open().await;
    empty_every_object(&clone.join("objects"));
    pushed(&repository, deploy(9, "nine")).await;
    assert_eq!(place.bare.commits(), 6);
    place.bare.assert_sound();
}

fn empty_every_object(folder: &std::path::Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            empty_every_object(&entry.path());
        } else {
            let path = entry.path();
            fs::remove_file(&path).unwrap();
            fs::write(&path, "").unwrap();
        }
    }
}

#[tokio::test]
async fn a_clone_of_another_repository_is_replaced_and_a_foreign_folder_is_moved_aside() {
    let place = Place::http().await;
    place.host().create("other.git").somebody_writes("other", "other");
    let clone = place.folder.path().join("clone");
    let other = settings(place.host().url("other.git"), &clone);
    pushed(&ManifestRepository::open(other).await.unwrap(), deploy(1, "one")).await;
    pushed(&place.open().await, deploy(1, "one")).await;
    assert!(!place.bare.files().contains_key("other"));

    fs::remove_dir_all(&clone).unwrap();
    Bare::create(&clone).somebody_writes("dear", "work of years");
    pushed(&place.open().await, deploy(2, "two")).await;
    let aside = Bare(place.folder.path().join("clone.aside-1"));
    assert_eq!(aside.files()["dear"], "work of years");
    assert!(!place.bare.files().contains_key("dear"));
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_full_clone_is_made_anew_and_nothing_is_lost() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy(1, "one")).await;
    let crowded = place.folder.path().join("clone/objects/17");
    fs::create_dir_all(&crowded).unwrap();
    for n in 0..200 {
        fs::write(crowded.join(format!("{n:038}")), "").unwrap();
    }
    // The new clone is made beside the old one, which is written to meanwhile.
    let mut n = 1;
    while crowded.join(format!("{:038}", 0)).exists() {
        n += 1;
        assert!(n < 1000, "it is never made anew");
        pushed(&repository, deploy(n, &format!("text {n}"))).await;
    }
    pushed(&repository, deploy(n + 1, "last")).await;
    assert!(!place.folder.path().join("clone.next").exists());
    assert_eq!(place.bare.commits(), n as usize + 1);
    assert_eq!(repository.tip().await.unwrap().unwrap().as_str(), place.bare.tip());
    place.bare.assert_sound();
}

#[tokio::test]
async fn a_branch_that_was_moved_back_or_deleted_is_not_brought_back() {
    let place = Place::http().await;
    let repository = place.open().await;
    pushed(&repository, deploy_files(1, "keep", &[("a.yaml", "a")])).await;
    pushed(&repository, deploy_files(2, "secret", &[("a.yaml", "oops")])).await;
    place.bare.run(&["update-ref", "refs/heads/main", "main~1"]);
    pushed(&repository, deploy(3, "three")).await;
    assert_eq!(place.bare.commits(), 2);
    assert!(place.bare.files().keys().all(|path| !path.contains("secret")));
    place.bare.assert_sound();
}
