//! The step `argocd`: writes each cluster's parent Application and AppProject into the manifest repository, and the
//! files that an operator applies once.

use std::path::PathBuf;

use serde_json::json;

use super::action::{SetupAction, StepPlan};
use super::answers::SetupAnswers;
use super::clusters::{kubectl, shell_word};
use super::file_change::FileChange;
use super::folder::CONFIG_FILE;
use super::repository::plan_repository;
use super::session::SetupSession;
use crate::app::prepare::{Prepared, PreparedFile};
use crate::cli::error::CliError;
use crate::config::settings::Settings;
use crate::manifests::bootstrap::FileVerdict;
use crate::model::target::{Clusters, Target};
use crate::waml::emit;

/// The folder of the files that are applied.
const FOLDER: &str = "argocd";
/// The file with Argo CD's access to the manifest repository.
const SECRET_FILE: &str = "argocd/repository-secret.yaml";

/// The rest of the Secret, which only a person knows.
const SECRET_REST: &str = r#"  # Argo CD's own access, which only reads. Fill in one of the two, apply this file,
  # and remove it: docs/cluster-credentials.md. A GitHub App with `Contents: read`:
  # githubAppID: "1234567"
  # githubAppInstallationID: "7654321"
  # githubAppPrivateKey: |
  #   (the content of the App's .pem file)
  # Or a token with `Contents: read`:
  # username: x-access-token
  # password: (the token)
"#;

/// What the manifest repository and the folder have for Argo CD.
#[derive(Debug)]
pub(super) enum ArgoCdFacts {
    /// There is no configuration yet.
    NoConfiguration,
    /// The configuration or the repository cannot be used, and why.
    Unusable(String),
    /// The repository, and the files that are to be written.
    Usable {
        prepared: Vec<Prepared>,
        changes: Vec<FileChange>,
        has_secret: bool,
        targets: Vec<String>,
        /// The kubeconfig, where `kubectl` reads another one by itself.
        named_kubeconfig: Option<PathBuf>,
    },
}

/// Looks at the repository and the folder, without changing them.
pub(super) async fn gather(session: &SetupSession, force: bool) -> Result<ArgoCdFacts, CliError> {
    let Some(sources) = session.file_sources()? else { return Ok(ArgoCdFacts::NoConfiguration) };
    let settings = match sources.load_for_rebuild() {
        Ok(loaded) => loaded.settings,
        Err(rejection) => return Ok(ArgoCdFacts::Unusable(rejection.to_string())),
    };
    let prepared = match session.look_at(&settings, force).await {
        Ok(prepared) => prepared,
        Err(error) => return Ok(ArgoCdFacts::Unusable(error.to_string())),
    };
    let mut changes = Vec::new();
    let has_secret = session.folder.contains(SECRET_FILE);
    let targets: Vec<&Target> = match &settings.clusters {
        Clusters::Any(_) => Vec::new(),
        Clusters::Known(targets) => targets.values().collect(),
    };
    // A person removes it once it is applied: with an Application beside it, it was written before.
    let application = |target: &&Target| format!("{FOLDER}/{}.yaml", target.name);
    let is_first = !targets.iter().any(|target| session.folder.contains(&application(target)));
    if is_first
        && !has_secret
        && let Some(text) = secret_text(&settings, &prepared)
    {
        let about = "Argo CD's access to the repository, to be filled in";
        changes.extend(FileChange::compare(&session.folder, SECRET_FILE, about, text)?);
    }
    for target in &targets {
        let path = format!("apps/{}.yaml", target.name);
        let file =
            prepared.iter().flat_map(|one| &one.files).find(|file| file.expected.path == path);
        let Some(text) = file.map(applied_text) else { continue };
        let name = application(target);
        let about = "the Application to apply once";
        changes.extend(FileChange::compare(&session.folder, &name, about, text)?);
    }
    let targets = targets.into_iter().map(|target| target.name.to_string()).collect();
    let named_kubeconfig = session.named_kubeconfig();
    Ok(ArgoCdFacts::Usable { prepared, changes, has_secret, targets, named_kubeconfig })
}

/// Returns the text that the repository has, or gets.
fn applied_text(file: &PreparedFile) -> String {
    let present = file.current.as_deref().filter(|_| file.verdict == FileVerdict::Keep);
    String::from_utf8_lossy(present.unwrap_or(&file.expected.bytes)).into_owned()
}

/// Returns the Secret without its credentials; `None` where Argo CD needs none or cannot reach the repository.
fn secret_text(settings: &Settings, prepared: &[Prepared]) -> Option<String> {
    let repository = prepared.first().filter(|one| one.url.starts_with("https://"))?;
    let namespace = match &settings.clusters {
        Clusters::Known(targets) => targets.values().next().map(|one| one.argocd.namespace.clone()),
        Clusters::Any(_) => None,
    };
    let namespace = namespace.map_or("argocd".to_owned(), |namespace| namespace.to_string());
    Some(write_secret(&repository.name, &repository.url, &namespace))
}

/// Writes Argo CD's Secret of a repository, with its credentials as comments.
fn write_secret(name: &str, url: &str, namespace: &str) -> String {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"argocd.argoproj.io/secret-type": "repository"},
        },
        "stringData": {"type": "git", "url": url},
    });
    format!("{}{SECRET_REST}", emit::document(&secret))
}

/// Decides what is left to do. Pure.
pub(super) fn plan(
    answers: &SetupAnswers,
    facts: &ArgoCdFacts,
    (directory, force): (&str, bool),
) -> StepPlan {
    let (prepared, changes, has_secret, targets, kubeconfig) = match facts {
        ArgoCdFacts::NoConfiguration => {
            return StepPlan::later(format!("needs {CONFIG_FILE} of the step configuration"));
        }
        ArgoCdFacts::Unusable(problem) => {
            return StepPlan::blocked(format!(
                "{problem}; the steps repository and configuration say more"
            ));
        }
        ArgoCdFacts::Usable { prepared, changes, has_secret, targets, named_kubeconfig } => {
            (prepared, changes, *has_secret, targets, named_kubeconfig.as_deref())
        }
    };
    let mut plan = StepPlan::default();
    for repository in prepared {
        plan_repository(&mut plan, repository, answers.branch(), force);
    }
    for change in changes {
        plan.add(SetupAction::Write(change.clone()));
    }
    if has_secret || changes.iter().any(|change| change.path.ends_with(SECRET_FILE)) {
        plan.add(SetupAction::Person(format!(
            "fill in Argo CD's access to the repository, and apply it where Argo CD runs:\n  kubectl apply -f {}",
            shell_word(&format!("{directory}/{SECRET_FILE}"))
        )));
    }
    for name in targets {
        let context = answers.clusters.iter().find(|one| one.name == *name && one.server.is_none());
        let kubeconfig = kubeconfig.filter(|_| context.is_some());
        plan.add(SetupAction::Person(format!(
            "{name}: once, where its Argo CD runs:\n  {} apply -f {}",
            kubectl(kubeconfig, context.map(|one| one.context.as_str())),
            shell_word(&format!("{directory}/{FOLDER}/{name}.yaml"))
        )));
    }
    if targets.is_empty() {
        plan.add(SetupAction::Person(
            "no cluster is configured: the parent of a target is written with its first deployment"
                .to_owned(),
        ));
    }
    plan
}

/// Pushes what is missing in the repository.
pub(super) async fn prepare(session: &SetupSession, force: bool) -> Result<(), CliError> {
    let sources =
        session.file_sources()?.ok_or_else(|| CliError::io("there is no configuration"))?;
    SetupSession::push_missing(sources, force).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_one_with_either_way_filled_in() {
        let text = write_secret("manifests", "https://git.example.com/m.git", "argocd");
        let read = |text: &str| -> serde_json::Value { serde_yaml::from_str(text).unwrap() };
        assert_eq!(read(&text)["stringData"]["url"], "https://git.example.com/m.git");
        let app = text.replace("  # githubApp", "  githubApp").replace("  #   (", "    (");
        assert_eq!(read(&app)["stringData"]["githubAppID"], "1234567");
        assert!(read(&app)["stringData"]["githubAppPrivateKey"].is_string(), "{app}");
        let token =
            text.replace("  # username", "  username").replace("  # password", "  password");
        assert_eq!(read(&token)["stringData"]["username"], "x-access-token");
    }

    #[test]
    fn each_cluster_is_applied_where_its_argo_cd_runs() {
        let cluster = "context=my prod,name=a,environment=production,domain=a.example.com";
        let elsewhere =
            "context=c,name=b,environment=production,domain=b.example.com,server=https://10.0.0.1";
        let answers = SetupAnswers {
            clusters: vec![cluster.parse().unwrap(), elsewhere.parse().unwrap()],
            ..SetupAnswers::default()
        };
        let facts = ArgoCdFacts::Usable {
            prepared: Vec::new(),
            changes: Vec::new(),
            has_secret: true,
            targets: vec!["a".to_owned(), "b".to_owned()],
            named_kubeconfig: Some("/k".into()),
        };
        let text = plan(&answers, &facts, ("d", false)).render();
        assert!(
            text.contains("kubectl --kubeconfig /k --context 'my prod' apply -f d/argocd/a.yaml"),
            "{text}"
        );
        assert!(text.contains("kubectl apply -f d/argocd/b.yaml"), "{text}");
        assert!(text.contains("kubectl apply -f d/argocd/repository-secret.yaml"), "{text}");
        let none = plan(&answers, &ArgoCdFacts::NoConfiguration, ("d", false));
        assert!(none.obstacle().is_some());
    }
}
