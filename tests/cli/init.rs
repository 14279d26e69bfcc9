//! `the-deployer init`, as an operator runs it.
//!
//! `tests/cli/init/expected/` holds the repository that it makes of `tests/cli/init/config.yaml`.
//! With `UPDATE_EXPECTED=1` it is written anew; read the diff before keeping it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value as Json;
use tempfile::TempDir;

use super::{program, said};
use crate::harness::folder;
use crate::harness::git::{Bare, Files};
use crate::harness::git_host::{GitHost, TOKEN};

/// Where the expected files say that the repository is.
const URL: &str = "https://git.example.com/manifests.git";

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/init")
}

/// A folder with the configuration, and its repository.
fn place() -> (TempDir, Bare) {
    let folder = folder::temporary();
    let bare = Bare::create(&folder.path().join("m.git"));
    let config = fs::read_to_string(here().join("config.yaml")).unwrap();
    let config = config.replace(URL, bare.0.to_str().unwrap());
    fs::write(folder.path().join("config.yaml"), config).unwrap();
    (folder, bare)
}

fn init(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = program("the-deployer", folder);
    command.args(["init", "--config", "config.yaml"]).args(arguments).output().unwrap()
}

/// The states of the files that `--output json` tells, by path.
fn states(output: &Output) -> BTreeMap<String, String> {
    let json: Json =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)));
    let files = json["repositories"][0]["files"].as_array().unwrap().clone();
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    files.iter().map(|file| (text(&file["path"]), text(&file["state"]))).collect()
}

fn recorded() -> Files {
    fn below(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { below(&path, files) } else { files.push(path) }
        }
    }
    let root = here().join("expected");
    let mut files = Vec::new();
    below(&root, &mut files);
    let relative = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (relative(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn it_writes_what_is_recorded_of_it_in_one_commit() {
    let (folder, bare) = place();
    let output = init(folder.path(), &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("kubectl apply -f apps/edge.eu.yaml"), "{}", said(&output));
    let there = |text: String| text.replace(bare.0.to_str().unwrap(), URL);
    let made: Files = bare.files().into_iter().map(|(path, text)| (path, there(text))).collect();
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        let _ = fs::remove_dir_all(here().join("expected"));
        for (path, text) in &made {
            let path = here().join("expected").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    assert_eq!(made, recorded());
    assert_eq!(bare.commits(), 1);
    assert!(bare.message().starts_with("init: the layout that the-deployer writes into\n"));
    bare.assert_sound();
}

#[test]
fn again_it_changes_nothing() {
    let (folder, bare) = place();
    assert!(init(folder.path(), &[]).status.success());
    let again = init(folder.path(), &[]);
    assert!(said(&again).contains("nothing to do"), "{}", said(&again));
    let again = init(folder.path(), &["--output", "json", "--force"]);
    assert!(states(&again).values().all(|state| state == "unchanged"), "{}", said(&again));
    assert_eq!(bare.commits(), 1);
}

#[test]
fn a_dry_run_writes_nothing_anywhere() {
    let (folder, bare) = place();
    let output = init(folder.path(), &["--dry-run"]);
    assert!(said(&output).contains("would be written"), "{}", said(&output));
    assert_eq!(bare.commits(), 0);
    let empty = folder::temporary();
    let output =
        program("the-deployer", empty.path()).args(["init", "--dry-run"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn what_people_edited_stays_and_the_difference_is_shown() {
    let (folder, bare) = place();
    bare.somebody_writes("README.md", "our own words\n");
    bare.somebody_writes("apps/README.md/index.md", "a folder in the way\n");
    bare.somebody_writes("notes.txt", "theirs");
    let output = init(folder.path(), &[]);
    assert!(output.status.success(), "{}", said(&output));
    for part in
        ["kept       README.md", "-our own words", "+# Manifests", "kept       apps/README.md"]
    {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    let files = bare.files();
    assert_eq!(files["README.md"], "our own words\n");
    assert_eq!(files["apps/README.md/index.md"], "a folder in the way\n");
    assert!(files.contains_key("apps/prod-cluster-1.yaml"));
    let forced = init(folder.path(), &["--force", "--output", "json"]);
    let states = states(&forced);
    assert_eq!(states["README.md"], "replaced");
    assert_eq!(states["apps/README.md"], "kept", "a folder is nobody's to replace");
    let files = bare.files();
    assert!(files["README.md"].starts_with("# Manifests"));
    assert_eq!(files["notes.txt"], "theirs");
    assert!(bare.message().contains("1 file replaced."), "{}", bare.message());
    bare.assert_sound();
}

#[test]
fn the_destinations_of_a_project_follow_the_configuration_and_the_rest_is_its_editors() {
    let (folder, bare) = place();
    assert!(init(folder.path(), &[]).status.success());
    let project = "apps/prod-cluster-1/project.yaml";
    let windows = "  syncWindows:\n  - {kind: deny, schedule: '0 0 * * 0', duration: 24h}\n";
    let edited = bare.files()[project].clone() + windows;
    bare.somebody_writes(project, &edited);
    let config = fs::read_to_string(folder.path().join("config.yaml")).unwrap();
    let narrowed = config.replace(
        "domain: prod.example.com",
        "domain: prod.example.com, policies: {namespaces: {allow: [team-*, shop]}}",
    );
    assert_ne!(narrowed, config);
    fs::write(folder.path().join("config.yaml"), narrowed).unwrap();
    let dry = init(folder.path(), &["--dry-run"]);
    assert!(said(&dry).contains(&format!("would be updated    {project}")), "{}", said(&dry));
    let output = init(folder.path(), &["--output", "json"]);
    assert_eq!(states(&output)[project], "updated", "{}", said(&output));
    let server = "  - server: https://kubernetes.default.svc\n    namespace: ";
    let expected =
        edited.replace(&format!("{server}\"*\"\n"), &format!("{server}\"team-*\"\n{server}shop\n"));
    assert_ne!(expected, edited);
    // Nor does the list allow what the platform has, so that nothing need be kept from apps there.
    let platform = [
        "cert-manager",
        "cnrm-system",
        "default",
        "external-secrets",
        "flux-system",
        "gatekeeper-system",
        "ingress-nginx",
        "istio-ingress",
        "istio-system",
        "linkerd",
        "monitoring",
        "traefik",
        "vault",
        "vault-secrets-operator-system",
    ];
    let expected = platform.iter().fold(expected, |text, name| {
        let denied = format!("{server}\"!{name}\"\n");
        assert!(text.contains(&denied), "{name}: {text}");
        text.replace(&denied, "")
    });
    assert_eq!(bare.files()[project], expected);
    let again = init(folder.path(), &["--output", "json"]);
    assert_eq!(states(&again)[project], "kept", "its sync windows stay: {}", said(&again));
    assert_eq!(bare.files()[project], expected);
    bare.assert_sound();
}

#[test]
fn without_clusters_there_are_no_parents_yet() {
    let folder = folder::temporary();
    let output = program("the-deployer", folder.path()).arg("init").output().unwrap();
    assert!(said(&output).contains("written with the first deployment"), "{}", said(&output));
    let bare = Bare(folder.path().join(".the-deployer/manifests.git"));
    let paths: Vec<String> = bare.files().into_keys().collect();
    assert_eq!(paths, ["README.md", "apps/README.md", "manifests/README.md"]);
}

#[tokio::test]
async fn a_repository_behind_http_is_prepared_too_and_no_clone_stays() {
    let host = GitHost::start().await;
    let bare = host.create("m.git");
    let folder = folder::temporary();
    let config = fs::read_to_string(here().join("config.yaml")).unwrap();
    let config = config.replace(
        &format!("url: {URL}"),
        &format!("url: \"{}\", token: {{file: token}}", host.url("m.git")),
    );
    fs::write(folder.path().join("config.yaml"), config).unwrap();
    fs::write(folder.path().join("token"), TOKEN).unwrap();
    let path = folder.path().to_owned();
    let output = tokio::task::spawn_blocking(move || init(&path, &[])).await.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(bare.commits(), 1);
    assert!(bare.files()["apps/prod-cluster-1.yaml"].contains(&host.url("m.git")));
    let clones = folder.path().join(".the-deployer/clones");
    let left: Vec<_> = fs::read_dir(clones).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    bare.run(&["update-ref", "-d", "refs/heads/main"]);
    fs::write(folder.path().join("token"), "wrong").unwrap();
    let path = folder.path().to_owned();
    let refused = tokio::task::spawn_blocking(move || init(&path, &[])).await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("does not accept the service's token"), "{}", said(&refused));
}
