//! A cluster is rebuilt from the manifest repository alone: from the one file that an operator
//! applies, everything else is found.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::harness::events::Event;
use crate::harness::folder;
use crate::harness::git::{Bare, Files, git};
use crate::harness::process::Home;

const CONFIG: &str = "clusters:\n- {name: prod-cluster-1, environment: production, domain: prod.example.com, server: \"https://10.0.0.1:6443\"}\n";

/// With the files of `init` and deployments of three apps.
async fn three_apps(home: &Home) -> Bare {
    let mut init = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
    init.env_clear().args(["init", "--config", "config.yaml"]).current_dir(home.path(""));
    let init = init.output().unwrap();
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let process = home.start().await;
    for (number, app) in [(1, "shop"), (2, "cart"), (3, "mail")] {
        let id = Event::of_app(home, number, app).accepted(&process).await;
        let done = process.ended(&id).await;
        assert_eq!(done["state"], "succeeded", "{done}");
    }
    home.manifests()
}

/// What Argo CD takes for manifests in a folder: its YAML files, not those of folders below.
fn directory(files: &Files, folder: &str) -> Vec<Json> {
    let inside = files.iter().filter_map(|(path, text)| {
        let name = path.strip_prefix(folder)?.strip_prefix('/')?;
        let is_yaml = name.rsplit_once('.').is_some_and(|(_, ending)| ending == "yaml");
        (is_yaml && !name.contains('/')).then_some(text)
    });
    inside.map(|text| serde_yaml::from_str(text).unwrap()).collect()
}

/// The objects that an Application leads to.
fn synced(files: &Files, application: &Json, bare: &Bare) -> Vec<Json> {
    assert_eq!(application["apiVersion"], "argoproj.io/v1alpha1");
    assert_eq!(application["kind"], "Application");
    let spec = &application["spec"];
    assert_eq!(spec["source"]["repoURL"], bare.0.to_str().unwrap());
    assert_eq!(spec["source"]["targetRevision"], "refs/heads/main");
    assert_eq!(spec["syncPolicy"]["automated"]["prune"], true);
    directory(files, spec["source"]["path"].as_str().unwrap())
}

#[tokio::test]
async fn one_file_leads_to_everything_that_runs() {
    let home = Home::configured(CONFIG);
    let bare = three_apps(&home).await;
    let files = bare.files();
    let parent: Json = serde_yaml::from_str(&files["apps/prod-cluster-1.yaml"]).unwrap();
    assert_eq!(parent["spec"]["destination"]["server"], "https://kubernetes.default.svc");
    assert_eq!(parent["metadata"]["finalizers"], Json::Null, "who deletes it deletes no app");
    let objects = synced(&files, &parent, &bare);
    let of = |kind: &str| objects.iter().filter(|one| one["kind"] == kind).collect::<Vec<_>>();
    let [project] = of("AppProject")[..] else { panic!("{objects:?}") };
    assert_eq!(project["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"], "-1");
    assert_eq!(project["spec"]["sourceRepos"][0], bare.0.to_str().unwrap());
    let destination = &project["spec"]["destinations"][0];
    assert_eq!(
        (&destination["server"], &destination["namespace"]),
        (&"https://10.0.0.1:6443".into(), &"*".into())
    );
    let applications = of("Application");
    assert_eq!((applications.len(), objects.len()), (3, 4));
    for application in applications {
        assert_eq!(application["spec"]["project"], project["metadata"]["name"]);
        assert_eq!(application["spec"]["destination"]["server"], destination["server"]);
        let finalizer = &application["metadata"]["finalizers"][0];
        assert_eq!(finalizer, "resources-finalizer.argocd.argoproj.io");
        let manifests = synced(&files, application, &bare);
        assert!(manifests.iter().any(|one| one["kind"] == "Deployment"), "{manifests:?}");
        let namespace = &application["spec"]["destination"]["namespace"];
        assert!(manifests.iter().all(|one| one["metadata"]["namespace"] == *namespace));
        // What each object needs is in the project's bounds.
        assert!(manifests.iter().all(|one| one["apiVersion"] != "argoproj.io/v1alpha1"));
    }
}

/// The README's block of commands that has this in it.
fn block<'a>(readme: &'a str, part: &str) -> &'a str {
    let mut blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.find(|block| block.contains(part)).unwrap()
}

#[tokio::test]
async fn the_readmes_rollback_by_hand_brings_a_revision_back() {
    let home = Home::configured(CONFIG);
    let bare = three_apps(&home).await;
    let folder = "manifests/prod-cluster-1/devx/shop";
    let first = bare.object(&format!("{folder}/latest"));
    let revision = bare.run(&["ls-tree", "--name-only", &format!("main:{folder}")]);
    let revision = revision.lines().next().unwrap().to_owned();
    let process = home.start().await;
    let event = Event::of_app(&home, 4, "shop");
    process.ended(&event.accepted(&process).await).await;
    assert_ne!(bare.object(&format!("{folder}/latest")), first);

    let clone = folder::temporary();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(git(clone.path()).args(["clone", "--quiet", bare.0.to_str().unwrap(), "."]));
    let script = block(&bare.files()["README.md"], "roll back")
        .replace("CLUSTER/NAMESPACE/APP", "prod-cluster-1/devx/shop")
        .replace("REVISION", &revision);
    run(shell(clone.path()).args(["-ec", &script]));
    assert_eq!(bare.object(&format!("{folder}/latest")), first);
    bare.assert_sound();
    let next = Event { number: 5, tag: "v5".to_owned(), ..event };
    let done = process.ended(&next.accepted(&process).await).await;
    assert_eq!(done["state"], "succeeded", "{done}");
}

/// A shell in which git is as deaf to the machine as everywhere in the tests.
fn shell(folder: &Path) -> Command {
    let mut command = Command::new("sh");
    command.current_dir(folder).env_clear().envs(crate::harness::git::hermetic());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}
