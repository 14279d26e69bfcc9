//! `/api/v1/plan`: what a deployment would do.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::{Extension, Json};

use crate::api::plans::{self, PlanAnswer, PlanOutcome};
use crate::deployments::dry_run::{At, DryRunError, Plan, PlanRequest};
use crate::model::id::{AppKey, CommitSha, IdError, ImageTag, RepoName, TargetName};
use crate::pipeline::dry_run::{DryRun, Outcome};
use crate::server::Shared;
use crate::server::api::apps::unread;
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::Operation;
use crate::server::problem::{Kind, Problem};

/// What is said of [`plan`].
pub(super) fn operation() -> Operation {
    Operation::reads("plan", "What a deployment would change, or why it would be refused.")
        .about("Nothing is recorded, and nothing is written.")
        .takes::<plans::PlanRequest>()
        .gives::<PlanAnswer>(200, "What would come of it.")
        .fails(&[Kind::NotFound, Kind::Overloaded])
}

/// What would come of a deployment; changes nothing.
pub(super) async fn plan(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    ask: Result<Json<plans::PlanRequest>, JsonRejection>,
) -> Result<Json<PlanAnswer>, Problem> {
    let Json(ask) = ask.map_err(|error| unread(&error))?;
    let request = read(ask).map_err(|error| Problem::new(Kind::Unprocessable, error))?;
    let subject = Subject::Repository(request.repository.clone(), Some(request.target.clone()));
    shared.may(&caller, Scope::Read, &subject).await?;
    // A repository may have apps that a token is not for, and a WAML may name any.
    let target = request.target.clone();
    let rights = caller.rights();
    let seen = |app: &AppKey| {
        let subject = Subject::App(target.clone(), app.clone());
        rights.is_none_or(|rights| rights.hold(Scope::Read, &subject, &[]))
    };
    match shared.state.deployments.dry_run(request, seen).await {
        Ok(plan) => Ok(Json(view(plan))),
        Err(DryRunError::Hidden(app)) => {
            shared.may(&caller, Scope::Read, &Subject::App(target.clone(), app.clone())).await?;
            Err(refused(DryRunError::Hidden(app)))
        }
        Err(error) => Err(refused(error)),
    }
}

fn read(ask: plans::PlanRequest) -> Result<PlanRequest, String> {
    let plans::PlanRequest { repository, target, tag, commit, git_ref, waml } = ask;
    let text = |error: IdError| error.to_string();
    let at = match (commit, git_ref) {
        (Some(_), Some(_)) => return Err("say `commit` or `ref`, and not both".to_owned()),
        (Some(commit), None) => Some(At::Commit(CommitSha::parse(commit).map_err(text)?)),
        (None, Some(git_ref)) => Some(At::Ref(checked(git_ref)?)),
        (None, None) if waml.is_none() => {
            return Err("say which WAML is meant: with `commit`, `ref` or `waml`".to_owned());
        }
        (None, None) => None,
    };
    Ok(PlanRequest {
        repository: RepoName::parse(repository).map_err(text)?,
        target: TargetName::parse(target).map_err(text)?,
        tag: tag.map(ImageTag::parse).transpose().map_err(text)?,
        at,
        waml,
    })
}

/// What git takes for a name of a branch or a tag, as far as it matters on the way there.
fn checked(git_ref: String) -> Result<String, String> {
    let legal = (1..=255).contains(&git_ref.len())
        && !git_ref.starts_with(['-', '/', '.'])
        && !git_ref.contains("..")
        && git_ref.chars().all(|c| c.is_alphanumeric() || "/-_.+#@=,".contains(c));
    if legal { Ok(git_ref) } else { Err("ref: write a branch, a tag or a commit".to_owned()) }
}

/// Takes the plan apart; a new field asks here whether it is to be seen.
fn view(plan: Plan) -> PlanAnswer {
    let Plan { run, app, target, tag, commit, notes } = plan;
    let DryRun { outcome, template, digest, changes, restarts: _, violations, warnings } = run;
    PlanAnswer {
        outcome: match outcome {
            Outcome::Changes => PlanOutcome::Changes,
            Outcome::Unchanged => PlanOutcome::Unchanged,
            Outcome::Refused => PlanOutcome::Refused,
        },
        app: app.map(|app| app.to_string()),
        target: target.into(),
        tag: tag.map(String::from),
        commit: commit.map(String::from),
        template,
        digest: digest.map(|digest| digest.0),
        changes,
        violations_left_out: violations.left_out(),
        violations: violations.into(),
        warnings_left_out: warnings.left_out(),
        warnings: warnings.into(),
        notes,
    }
}

fn refused(error: DryRunError) -> Problem {
    match error {
        DryRunError::Busy => Problem::new(Kind::Overloaded, error.to_string()),
        DryRunError::Hidden(_) => Problem::new(Kind::Forbidden, error.to_string()),
        DryRunError::Missing(detail) => Problem::new(Kind::NotFound, detail),
        DryRunError::Unmeant(detail) => Problem::new(Kind::Unprocessable, detail),
        DryRunError::Unavailable(detail) => Problem::new(Kind::Unavailable, detail),
        DryRunError::Fault(error) => {
            tracing::error!(%error, "a dry run failed");
            Problem::new(Kind::Unavailable, "it cannot be planned now; come again")
        }
    }
}

#[cfg(test)]
mod ref_tests {
    use super::*;
    use crate::api::forms;
    use crate::server::openapi::Form;

    #[test]
    fn the_contract_allows_only_refs_that_are_taken() {
        forms::tests::hold(Form::REF, |text| checked(text).is_ok());
    }
}
