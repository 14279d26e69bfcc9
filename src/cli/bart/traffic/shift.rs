//! `bart traffic shift` takes a version to its share in steps: a rollout whose steps change weights.

use std::collections::BTreeMap;

use clap::Args;
use jiff::SignedDuration;

use crate::api::rollouts::{OverlapChoice, RolloutFailurePolicy, RolloutStartRequest};
use crate::cli::bart::deploy::worktree;
use crate::cli::bart::rollout::start::{FollowArgs, start_and_follow};
use crate::cli::bart::traffic::live::{LiveTraffic, clusters_of, read_live};
use crate::cli::context::{Context, ServiceArgs};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output;
use crate::cli::times;
use crate::cli::working_folder;
use crate::manifests::parse::shares::RouteShares;
use crate::manifests::parse::versions::LiveVersionManifest;
use crate::model::id::{ImageTag, TargetName};
use crate::model::removal;
use crate::pipeline::weights::shift_weights;

/// Versions with their percents.
type Weights = BTreeMap<String, u32>;

/// Takes a version to its share of the requests in steps: a rollout whose steps change weights.
///
/// Each step but the last deploys the WAML with other weights: the version gets the step's percent, and the others share
/// the rest in proportion to what they have live. The last step is the WAML as it is; it is refused where it does not end
/// there. A failure brings the target back to the revision before the first step.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart traffic shift --to v2 --steps 10,25,50,100 --bake 5m --target prod --dry-run
  bart traffic shift --to v2 --steps 10,50,100 --bake 5m --gates production --target prod

Exit codes: 0 the version has its share (with --no-wait: the rollout has started), 1 refused, undone, cancelled, or a
person must act, 2 wrong usage, or it could not be followed or did not end in time, 130 after Ctrl-C.")]
pub(in crate::cli::bart) struct ShiftArgs {
    /// The version that gets the requests
    #[arg(long, value_name = "VERSION")]
    to: String,
    /// The percents of the version, step by step; the last one is that of the WAML
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', required = true,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    steps: Vec<u32>,
    /// The cluster or the fleet
    #[arg(long, short)]
    target: TargetName,
    /// The time to wait between two steps: `5m`
    #[arg(long, value_name = "TIME", value_parser = times::duration)]
    bake: Option<SignedDuration>,
    /// The rollout of the WAML whose gates stand after each step
    #[arg(long, value_name = "NAME")]
    gates: Option<String>,
    /// What follows when a step fails or a gate does not pass in time. Default: undo
    #[arg(long, value_name = "POLICY", value_parser = ["undo", "pause", "continue"])]
    on_failure: Option<String>,
    /// The longest time that each step may take: `15m`
    #[arg(long, value_name = "TIME", value_parser = times::duration)]
    timeout: Option<SignedDuration>,
    /// The image tag. Default: the one that is live
    #[arg(long, value_name = "TAG")]
    tag: Option<ImageTag>,
    /// Where another rollout of the app has the target: wait for its end, and do not refuse
    #[arg(long)]
    queue: bool,
    /// The reason; the record and the audit log store it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: Option<String>,
    /// Only print the plan
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    follow: FollowArgs,
    /// The branch, tag or commit whose WAML is deployed. Default: the commit that is checked out
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    #[command(flatten)]
    context: Context,
}

impl ShiftArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let Self { to, steps, target, context: Context { about, server, output }, .. } = self;
        let tree = worktree::read_tree(&working_folder::path()?, self.git_ref.as_deref(), None)?;
        for warning in &tree.warnings {
            output::warning(warning);
        }
        let app = server.find_app(&about).await?;
        let names = about.names(Some(&target));
        let mut lives = Vec::new();
        for cluster in clusters_of(&server, &target).await {
            let live = server.suggest(read_live(&server, &cluster, &app).await, &names).await?;
            lives.extend(live);
        }
        if lives.is_empty() {
            return Err(CliError::refused(format!("no revision of {app} is live on {target}"))
                .hint("a shift begins with the live weights: deploy it first"));
        }
        let weights = step_weights(&to, &steps, live_weights(&lives))?;
        let tag = lives.iter().find_map(|live| live.tag.clone());
        let tag = self.tag.map(|tag| tag.to_string()).or(tag);
        let tag = tag.ok_or_else(|| {
            CliError::refused("the tag of the live revision is not known")
                .hint("name it: `--tag TAG`")
        })?;
        let app_name = lives.iter().find_map(|live| live.app_name.clone());
        let repository = lives.into_iter().find_map(|live| live.repository);
        let repository = match repository {
            Some(repository) => repository,
            None => about.repository()?.to_string(),
        };
        let request = RolloutStartRequest {
            repository,
            app_name,
            git_ref: tree.git_ref,
            tag,
            name: None,
            targets: vec![target.to_string()],
            labels: BTreeMap::new(),
            pattern: None,
            parallel: None,
            max_failures: None,
            on_failure: self.on_failure.as_deref().and_then(RolloutFailurePolicy::parse),
            timeout: self.timeout,
            bake: self.bake,
            weights,
            gates: self.gates,
            on_overlap: self.queue.then_some(OverlapChoice::Queue),
            reason: self.reason,
            dry_run: self.dry_run,
        };
        start_and_follow(&request, &ServiceArgs { server, output }, self.follow.wait()).await
    }
}

/// Computes the weights of each step from those that are live. Pure.
fn step_weights(to: &str, steps: &[u32], live: Option<Weights>) -> Result<Vec<Weights>, CliError> {
    let live = live.ok_or_else(|| {
        CliError::refused("no route shares its requests between versions by weights now")
            .hint("write `versions` with weights, and deploy them: docs/traffic.md")
    })?;
    let of_step = |percent: &u32| {
        shift_weights(&live, to, *percent).ok_or_else(|| {
            CliError::refused(format!(
                "{to} has all requests: no other version gets the rest of {percent} %"
            ))
            .hint("shift to the version that should get more: `--to VERSION`")
        })
    };
    steps.iter().map(of_step).collect()
}

/// Returns the weights of the first route that shares its requests between the most versions: a cluster of a fleet may
/// have only some of them.
fn live_weights(lives: &[LiveTraffic]) -> Option<Weights> {
    let of_route = |versions: &[LiveVersionManifest], route: &RouteShares| -> Option<Weights> {
        let share = |(service, weight): &(String, Option<u64>)| {
            let version = versions.iter().find(|one| one.name == *service)?;
            Some((version.version.clone(), u32::try_from((*weight)?).ok()?))
        };
        let weights: Option<Weights> = route.shares.iter().map(share).collect();
        weights.filter(|weights| !weights.is_empty())
    };
    let of_cluster = |live: &LiveTraffic| {
        live.routes.iter().filter_map(|route| of_route(&live.versions, route)).collect::<Vec<_>>()
    };
    let mut all: Vec<Weights> = lives.iter().flat_map(of_cluster).collect();
    all.sort_by_key(|weights| std::cmp::Reverse(weights.len()));
    all.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_shares_the_rest_as_it_is_live() {
        let version = |name: &str| LiveVersionManifest {
            name: format!("shop-{name}"),
            version: name.to_owned(),
            image: String::new(),
            replicas: None,
        };
        let versions = [version("v1"), version("v2"), version("v3")];
        let share = |name: &str, weight| (format!("shop-{name}"), Some(weight));
        let shares = vec![share("v1", 60), share("v3", 30), share("v2", 10)];
        let all = RouteShares { route: "a".into(), shares: vec![("shop".into(), None)] };
        let routes = [all.clone(), RouteShares { route: "b".into(), shares }];
        let live = |versions: &[LiveVersionManifest], routes: &[RouteShares]| {
            let (versions, routes) = (versions.to_vec(), routes.to_vec());
            LiveTraffic {
                revision: String::new(),
                tag: None,
                repository: None,
                app_name: None,
                versions,
                routes,
            }
        };
        let few = live(
            &versions[..1],
            &[RouteShares { route: "b".into(), shares: vec![share("v1", 100)] }],
        );
        let lives = [few, live(&versions, &routes)];
        let steps = step_weights("v2", &[25, 100], live_weights(&lives)).ok().unwrap();
        let weights =
            |v1, v2, v3| Weights::from([("v1".into(), v1), ("v2".into(), v2), ("v3".into(), v3)]);
        assert_eq!(steps, [weights(50, 25, 25), weights(0, 100, 0)]);
        let alone = [live(&versions, &[all])];
        assert!(step_weights("v2", &[25], live_weights(&alone)).is_err());
        let only = [RouteShares { route: "b".into(), shares: vec![share("v2", 100)] }];
        let only = [live(&versions, &only)];
        assert!(step_weights("v2", &[25], live_weights(&only)).is_err());
    }
}
