//! The step `check`: whether the service answers at its address, and what is left to a person.

use std::time::Duration;

use super::action::{SetupAction, StepPlan};
use super::answers::{Question, RunsOn, SetupAnswers};
use super::cluster_answer::ClusterAnswer;
use super::clusters::shell_word;
use super::configuration_text::{CA_FILE, MANIFESTS_TOKEN_FILE, is_own_cluster};
use super::folder::{API_TOKEN_FILE, CLIENT_SECRET_FILE, CONFIG_FILE, HOOK_SECRET_FILE, KEY_FILE};
use super::session::SetupSession;
use crate::cli::error::CliError;
use crate::support::cause::innermost_cause;
use crate::support::host::is_encrypted_or_local;

/// The longest wait for the service.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is there of a running service.
#[derive(Debug, Clone)]
pub(super) struct CheckFacts {
    /// True if there is a configuration.
    pub(super) has_configuration: bool,
    /// True if there is a client secret for people who sign in.
    pub(super) has_client_secret: bool,
    /// Whether the service answers at its address, or why not; `None` where there is no address.
    pub(super) service: Option<Result<(), String>>,
}

/// Asks the service at its address.
pub(super) async fn gather(session: &SetupSession) -> Result<CheckFacts, CliError> {
    let has_configuration = session.folder.contains(CONFIG_FILE);
    let service = match session.answers.service_url.as_deref() {
        Some(url) if is_encrypted_or_local(url) => Some(ask(session, url).await?),
        _ => None,
    };
    let has_client_secret = session.folder.contains(CLIENT_SECRET_FILE);
    Ok(CheckFacts { has_configuration, has_client_secret, service })
}

async fn ask(session: &SetupSession, url: &str) -> Result<Result<(), String>, CliError> {
    let request = session.http()?.get(format!("{url}/healthz")).timeout(TIMEOUT);
    Ok(match request.send().await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("answers {}", answer.status())),
        Err(error) => Err(innermost_cause(&error).to_string()),
    })
}

/// Decides what is left to do. Pure.
pub(super) fn plan(answers: &SetupAnswers, facts: &CheckFacts, directory: &str) -> StepPlan {
    if !facts.has_configuration {
        return StepPlan::later(format!("needs {CONFIG_FILE} of the step configuration"));
    }
    let Some(url) = answers.service_url.as_deref() else {
        return StepPlan::ask(vec![Question::ServiceUrl]);
    };
    let mut plan = StepPlan::default();
    let file = |name: &str| shell_word(&format!("{directory}/{name}"));
    match &facts.service {
        Some(Ok(())) => plan.add(SetupAction::Done(format!("the service answers at {url}"))),
        Some(Err(problem)) => {
            plan.add(SetupAction::Person(start(answers, facts, (url, problem), directory)));
        }
        None => {}
    }
    plan.add(SetupAction::Person(format!(
        "the webhook: in the App's settings, Advanced, Recent deliveries, GitHub's `ping` must have got 200 from \
         {url}/webhooks/github; Redeliver tries it again"
    )));
    plan.add(SetupAction::Person(format!(
        "call the service:\n  export BART_SERVER={} BART_TOKEN=\"$(cat {})\" GH_TOKEN=\"$(gh auth token)\"\n  bart doctor",
        shell_word(url),
        file(API_TOKEN_FILE)
    )));
    let target = answers.clusters.first().map_or("dev", |cluster| cluster.name.as_str());
    plan.add(SetupAction::Person(format!(
        "the first app, in the repository of its service:\n  bart init --target {target}\n  bart deploy TAG {target}"
    )));
    plan
}

/// Says how the service is started.
fn start(
    answers: &SetupAnswers,
    facts: &CheckFacts,
    (url, problem): (&str, &str),
    directory: &str,
) -> String {
    let config = shell_word(&format!("{directory}/{CONFIG_FILE}"));
    let missing = format!("{url} does not answer ({problem})");
    match answers.runs_on() {
        RunsOn::Machine => format!(
            "{missing}: start the service, behind a proxy that leads there:\n  the-deployer serve --config {config}"
        ),
        RunsOn::Kubernetes => {
            let client_secret = facts.has_client_secret.then_some(CLIENT_SECRET_FILE);
            let secrets = [KEY_FILE, HOOK_SECRET_FILE, API_TOKEN_FILE];
            let mut files: String = secrets
                .into_iter()
                .chain(client_secret)
                .map(|name| format!(" --from-file={}", shell_word(&format!("{directory}/{name}"))))
                .collect();
            let others =
                [(MANIFESTS_TOKEN_FILE, &answers.manifests_token_file), (CA_FILE, &answers.ca)];
            for (name, file) in others {
                if let Some(file) = file {
                    let file = shell_word(&file.display().to_string());
                    files.push_str(&format!(" --from-file={name}={file}"));
                }
            }
            let is_in_cluster = |one: &ClusterAnswer| one.watch && is_own_cluster(one);
            let account = if answers.clusters.iter().any(is_in_cluster) {
                ", and `serviceAccountName: the-deployer-watch` with `automountServiceAccountToken: true` into the pod of \
                 deploy/kubernetes/base/deployment.yaml, which watches its own cluster with it"
            } else {
                ""
            };
            format!(
                "{missing}: put {config} into deploy/kubernetes/base/configmap.yaml{account}, then:\n  kubectl apply -f \
                 deploy/kubernetes/base/namespace.yaml\n  kubectl -n the-deployer create secret generic the-deployer{files}\n  \
                 kubectl apply -k deploy/kubernetes/overlays/sqlite"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_with_its_commands() {
        let answers = SetupAnswers {
            service_url: Some("https://a.example.com".to_owned()),
            ..SetupAnswers::default()
        };
        let facts = |service| CheckFacts {
            has_configuration: true,
            has_client_secret: false,
            service: Some(service),
        };
        let missing = plan(&answers, &facts(Err("connection refused".to_owned())), "my folder");
        let text = missing.render();
        assert!(text.contains("serve --config 'my folder/config.yaml'"), "{text}");
        let text = plan(&answers, &facts(Ok(())), "d").render();
        assert!(text.contains("the service answers") && !text.contains("serve --config"), "{text}");
        let mut pod = SetupAnswers {
            runs_on: Some(RunsOn::Kubernetes),
            ca: Some("/home/me/ours.pem".into()),
            ..answers
        };
        let mut silent = facts(Err("x".to_owned()));
        let text = plan(&pod, &silent, "d").render();
        let namespace = text.find("apply -f deploy/kubernetes/base/namespace.yaml").unwrap();
        assert!(namespace < text.find("create secret generic").unwrap(), "{text}");
        assert!(text.contains("--from-file=d/webhook-secret"), "{text}");
        assert!(text.contains("--from-file=ca.pem=/home/me/ours.pem"), "{text}");
        assert!(!text.contains("client-secret") && !text.contains("serviceAccountName"), "{text}");
        silent.has_client_secret = true;
        let cluster = "context=c,name=a,environment=production,domain=a.example.com";
        pod.clusters = vec![cluster.parse().unwrap()];
        let text = plan(&pod, &silent, "d").render();
        assert!(text.contains("--from-file=d/github-client-secret"), "{text}");
        assert!(text.contains("`serviceAccountName:"), "{text}");
        let none = CheckFacts { has_configuration: false, has_client_secret: false, service: None };
        assert!(plan(&pod, &none, "d").obstacle().is_some());
    }
}
