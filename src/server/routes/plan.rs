//! `/api/v1/plan`: plans a deployment without deploying.

use axum::Json;

use crate::api::plans::{self, ClusterPlan, PlanAnswer, PlanOutcome};
use crate::deployments::dry_run::{CommitSelector, DryRunError, DryRunInput, Plan};
use crate::model::callers::Scope;
use crate::model::id::{AppKey, AppName, CommitSha, IdError, ImageTag, RepoName, TargetName};
use crate::pipeline::dry_run::{DryRun, DryRunOutcome};
use crate::server::auth::Resource;
use crate::server::call::{AuthenticatedRequest, Payload, unprocessable};
use crate::server::problem::{Problem, ProblemKind};

/// Plans a deployment; changes nothing.
pub(super) async fn plan(
    call: AuthenticatedRequest,
    Payload(body): Payload<plans::PlanRequest>,
) -> Result<Json<PlanAnswer>, Problem> {
    let request = read(body).map_err(unprocessable)?;
    let target = request.target.clone();
    let repository = Resource::Repository(request.repository.clone(), Some(target.clone()));
    call.authorize(Scope::Read, repository).await?;
    // A repository may have apps outside the token's rights, and a WAML may name any.
    let on_target = |app: &AppKey| Resource::App(target.clone(), app.clone());
    let rights = call.caller.rights();
    let is_visible =
        |app: &AppKey| rights.is_none_or(|rights| rights.hold(Scope::Read, &on_target(app), &[]));
    let plan = call.deployments().dry_run(request, is_visible).await;
    if let Err(DryRunError::Hidden(app)) = &plan {
        call.authorize(Scope::Read, on_target(app)).await?;
    }
    Ok(Json(plan?.into()))
}

fn read(body: plans::PlanRequest) -> Result<DryRunInput, String> {
    let plans::PlanRequest { repository, app_name, target, tag, commit, git_ref, waml, manifests } =
        body;
    let text = |error: IdError| error.to_string();
    let at = match (commit, git_ref) {
        (Some(_), Some(_)) => return Err("say `commit` or `ref`, and not both".to_owned()),
        (Some(commit), None) => {
            Some(CommitSelector::Commit(CommitSha::parse(commit).map_err(text)?))
        }
        (None, Some(git_ref)) => Some(CommitSelector::Ref(check_ref(git_ref)?)),
        (None, None) if waml.is_none() => {
            return Err("name the WAML with `commit`, `ref` or `waml`".to_owned());
        }
        (None, None) => None,
    };
    Ok(DryRunInput {
        repository: RepoName::parse(repository).map_err(text)?,
        app: app_name.map(AppName::parse).transpose().map_err(text)?,
        target: TargetName::parse(target).map_err(text)?,
        tag: tag.map(ImageTag::parse).transpose().map_err(text)?,
        at,
        waml,
        manifests,
    })
}

/// Checks the name of a branch or a tag, as far as it matters before git reads it.
fn check_ref(git_ref: String) -> Result<String, String> {
    let legal = (1..=255).contains(&git_ref.len())
        && !git_ref.starts_with(['-', '/', '.'])
        && !git_ref.contains("..")
        && git_ref.chars().all(|c| c.is_alphanumeric() || "/-_.+#@=,".contains(c));
    if legal { Ok(git_ref) } else { Err("ref: write a branch, a tag or a commit".to_owned()) }
}

/// Names every field of the plan, so that a new field asks here whether to be shown.
impl From<Plan> for PlanAnswer {
    fn from(plan: Plan) -> Self {
        let Plan { run, app, target, tag, commit, notes, clusters } = plan;
        let DryRun {
            outcome,
            template,
            digest,
            changes,
            restarts: _,
            canary,
            steps: _,
            violations,
            warnings,
        } = run;
        Self {
            outcome: outcome.into(),
            app: app.map(|app| app.to_string()),
            target: target.into(),
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            template,
            digest: digest.map(|digest| digest.0),
            changes,
            canary,
            violations_left_out: violations.left_out(),
            violations: violations.into(),
            warnings_left_out: warnings.left_out(),
            warnings: warnings.into(),
            notes,
            clusters: clusters.into_iter().map(cluster_plan).collect(),
        }
    }
}

fn cluster_plan(plan: Plan) -> ClusterPlan {
    let Plan { run, target, notes, .. } = plan;
    let DryRun { outcome, digest, changes, .. } = run;
    ClusterPlan {
        cluster: target.into(),
        outcome: outcome.into(),
        digest: digest.map(|digest| digest.0),
        changes,
        notes,
    }
}

impl From<DryRunOutcome> for PlanOutcome {
    fn from(outcome: DryRunOutcome) -> Self {
        match outcome {
            DryRunOutcome::Changes => Self::Changes,
            DryRunOutcome::Unchanged => Self::Unchanged,
            DryRunOutcome::Refused => Self::Refused,
        }
    }
}

impl From<DryRunError> for Problem {
    fn from(error: DryRunError) -> Self {
        match error {
            DryRunError::Busy => Self::new(ProblemKind::Overloaded, error.to_string()),
            DryRunError::Hidden(_) => Self::new(ProblemKind::Forbidden, error.to_string()),
            DryRunError::Missing(detail) => Self::new(ProblemKind::NotFound, detail),
            DryRunError::Unmeant(detail) => Self::new(ProblemKind::Unprocessable, detail),
            DryRunError::Unavailable(detail) => Self::new(ProblemKind::Unavailable, detail),
            DryRunError::Fault(error) => {
                tracing::error!(%error, "dry run failed");
                Self::new(ProblemKind::Unavailable, "it cannot be planned now; try again later")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::forms::{self, Form};

    #[test]
    fn the_contract_allows_only_refs_that_are_taken() {
        forms::tests::hold(Form::REF, |text| check_ref(text).is_ok());
    }
}
