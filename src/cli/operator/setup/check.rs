//! The step `check`: whether the service answers at its address, and what is left to a person.

use std::time::Duration;

use super::action::{SetupAction, StepPlan};
use super::answers::{Question, RunsOn, SetupAnswers};
use super::clusters::shell_word;
use super::folder::{API_TOKEN_FILE, CONFIG_FILE};
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
    Ok(CheckFacts { has_configuration, service })
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
            plan.add(SetupAction::Person(start(answers, url, problem, directory)));
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
fn start(answers: &SetupAnswers, url: &str, problem: &str, directory: &str) -> String {
    let config = shell_word(&format!("{directory}/{CONFIG_FILE}"));
    let missing = format!("{url} does not answer ({problem})");
    match answers.runs_on() {
        RunsOn::Machine => format!(
            "{missing}: start the service, behind a proxy that leads there:\n  the-deployer serve --config {config}"
        ),
        RunsOn::Kubernetes => {
            let secrets =
                ["github-app.pem", "webhook-secret", "github-client-secret", API_TOKEN_FILE];
            let mut files: String = secrets
                .map(|name| format!(" --from-file={}", shell_word(&format!("{directory}/{name}"))))
                .concat();
            if let Some(token) = &answers.manifests_token_file {
                let token = shell_word(&token.display().to_string());
                files.push_str(&format!(" --from-file=manifests-token={token}"));
            }
            format!(
                "{missing}: put {config} into deploy/kubernetes/base/configmap.yaml, then:\n  kubectl -n the-deployer create secret \
                 generic the-deployer{files}\n  kubectl apply -k deploy/kubernetes/overlays/sqlite"
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
        let facts = |service| CheckFacts { has_configuration: true, service: Some(service) };
        let missing = plan(&answers, &facts(Err("connection refused".to_owned())), "my folder");
        let text = missing.render();
        assert!(text.contains("serve --config 'my folder/config.yaml'"), "{text}");
        let text = plan(&answers, &facts(Ok(())), "d").render();
        assert!(text.contains("the service answers") && !text.contains("serve --config"), "{text}");
        let pod = SetupAnswers { runs_on: Some(RunsOn::Kubernetes), ..answers };
        let text = plan(&pod, &facts(Err("x".to_owned())), "d").render();
        assert!(text.contains("--from-file=d/webhook-secret"), "{text}");
        let none = CheckFacts { has_configuration: false, service: None };
        assert!(plan(&pod, &none, "d").obstacle().is_some());
    }
}
