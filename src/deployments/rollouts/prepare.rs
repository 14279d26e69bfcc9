//! Prepares a rollout: resolves the release, reads the app from its WAML, and fixes the sequence of targets.

use std::collections::BTreeMap;

use crate::deployments::Deployments;
use crate::deployments::app_files::{WamlError, WamlText};
use crate::deployments::outcome::{DeployError, Remedy};
use crate::deployments::rollouts::{PreparedRollout, RolloutError, RolloutRequest, RolloutSteps};
use crate::forge::error::ForgeError;
use crate::model::id::TargetName;
use crate::model::release::Release;
use crate::model::target::{Clusters, Target};
use crate::model::violation::Rejection;
use crate::pipeline::rollout_plan::{RolloutSelection, plan_rollout};
use crate::pipeline::weights::{apply_weights, weights_text};
use crate::rollout::plan::{RolloutPlan, RolloutStep};
use crate::waml::Waml;

impl Deployments {
    /// Fixes the release and the sequence of a rollout. Stores nothing.
    pub async fn prepare_rollout(
        &self,
        request: RolloutRequest,
    ) -> Result<PreparedRollout, RolloutError> {
        let RolloutRequest { repository, app, git_ref, tag, steps, on_overlap, reason } = request;
        let commit = self.forge.commit_of(&repository, &git_ref).await?;
        let text = self.read_waml(&repository, app.as_ref(), &commit).await?;
        let release = Release { repository, app: text.app.clone(), commit, tag };
        let (bytes, waml) = self.read_rollout_waml(text).await?;
        let (plan, name) = match steps {
            RolloutSteps::Plan(plan) => {
                plan.check()?;
                self.check_targets(&plan, &waml)?;
                (plan, None)
            }
            RolloutSteps::Selection { selection, options } => {
                let repository = &release.repository;
                let targets = self.rollout_targets();
                let plan = plan_rollout(&selection, &options, &waml, repository, &targets)?;
                let name = match selection {
                    RolloutSelection::Definition(name) => Some(name),
                    RolloutSelection::Targets(_) => None,
                };
                (plan, name)
            }
        };
        self.check_shared_clusters(&plan)?;
        check_weights(&plan, &bytes, &waml)?;
        let Waml { app, owner, .. } = waml;
        Ok(PreparedRollout { release, git_ref, app, owner, name, plan, on_overlap, reason })
    }

    /// Reads the WAML of a release.
    async fn read_rollout_waml(&self, text: WamlText) -> Result<(Vec<u8>, Waml), RolloutError> {
        let WamlText { path, bytes, .. } = text.clone();
        let deployments = self.clone();
        let waml = self.cpu_pool.run_blocking(move || deployments.parse(&text)).await?;
        let waml = waml.map_err(|rejection| RolloutError::Waml(describe(&rejection, &path)))?;
        Ok((bytes, waml))
    }

    /// Refuses targets to which the WAML does not deploy, or that the service does not have.
    fn check_targets(&self, plan: &RolloutPlan, waml: &Waml) -> Result<(), RolloutError> {
        let missing = |is_there: &dyn Fn(&TargetName) -> bool| -> Vec<TargetName> {
            let targets = plan.sequence().map(|(_, target)| target);
            targets.filter(|target| !is_there(target)).cloned().collect()
        };
        let targets = missing(&|target| waml.targets().contains(&target));
        if !targets.is_empty() {
            let available = waml.targets().into_iter().cloned().collect();
            return Err(RolloutError::NotDeployed { app: waml.app.clone(), targets, available });
        }
        let configured = self.rollout_targets();
        let targets = missing(&|target| configured.find(target).is_some());
        if !targets.is_empty() {
            let available = configured.names().into_iter().cloned().collect();
            return Err(RolloutError::NotConfigured { targets, available });
        }
        Ok(())
    }

    /// Returns the targets of rollouts: the clusters, and the fleets, which have no labels.
    fn rollout_targets(&self) -> Clusters {
        let Clusters::Known(clusters) = &self.clusters else { return self.clusters.clone() };
        let fleets = self.fleets.names().map(|name| Target::unconfigured(name.clone()));
        Clusters::from_targets(clusters.values().cloned().chain(fleets))
    }

    /// Refuses targets that share a cluster: one would take the other's place there, and an undo would not know whose
    /// revision it goes back to.
    fn check_shared_clusters(&self, plan: &RolloutPlan) -> Result<(), RolloutError> {
        let mut targets = BTreeMap::new();
        for (_, target) in plan.sequence() {
            for cluster in self.clusters_of(target) {
                match targets.insert(cluster.clone(), target) {
                    Some(other) if other != target => {
                        let targets = [other.clone(), target.clone()];
                        return Err(RolloutError::SharedCluster { targets, cluster });
                    }
                    Some(_) | None => {}
                }
            }
        }
        Ok(())
    }
}

/// Checks that the WAML can have the weights of each step, and has those of the last one: it stays the truth.
fn check_weights(plan: &RolloutPlan, bytes: &[u8], waml: &Waml) -> Result<(), RolloutError> {
    let mut last = BTreeMap::new();
    for step in &plan.steps {
        let RolloutStep::Deploy { targets, weights, .. } = step else { continue };
        for target in targets.iter().filter(|_| !weights.is_empty()) {
            let edit = apply_weights(bytes, waml, target, weights)
                .map_err(|error| RolloutError::Weights(error.to_string()))?;
            last.insert(target, (weights, edit.lines.is_empty()));
        }
    }
    match last.into_iter().find(|(_, (_, is_in_file))| !is_in_file) {
        None => Ok(()),
        Some((target, (weights, _))) => {
            let weights = weights_text(weights);
            Err(RolloutError::Weights(format!(
                "the WAML at the commit does not end at {weights} on {target}: first `bart traffic set {weights} \
                 --target {target}`, and merge it"
            )))
        }
    }
}

fn describe(rejection: &Rejection, path: &str) -> String {
    let first = rejection.violations.iter().find(|violation| violation.is_error());
    let first = first.map_or("it cannot be read", |violation| violation.message.as_str());
    format!("{path} at the commit cannot be deployed: {first}; `bart validate` shows where")
}

impl From<ForgeError> for RolloutError {
    fn from(error: ForgeError) -> Self {
        let is_missing = matches!(
            error,
            ForgeError::NoRef { .. }
                | ForgeError::NoFile { .. }
                | ForgeError::NoCommit { .. }
                | ForgeError::NoRepository { .. }
        );
        if is_missing {
            return Self::Unknown(error.to_string());
        }
        DeployError::from(error).into()
    }
}

impl From<WamlError> for RolloutError {
    fn from(error: WamlError) -> Self {
        match error {
            WamlError::Forge(error) => error.into(),
            WamlError::App { message, missing: _ } => Self::Unknown(message),
        }
    }
}

impl From<DeployError> for RolloutError {
    fn from(DeployError { remedy, message }: DeployError) -> Self {
        match remedy {
            Remedy::Late { .. } | Remedy::Reject => Self::Unknown(message),
            Remedy::Retry { .. } | Remedy::Doubt | Remedy::GiveUp => Self::Unavailable(message),
        }
    }
}
