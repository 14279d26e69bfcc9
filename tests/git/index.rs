//! What a follower of all apps sees, and how little it reads for that.

use the_deployer::git::index::{Changes, Follower};
use the_deployer::git::writer::ManifestRepository;
use the_deployer::model::id::{AppKey, TargetName};

use crate::git::place::{Place, deploy_files, pushed};

fn target() -> TargetName {
    "prod-1".parse().unwrap()
}

fn app(slug: &str) -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() }
}

fn follow(repository: &ManifestRepository) -> Follower {
    repository.follow(&target(), |name| name.starts_with("ingress"))
}

/// `slug: file=text …` of each app that has changed, and `slug: gone`.
fn shown(changes: &Changes) -> Vec<String> {
    let file = |file: &the_deployer::model::revision::ManifestFile| {
        format!(" {}={}", file.name, String::from_utf8_lossy(&file.bytes))
    };
    let others = changes
        .changed
        .iter()
        .map(|(app, files)| format!("{}:{}", app.slug, files.iter().map(file).collect::<String>()));
    let gone = changes.gone.iter().map(|app| format!("{}: gone", app.slug));
    others.chain(gone).collect()
}

#[tokio::test]
async fn only_what_has_changed_is_seen_again() {
    for place in Place::both().await {
        let repository = place.open().await;
        let mut follower = follow(&repository);
        repository.tip().await.unwrap();
        // A clone cannot tell an empty repository from a branch that it does not know yet.
        let empty = follower.changes();
        assert_eq!(empty.ok(), repository.is_local().then(Changes::default));
        let routed = |n, slug: &str, route: &str, other: &str| {
            deploy_files(n, slug, &[("deployment.yaml", other), ("ingress.yaml", route)])
        };
        pushed(&repository, routed(1, "a", "x", "1")).await;
        pushed(&repository, routed(2, "b", "y", "1")).await;
        pushed(&repository, deploy_files(3, "worker", &[("deployment.yaml", "1")])).await;
        let seen = shown(&follower.changes().unwrap());
        assert_eq!(seen, ["a: ingress.yaml=x", "b: ingress.yaml=y"]);
        assert_eq!(follower.changes().unwrap(), Changes::default());
        pushed(&repository, routed(4, "a", "x", "2")).await;
        assert_eq!(follower.changes().unwrap(), Changes::default(), "its routes are the same");
        pushed(&repository, routed(5, "a", "z", "2")).await;
        assert_eq!(shown(&follower.changes().unwrap()), ["a: ingress.yaml=z"]);
        pushed(&repository, deploy_files(6, "b", &[("deployment.yaml", "2")])).await;
        assert_eq!(shown(&follower.changes().unwrap()), ["b:"], "it has no routes any more");
        let (latest, left_out) = follower.latest(&target(), &app("a")).unwrap();
        assert!(left_out.is_empty());
        let names: Vec<_> = latest.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["deployment.yaml", "ingress.yaml"]);
        assert_eq!(follower.latest(&target(), &app("none")).unwrap().0, []);
        let elsewhere = "prod-2".parse().unwrap();
        let mut elsewhere = repository.follow(&elsewhere, |_| true);
        assert_eq!(elsewhere.changes().unwrap(), Changes::default());
    }
}

#[tokio::test]
async fn what_others_push_is_seen_when_the_server_was_asked() {
    for place in Place::both().await {
        let repository = place.open().await;
        let mut follower = follow(&repository);
        pushed(&repository, deploy_files(1, "a", &[("ingress.yaml", "x")])).await;
        assert_eq!(shown(&follower.changes().unwrap()), ["a: ingress.yaml=x"]);
        place.bare.somebody_writes("manifests/prod-1/devx/b/latest/ingress.yaml", "theirs");
        place.bare.somebody_writes("manifests/prod-1/devx/Not_Ours/latest/ingress.yaml", "x");
        place.bare.somebody_writes("manifests/prod-1/file", "no folder");
        if !repository.is_local() {
            assert_eq!(follower.changes().unwrap(), Changes::default());
            repository.tip().await.unwrap();
        }
        assert_eq!(shown(&follower.changes().unwrap()), ["b: ingress.yaml=theirs"]);
        place.bare.run(&["update-ref", "refs/heads/main", "main~3"]);
        repository.tip().await.unwrap();
        assert_eq!(shown(&follower.changes().unwrap()), ["b: gone"]);
    }
}

#[tokio::test]
async fn a_clone_that_is_made_anew_is_followed_on() {
    let place = Place::http().await;
    let repository = place.open().await;
    let mut follower = follow(&repository);
    pushed(&repository, deploy_files(1, "a", &[("ingress.yaml", "x")])).await;
    assert_eq!(follower.changes().unwrap().changed.len(), 1);
    let clone = place.folder.path().join("clone");
    for entry in std::fs::read_dir(clone.join("objects")).unwrap() {
        std::fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    pushed(&repository, deploy_files(2, "b", &[("ingress.yaml", "y")])).await;
    assert_eq!(shown(&follower.changes().unwrap()), ["b: ingress.yaml=y"]);
    std::fs::remove_dir_all(&clone).unwrap();
    let said = follower.changes().unwrap_err().to_string();
    assert!(said.contains("clone"), "{said}");
}
