//! Tests that the repository is what a small model says, whatever several writers do in whatever order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use the_deployer::git::writer::{DeploymentChange, ManifestRepository, PushOutcome};

use crate::git::place::{Place, deploy_files, id, settings, write};
use crate::harness::git::Files;

const APPS: [&str; 2] = ["red", "blue"];

/// One thing that happens to the repository.
#[derive(Debug, Clone)]
enum Step {
    /// A writer deploys an app; the number chooses among a few contents, so that some are equal.
    Deploy { writer: usize, app: usize, content: u32 },
    /// A writer tries an earlier deployment again, as after a crash.
    Again { writer: usize, which: usize },
    /// Somebody else commits a file.
    Somebody { file: u32, text: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_usize, 0..2_usize, 0..6_u32)
            .prop_map(|(writer, app, content)| Step::Deploy { writer, app, content }),
        1 => (0..3_usize, any::<usize>()).prop_map(|(writer, which)| Step::Again { writer, which }),
        1 => (0..3_u32, 0..9_u32).prop_map(|(file, text)| Step::Somebody { file, text }),
    ]
}

/// The repository as it should be.
#[derive(Default)]
struct Model {
    files: Files,
    commits: usize,
    deployed: Vec<DeploymentChange>,
}

#[derive(Debug, PartialEq)]
enum Expected {
    Pushed,
    Unchanged,
    Already,
}

impl Model {
    fn deploy(&mut self, write: &DeploymentChange) -> Expected {
        let app = &write.revision.app.slug;
        let folder = format!("manifests/prod-1/devx/{app}/");
        let own = format!("{folder}{}/", write.revision.id);
        let latest = format!("{folder}latest/");
        if self.files.keys().any(|path| path.starts_with(&own)) {
            return Expected::Already;
        }
        let new: BTreeMap<String, String> = write
            .revision
            .files
            .iter()
            .map(|file| (file.name.clone(), String::from_utf8(file.bytes.clone()).unwrap()))
            .collect();
        if self.below(&latest) == new {
            return Expected::Unchanged;
        }
        self.files.retain(|path, _| !path.starts_with(&latest));
        for (name, text) in new {
            self.files.insert(format!("{latest}{name}"), text.clone());
            self.files.insert(format!("{own}{name}"), text);
        }
        self.prune(&folder, &own);
        self.files.insert(format!("apps/prod-1/devx.{app}.yaml"), format!("application: {app}\n"));
        self.files.entry("apps/prod-1.yaml".into()).or_insert("parent: prod-1\n".into());
        self.commits += 1;
        Expected::Pushed
    }

    fn below(&self, folder: &str) -> BTreeMap<String, String> {
        let names = self.files.iter();
        names
            .filter_map(|(path, text)| Some((path.strip_prefix(folder)?.into(), text.clone())))
            .collect()
    }

    /// Drops the oldest revision, never the one just written, until five are left.
    fn prune(&mut self, folder: &str, own: &str) {
        let revision = |path: &String| {
            let name = path.strip_prefix(folder)?.split_once('/')?.0;
            name.starts_with("2026").then(|| format!("{folder}{name}/"))
        };
        loop {
            let mut all: Vec<String> = self.files.keys().filter_map(revision).collect();
            all.dedup();
            if all.len() <= 5 {
                return;
            }
            let oldest = all.iter().find(|one| *one != own).unwrap().clone();
            self.files.retain(|path, _| !path.starts_with(&oldest));
        }
    }
}

/// Two clones over HTTP and one writer on the folder itself, all of one repository.
async fn writers(place: &Place) -> [ManifestRepository; 3] {
    let path = place.bare.0.to_str().unwrap().to_owned();
    let local = settings(path, &place.folder.path().join("unused"));
    let local = ManifestRepository::open(local).await.unwrap();
    [place.open_as("a").await, place.open_as("b").await, local]
}

async fn run(steps: Vec<Step>) {
    let place = Place::http().await;
    let writers = writers(&place).await;
    let mut model = Model::default();
    for (n, step) in (1..).zip(steps) {
        let (writer, one) = match step {
            Step::Deploy { writer, app, content } => {
                let texts = [format!("v{content}"), format!("w{}", content / 2)];
                let files = [("a.yaml", texts[0].as_str()), ("b.yaml", texts[1].as_str())];
                let kept = if content % 3 == 0 { &files[..1] } else { &files[..] };
                (writer, deploy_files(n, APPS[app], kept))
            }
            Step::Again { writer, which } if !model.deployed.is_empty() => {
                (writer, model.deployed[which % model.deployed.len()].clone())
            }
            Step::Again { .. } => continue,
            Step::Somebody { file, text } => {
                let path = format!("manifests/prod-1/devx/red/file-{file}");
                place.bare.somebody_writes(&path, &text.to_string());
                model.files.insert(path, text.to_string());
                model.commits += 1;
                continue;
            }
        };
        let expected = model.deploy(&one);
        let got = match write(&writers[writer], one.clone()).await.unwrap() {
            PushOutcome::Pushed { .. } => Expected::Pushed,
            PushOutcome::Unchanged { .. } => Expected::Unchanged,
            PushOutcome::AlreadyPushed { .. } => Expected::Already,
        };
        assert_eq!(got, expected, "deployment {}", one.revision.id);
        model.deployed.push(one);
        assert_eq!(place.bare.files(), model.files, "after {}", id(n));
    }
    assert_eq!(place.bare.commits(), model.commits);
    place.bare.assert_sound();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_repository_is_what_the_model_says(steps in prop::collection::vec(step(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}
