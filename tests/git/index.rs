//! Tests what a follower of all apps reads, and how little that is.

use std::collections::BTreeMap;

use the_deployer::git::index::{Application, ChangedApp, Changes, TargetFollower};
use the_deployer::git::writer::ManifestRepository;
use the_deployer::model::id::{AppKey, TargetName};
use the_deployer::model::revision::ManifestFile;
use the_deployer::support::lease::Lease;

use crate::git::place::{Place, deploy_files, noon, pushed};
use crate::harness::git::Bare;

fn target() -> TargetName {
    "prod-1".parse().unwrap()
}

fn app(slug: &str) -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() }
}

fn follow(repository: &ManifestRepository) -> TargetFollower {
    repository.follow(&target(), |name| name.starts_with("ingress"))
}

/// Of each app that has changed `slug@live`, then what of it is another: `: file=text …`, and
/// `+` or `-` and the Application; and `slug: gone`.
fn shown(changes: &Changes) -> Vec<String> {
    let file = |file: &ManifestFile| format!(" {}={}", file.name, text(&file.bytes));
    let one = |one: &ChangedApp| {
        let live = one.live.as_ref().map_or("?", |id| id.as_str().split('-').nth(1).unwrap());
        let live = live.trim_start_matches('0');
        let files = one.files.as_ref().map(|files| files.iter().map(file).collect::<String>());
        let files = files.map(|files| format!(":{files}")).unwrap_or_default();
        let application = match &one.application {
            Application::Same => String::new(),
            Application::Gone => " -".to_owned(),
            Application::Now(bytes) => format!(" +{}", text(bytes)),
        };
        format!("{}@{live}{files}{application}", one.app.slug)
    };
    let gone = changes.gone.iter().map(|app| format!("{}: gone", app.slug));
    changes.changed.iter().map(one).chain(gone).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().replace("application: ", "")
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
        assert_eq!(seen, ["a@1: ingress.yaml=x +a", "b@2: ingress.yaml=y +b", "worker@3: +worker"]);
        assert_eq!(follower.files_read(), 5, "each once, and the deployments not at all");
        assert_eq!(follower.changes().unwrap(), Changes::default());
        pushed(&repository, routed(4, "a", "x", "2")).await;
        assert_eq!(shown(&follower.changes().unwrap()), ["a@4"], "its routes are the same");
        assert_eq!(follower.files_read(), 5);
        pushed(&repository, routed(5, "a", "z", "2")).await;
        assert_eq!(shown(&follower.changes().unwrap()), ["a@5: ingress.yaml=z"]);
        pushed(&repository, deploy_files(6, "b", &[("deployment.yaml", "2")])).await;
        assert_eq!(shown(&follower.changes().unwrap()), ["b@6:"], "it has no routes any more");
        assert_eq!(follower.files_read(), 6);
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
async fn what_is_left_out_is_named() {
    let place = Place::local();
    let repository = place.open().await;
    let latest = "manifests/prod-1/devx/a/latest";
    place.bare.somebody_writes(&format!("{latest}/ingress.yaml"), "x");
    place.bare.somebody_writes(&format!("{latest}/ingress-large"), &"x".repeat(1024 * 1024 + 1));
    let mut follower = follow(&repository);
    let changes = follower.changes().unwrap();
    assert_eq!(shown(&changes), ["a@?: ingress.yaml=x -"]);
    assert_eq!(changes.changed[0].left_out, ["ingress-large"]);
    place.bare.somebody_writes(&format!("{latest}/deployment.yaml"), "x");
    assert_eq!(follower.changes().unwrap(), Changes::default(), "told once");
    let many: Vec<(String, String)> =
        (0..=200).map(|n| (format!("ingress-{n:03}"), n.to_string())).collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    pushed(&repository, deploy_files(1, "b", &many)).await;
    let app = follower.changes().unwrap().changed.pop().unwrap();
    assert_eq!((app.files.unwrap().len(), app.left_out), (200, vec!["ingress-200".into()]));
}

#[tokio::test]
async fn more_apps_than_are_wanted_are_not_read() {
    for place in Place::both().await {
        let repository = place.open().await;
        let mut follower = follow(&repository);
        for (n, slug) in [(1, "a"), (2, "b")] {
            pushed(&repository, deploy_files(n, slug, &[("ingress.yaml", "x")])).await;
        }
        assert_eq!(follower.changes_within(1).unwrap(), None);
        assert_eq!(follower.files_read(), 0);
        let all = follower.changes_within(2).unwrap().unwrap();
        assert_eq!(shown(&all), ["a@1: ingress.yaml=x +a", "b@2: ingress.yaml=x +b"]);
    }
}

#[tokio::test]
async fn what_others_push_is_seen_when_the_server_was_asked() {
    for place in Place::both().await {
        let repository = place.open().await;
        let mut follower = follow(&repository);
        pushed(&repository, deploy_files(1, "a", &[("ingress.yaml", "x")])).await;
        assert_eq!(shown(&follower.changes().unwrap()), ["a@1: ingress.yaml=x +a"]);
        place.bare.somebody_writes("manifests/prod-1/devx/b/latest/ingress.yaml", "theirs");
        place.bare.somebody_writes("manifests/prod-1/devx/Not_Ours/latest/ingress.yaml", "x");
        place.bare.somebody_writes("manifests/prod-1/file", "no folder");
        if !repository.is_local() {
            assert_eq!(follower.changes().unwrap(), Changes::default());
            repository.tip().await.unwrap();
        }
        assert_eq!(shown(&follower.changes().unwrap()), ["b@?: ingress.yaml=theirs -"]);
        place.bare.somebody_writes("apps/prod-1/devx.b.yaml", "application: theirs");
        place.bare.somebody_writes("apps/prod-1/devx.a.yaml", "application: a, by hand");
        place.bare.somebody_writes("apps/prod-1/devx.nobody.yaml", "application: without an app");
        repository.tip().await.unwrap();
        assert_eq!(shown(&follower.changes().unwrap()), ["a@1 +a, by hand", "b@? +theirs"]);
        place.bare.somebody_writes("manifests/prod-1/devx/a/latest/more.yaml", "by hand");
        repository.tip().await.unwrap();
        assert_eq!(shown(&follower.changes().unwrap()), ["a@?"], "`latest` is no revision's");
        place.bare.run(&["update-ref", "refs/heads/main", "main~7"]);
        repository.tip().await.unwrap();
        assert_eq!(shown(&follower.changes().unwrap()), ["a@1 +a", "b: gone"]);
        assert_eq!(repository.targets().unwrap(), [target()]);
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
    assert_eq!(shown(&follower.changes().unwrap()), ["b@2: ingress.yaml=y +b"]);
    std::fs::remove_dir_all(&clone).unwrap();
    let said = follower.changes().unwrap_err().to_string();
    assert!(said.contains("clone"), "{said}");
}

/// What somebody knows who has followed from the beginning.
type Model = BTreeMap<AppKey, (Option<String>, Vec<ManifestFile>, Option<Vec<u8>>)>;

fn learn(model: &mut Model, changes: Changes) {
    for app in changes.gone {
        assert!(model.remove(&app).is_some(), "{app} was never there");
    }
    for one in changes.changed {
        let known = model.entry(one.app).or_default();
        known.0 = one.live.map(String::from);
        known.1 = one.files.unwrap_or_else(|| std::mem::take(&mut known.1));
        match one.application {
            Application::Same => {}
            Application::Gone => known.2 = None,
            Application::Now(bytes) => known.2 = Some(bytes),
        }
    }
}

/// Whatever happens to the repository, who follows step by step knows what one knows who comes last.
#[tokio::test]
async fn following_step_by_step_comes_to_the_same_as_reading_all_at_once() {
    let place = Place::local();
    let repository = place.open().await;
    let mut follower = follow(&repository);
    let (mut model, mut seed) = (Model::new(), 20_261_121_u32);
    let mut draw = |most: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % most
    };
    for n in 1..=60 {
        let slug = format!("app-{}", draw(4));
        let (folder, file) = (format!("manifests/prod-1/devx/{slug}"), draw(3).to_string());
        match draw(8) {
            0..=2 => {
                let route = [("deployment.yaml", "1"), ("ingress.yaml", file.as_str())];
                let some = usize::try_from(1 + draw(2)).unwrap();
                let write = deploy_files(n, &slug, &route[..some]);
                let _written =
                    repository.write(write, noon(), &Lease::without_end()).await.unwrap();
            }
            3 => place.bare.somebody_writes(&format!("{folder}/latest/ingress.yaml"), &file),
            4 => place.bare.somebody_writes(&format!("apps/prod-1/devx.{slug}.yaml"), &file),
            5 => takes_away(&place.bare, &folder),
            6 => takes_away(&place.bare, &format!("apps/prod-1/devx.{slug}.yaml")),
            _ if place.bare.commits() > 3 => {
                place.bare.run(&["update-ref", "refs/heads/main", "main~2"]);
            }
            _ => place.bare.somebody_writes("README.md", &file),
        }
        learn(&mut model, follower.changes().unwrap());
        let mut whole = Model::new();
        learn(&mut whole, follow(&repository).changes().unwrap());
        assert_eq!(model, whole, "after step {n}");
    }
    assert!(model.len() > 1, "{model:?}");
}

fn takes_away(bare: &Bare, path: &str) {
    let from = if bare.commits() > 0 { "from refs/heads/main^0\n" } else { "" };
    let head = "commit refs/heads/main\ncommitter a <a@example.com> 1 +0000\ndata 1\nx\n";
    bare.import(&format!("{head}{from}D {path}\n\n"));
}

#[tokio::test]
async fn former_revisions_are_read_for_the_files_that_are_wanted() {
    let place = Place::local();
    let repository = place.open().await;
    let mut follower = follow(&repository);
    let wanted: fn(&str) -> bool = |name| name.starts_with("claim");
    let claim = |n, size: &str| deploy_files(n, "a", &[("claim.yaml", size), ("other.yaml", size)]);
    for (n, size) in [(1, "5Gi"), (2, "10Gi")] {
        pushed(&repository, claim(n, size)).await;
    }
    pushed(&repository, deploy_files(3, "a", &[("other.yaml", "x")])).await;
    let mut former = || {
        let files = follower.former_files(&target(), &app("a"), wanted).unwrap();
        let shown = |files: &Vec<ManifestFile>| {
            files
                .iter()
                .map(|file| format!("{}={}", file.name, text(&file.bytes)))
                .collect::<String>()
        };
        files.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(former(), ["claim.yaml=10Gi", "claim.yaml=5Gi"], "the newest first");
    pushed(&repository, claim(4, "10Gi")).await;
    assert_eq!(former(), ["", "claim.yaml=5Gi"], "what is live is no former one");
    assert!(follower.former_files(&target(), &app("none"), wanted).unwrap().is_empty());
}

#[tokio::test]
async fn the_apps_of_a_namespace_are_read_once_and_what_is_left_out_is_named() {
    let place = Place::local();
    let repository = place.open().await;
    let mut follower = follow(&repository);
    let large = "x".repeat(1024 * 1024 + 1);
    pushed(&repository, deploy_files(1, "a", &[("x.yaml", "x")])).await;
    pushed(&repository, deploy_files(2, "b", &[("x.yaml", "x"), ("y.yaml", &large)])).await;
    let names = |files: &[ManifestFile], left: Vec<String>| {
        (files.iter().map(|file| file.name.clone()).collect::<Vec<_>>(), left)
    };
    let namespace = app("a").namespace;
    let all = follower.namespace(&target(), &namespace, |_| None, names).unwrap();
    let found: Vec<_> = all.iter().map(|app| app.found.clone().unwrap()).collect();
    let x = vec!["x.yaml".to_owned()];
    assert_eq!(found, [(x.clone(), vec![]), (x, vec!["y.yaml".to_owned()])]);
    let known = |slug: &the_deployer::model::id::Slug| {
        all.iter().find(|app| app.slug == *slug).map(|app| app.folder)
    };
    let again = follower.namespace(&target(), &namespace, known, names).unwrap();
    assert!(again.iter().all(|app| app.found.is_none()), "nothing has changed");
}
