//! `bart doctor` checks everything that a deployment from this folder needs.

use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::builds::BuildLookup;
use super::{deploy, validate};
use crate::api::service::{Identity, TargetList};
use crate::cli::context::{self, RepositorySelector, ServiceArgs};
use crate::cli::diagnostics::SourceTexts;
use crate::cli::error::{CliError, CliErrorKind, CommandOutcome};
use crate::cli::host::Host;
use crate::cli::local::{self, LocalInput};
use crate::cli::output::{BAD, DIM, GOOD, NOTE};
use crate::cli::platform::KnownTargets;
use crate::cli::repository_apps::{AppChoiceArg, RepositoryApps};
use crate::cli::working_folder::WAML_FILE;
use crate::model::id::{RepoName, TargetName};
use crate::model::violation::Severity;
use crate::waml::Waml;

/// The next step where the service asks no registry for the image.
const REGISTRIES_HINT: &str =
    "an operator names the registries that the service asks under `registries` (docs/lookups.md)";

/// Checks everything that a deployment from this folder needs: the service, your login, the repository, the WAML, its
/// targets, the token for deployments, and the image's registry; and says the next step.
///
/// It changes nothing. A check that needs another one which failed is left out.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart doctor
  bart doctor --server https://deployer.example.com --output json

Exit codes: 0 nothing is in the way, 1 something is.")]
pub(super) struct Doctor {
    #[command(flatten)]
    app: AppChoiceArg,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The result of a check; its keys are stable for programs.
#[derive(Debug, Serialize)]
struct CheckResult {
    check: &'static str,
    state: CheckState,
    /// What was seen, or what is wrong.
    detail: String,
    /// The next step, where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Ok,
    Failed,
    /// It could not be checked because another check failed.
    Skipped,
}

/// The results so far.
#[derive(Debug, Default)]
struct Examination(Vec<CheckResult>);

impl Examination {
    /// Adds the result of a check; returns its value if it succeeded.
    fn add<T>(
        &mut self,
        check: &'static str,
        result: Result<T, CliError>,
        detail: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        let (state, detail, next, value) = match result {
            Ok(value) => (CheckState::Ok, detail(&value), None, Some(value)),
            Err(error) => {
                let next = error.next_step().map(str::to_owned);
                (CheckState::Failed, error.to_string(), next, None)
            }
        };
        self.0.push(CheckResult { check, state, detail, next });
        value
    }

    fn skip(&mut self, check: &'static str, needs: &str) {
        let detail = format!("needs {needs}");
        self.0.push(CheckResult { check, state: CheckState::Skipped, detail, next: None });
    }
}

impl Doctor {
    pub(super) async fn run(self) -> CommandOutcome {
        let ServiceArgs { server, output } = &self.service;
        let mut examination = Examination::default();
        let url = server.url();
        let ready = examination.add("service", server.ready().await, |_| format!("{url} answers"));
        let caller: Option<Identity> = if ready.is_some() {
            let caller = server.get("/api/v1/whoami", &[]).await;
            examination.add("login", caller, |Identity { name, via, .. }: &Identity| {
                format!("you are {name} ({via})")
            })
        } else {
            examination.skip("login", "the service");
            None
        };
        let host = match caller {
            Some(_) => Host::fetch(server).await.ok(),
            None => None,
        };
        let repository =
            examination.add("repository", self.repository(host.as_ref()), ToString::to_string);
        let known_targets = match (&caller, &repository) {
            (Some(_), Some(repository)) => KnownTargets::fetch(server, repository).await,
            _ => KnownTargets::unknown("the service was not asked"),
        };
        let waml = examination.add("waml", valid_waml(&self.app, &known_targets), |waml| {
            let names: Vec<&str> = waml.targets().into_iter().map(TargetName::as_str).collect();
            let file = self.app.file().map_or_else(|_| WAML_FILE.to_owned(), |file| file.name);
            format!("{file} of {} is valid for {}", waml.app, names.join(", "))
        });
        match (&caller, &waml) {
            (Some(_), Some(waml)) => {
                let targets = server.get("/api/v1/targets", &[]).await;
                let targets = targets.and_then(|list| unknown_targets(waml, &list));
                examination.add("targets", targets, |names| format!("the service has {names}"));
            }
            _ => examination.skip("targets", "the service, your login and the WAML"),
        }
        match host {
            Some(host) => {
                let token = deploy::check_token(host, server);
                examination.add("deployments", token, Clone::clone);
            }
            None => examination.skip("deployments", "the service and your login"),
        }
        match (&caller, &waml) {
            (Some(_), Some(waml)) => {
                let lookup = BuildLookup {
                    app: waml.app.clone(),
                    repository: repository.clone(),
                    target: None,
                    limit: 1,
                    cursor: None,
                };
                let builds = lookup.fetch(server).await.map_err(|error| {
                    let is_unexplained = error.next_step().is_none();
                    match error.kind {
                        CliErrorKind::Refused if is_unexplained => error.hint(REGISTRIES_HINT),
                        _ => error,
                    }
                });
                examination
                    .add("image", builds, |page| format!("{} has {} tags", page.image, page.tags));
            }
            _ => examination.skip("image", "the service, your login and the WAML"),
        }
        let Examination(results) = examination;
        let has_failed = results.iter().any(|result| result.state == CheckState::Failed);
        output.print(&serde_json::json!({"checks": results}), || text(&results))?;
        if has_failed { Err(CliError::rejected()) } else { Ok(()) }
    }

    /// Finds the repository, and checks that the service's code host can have it.
    fn repository(&self, host: Option<&Host>) -> Result<RepoName, CliError> {
        let repository = self.selector.repository()?;
        let remote = context::remote_host().filter(|_| !self.selector.is_given());
        if let (Some(host), Some(remote)) = (host, remote)
            && !host.may_have(&remote)
        {
            let message =
                format!("the git remote is at {remote}, and the service deploys from another host");
            return Err(CliError::refused(message).hint("name another service with --server"));
        }
        Ok(repository)
    }
}

/// Reads the WAML, and checks it for each of its targets.
fn valid_waml(app: &AppChoiceArg, known_targets: &KnownTargets) -> Result<Arc<Waml>, CliError> {
    let has_waml = RepositoryApps::find().is_some();
    let waml = context::waml_of(app)
        .map_err(|error| if has_waml { error } else { error.hint("`bart init` writes one") })?;
    let mut sources = SourceTexts::default();
    let templates = local::templates(None, &mut sources, crate::cli::output::Format::Text)?;
    let world = LocalInput { waml: Ok(Arc::clone(&waml)), templates, sources };
    let targets = waml.targets().into_iter();
    let violations =
        targets.flat_map(|target| validate::of_target(&waml, target, &world, known_targets));
    let errors = violations.filter(|violation| violation.severity == Severity::Error).count();
    if errors == 0 {
        return Ok(waml);
    }
    let name = waml.file();
    let message = format!("{name} has {errors} violations");
    Err(CliError::refused(message).hint("`bart validate` shows what is wrong where"))
}

/// Lists the WAML's targets.
///
/// # Errors
/// When the service does not have one of them.
fn unknown_targets(waml: &Waml, list: &TargetList) -> Result<String, CliError> {
    let names: Vec<&str> = waml.targets().into_iter().map(TargetName::as_str).collect();
    let is_unknown = |name: &&str| list.targets.iter().all(|target| target.name != *name);
    let unknown: Vec<&str> = names.iter().copied().filter(is_unknown).collect();
    if list.any || unknown.is_empty() {
        return Ok(names.join(", "));
    }
    let listed: Vec<&str> = list.targets.iter().map(|target| target.name.as_str()).collect();
    let why = if list.complete { "does not have" } else { "does not have, or does not show you," };
    let message = format!("the service {why} {}", unknown.join(", "));
    Err(CliError::refused(message).hint(format!("its targets are {}", listed.join(", "))))
}

fn text(results: &[CheckResult]) -> String {
    let line = |result: &CheckResult| {
        let CheckResult { check, state, detail, next } = result;
        let mark = match state {
            CheckState::Ok => format!("{GOOD}ok     {GOOD:#}"),
            CheckState::Failed => format!("{BAD}failed {BAD:#}"),
            CheckState::Skipped => format!("{DIM}skipped{DIM:#}"),
        };
        let next = next.as_ref().map(|next| format!("{:21}{NOTE}next:{NOTE:#} {next}\n", ""));
        format!("{mark}  {check:<12}{detail}\n{}", next.unwrap_or_default())
    };
    let lines: String = results.iter().map(line).collect();
    let is_well = results.iter().all(|result| result.state == CheckState::Ok);
    let end = if is_well {
        "\nNothing is in the way: `bart builds` lists what can be deployed.\n"
    } else {
        ""
    };
    lines + end
}
