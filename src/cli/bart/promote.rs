//! `bart promote` deploys what is live on one target to others.

use clap::Args;

use super::deploy::{self, ReleaseOnTarget};
use super::rollout::start::{FollowArgs, start_and_follow};
use crate::api::apps::{AppDetail, LiveRevision};
use crate::api::deployments::DeploymentDetail;
use crate::api::pods::{LiveStateAnswer, WorkloadSummary};
use crate::api::rollouts::RolloutStartRequest;
use crate::cli::context::{Context, ServiceArgs};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, short};
use crate::cli::verbatim::Verbatim;
use crate::model::deployment::State;
use crate::model::id::{AppKey, AppName, ImageTag, TargetName};
use crate::model::removal;

/// Deploys the release that is live on one target to others: the same image tag, and the WAML of the same commit.
///
/// Several targets are one rollout, in the order in which they are named. The release must run well where it is live: its
/// deployment has succeeded, and where the service watches the cluster, all pods that there are to be can serve. --force
/// promotes it nevertheless.
///
/// Ctrl-C ends the waiting and not the deployment: bart prints how to follow it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart promote staging prod-cluster-1
  bart promote canary-1 prod-cluster-1 prod-cluster-2 --reason 'a day without errors'
  bart promote staging 'prod-*' --dry-run

Exit codes: 0 every target has the release (with --no-wait: it was created), 1 it does not run well, was refused, failed or
was undone, 2 wrong usage, or something could not be read or followed, 130 after Ctrl-C.")]
pub(super) struct Promote {
    /// The target whose live release is promoted
    from: TargetName,
    /// The targets that get it, in their order; of several also globs: `prod-*`
    #[arg(required = true, value_name = "TARGET")]
    to: Vec<String>,
    /// The reason, for people and the record
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: Option<String>,
    /// Promote a release that does not run well, too
    #[arg(long)]
    force: bool,
    /// Only print what would be deployed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    follow: FollowArgs,
    #[command(flatten)]
    context: Context,
}

/// A release that is live on a target.
#[derive(Debug)]
struct LiveRelease {
    tag: ImageTag,
    commit: String,
}

impl Promote {
    pub(super) async fn run(self) -> CommandOutcome {
        let Context { about, server, output } = self.context;
        let from = &self.from;
        if let Some(same) = self.to.iter().find(|target| *target == from.as_str()) {
            return Err(CliError::usage(format!("{same} has the release already")));
        }
        let repository = about.repository()?;
        let app = server.find_app(&about).await?;
        let path = format!("/api/v1/apps/{from}/{app}");
        let detail: Option<Verbatim<AppDetail>> = server.find(&path).await?;
        let detail = detail.ok_or_else(|| not_live(&app, from))?;
        let (release, revision) = live_release(&app, from, &detail)?;
        // The deployment that pushed what is live: a rollback is one of its own.
        let maker = revision.rollback.as_ref().map_or(&revision.revision, |rollback| &rollback.id);
        let maker: Option<Verbatim<DeploymentDetail>> =
            server.find(&format!("/api/v1/deployments/{maker}")).await?;
        let pods: Option<Verbatim<LiveStateAnswer>> = server.find(&format!("{path}/pods")).await?;
        let state = maker.as_ref().map(|deployment| deployment.summary.state);
        let doubts = doubts(state, pods.as_deref());
        let LiveRelease { tag, commit } = release;
        let app_name = revision.app_name.as_deref().map(AppName::parse).transpose();
        let app_name = app_name.map_err(|error| CliError::io(error.to_string()))?;
        output::note(&format!(
            "{BOLD}{app}{BOLD:#} {tag}, commit {}, live on {from}\n",
            short(&commit)
        ));
        if !doubts.is_empty() && !self.force {
            let message = format!("the release does not run well on {from}: {}", doubts.join("; "));
            return Err(
                CliError::refused(message).hint("wait, or promote it nevertheless with --force")
            );
        }
        for doubt in &doubts {
            output::warning(doubt);
        }
        let service = ServiceArgs { server, output };
        let is_name = |target: &String| TargetName::parse(target.as_str()).ok();
        let single = self.to.first().filter(|_| self.to.len() == 1).and_then(is_name);
        match single {
            Some(target) if !self.dry_run => {
                let description = self.reason.unwrap_or_else(|| format!("promoted from {from}"));
                let release =
                    ReleaseOnTarget { tag, commit, target, repository, app: app_name, description };
                deploy::deploy_release(release, self.follow.wait(), service).await
            }
            _ => {
                let request = RolloutStartRequest {
                    repository: repository.to_string(),
                    app_name: app_name.map(String::from),
                    git_ref: commit,
                    tag: tag.to_string(),
                    targets: self.to,
                    reason: self.reason.or_else(|| Some(format!("promoted from {from}"))),
                    dry_run: self.dry_run,
                    ..RolloutStartRequest::default()
                };
                start_and_follow(&request, &service, self.follow.wait()).await
            }
        }
    }
}

fn not_live(app: &AppKey, target: &TargetName) -> CliError {
    CliError::refused(format!("{app} is not live on {target}"))
        .hint("`bart status` shows where it is live")
}

/// Reads the release of the live revision.
fn live_release<'a>(
    app: &AppKey,
    target: &TargetName,
    detail: &'a AppDetail,
) -> Result<(LiveRelease, &'a LiveRevision), CliError> {
    let Some(live) = &detail.live else {
        if detail.hand_edited {
            let message =
                format!("the files of {app} on {target} were edited by hand: they are no release");
            return Err(CliError::refused(message).hint("deploy a release there first"));
        }
        return Err(not_live(app, target));
    };
    let tag = live.tag.as_deref().and_then(|tag| ImageTag::parse(tag).ok());
    let release = tag.zip(live.commit.clone());
    let (tag, commit) = release.ok_or_else(|| {
        CliError::refused(format!("the tag and the commit of {app} on {target} are not known"))
            .hint("deploy it with `bart deploy TAG TARGET --ref COMMIT`")
    })?;
    Ok((LiveRelease { tag, commit }, live))
}

/// Lists what speaks against a release: its deployment has not succeeded, or its pods cannot serve. A deployment that the
/// service has forgotten says nothing.
fn doubts(state: Option<State>, pods: Option<&LiveStateAnswer>) -> Vec<String> {
    let deployment = match state {
        None | Some(State::Succeeded) => None,
        Some(state) if state.is_final() => {
            Some(format!("its deployment has ended as {}", state.as_str()))
        }
        Some(state) => Some(format!("its deployment has not ended yet ({})", state.as_str())),
    };
    let workloads = pods.into_iter().flat_map(|pods| &pods.workloads).filter_map(doubt);
    deployment.into_iter().chain(workloads).collect()
}

/// Finds what speaks against a workload; one that runs on a schedule, or has no pods by design, is not asked for any.
fn doubt(workload: &WorkloadSummary) -> Option<String> {
    let WorkloadSummary { kind, name, wanted, available, state, live, .. } = workload;
    if kind == "CronJob" || kind == "Job" {
        return None;
    }
    if *live == Some(false) {
        return Some(format!("{kind} {name} does not run the live revision yet"));
    }
    if state == "failed" {
        return Some(format!("{kind} {name} has failed"));
    }
    let can_serve = available >= wanted;
    (!can_serve).then(|| format!("{available} of {wanted} pods of {kind} {name} can serve"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(workloads: &serde_json::Value) -> LiveStateAnswer {
        serde_json::from_value(serde_json::json!({
            "at": "2026-11-21T12:00:00Z", "digest": null, "workloads": workloads, "pods": [],
        }))
        .unwrap()
    }

    fn workload(kind: &str, available: u32, state: &str, live: Option<bool>) -> serde_json::Value {
        serde_json::json!({"kind": kind, "name": "shop", "wanted": 2, "updated": 2,
            "available": available, "state": state, "live": live})
    }

    #[test]
    fn a_release_is_promoted_only_if_it_runs_well() {
        let good = pods(&serde_json::json!([
            workload("Deployment", 2, "complete", Some(true)),
            workload("Job", 0, "failed", Some(true)),
            workload("CronJob", 0, "unobserved", None),
        ]));
        for state in [None, Some(State::Succeeded)] {
            assert_eq!(doubts(state, Some(&good)), Vec::<String>::new());
            assert_eq!(doubts(state, None), Vec::<String>::new());
        }
        let bad = pods(&serde_json::json!([
            workload("Deployment", 1, "starting", Some(true)),
            workload("Deployment", 2, "complete", Some(false)),
            workload("Deployment", 2, "failed", Some(true)),
        ]));
        assert_eq!(
            doubts(Some(State::Failed), Some(&bad)),
            [
                "its deployment has ended as failed",
                "1 of 2 pods of Deployment shop can serve",
                "Deployment shop does not run the live revision yet",
                "Deployment shop has failed",
            ]
        );
        let waiting = doubts(Some(State::Queued), None);
        assert_eq!(waiting, ["its deployment has not ended yet (queued)"]);
    }
}
