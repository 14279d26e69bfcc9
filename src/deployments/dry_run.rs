//! A dry run: it makes all lookups and decisions of a deployment, and none of its changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::deployments::app_files::WamlText;
use crate::deployments::cpu_pool::CpuPool;
use crate::deployments::fleets::name_clusters;
use crate::deployments::outcome::{DeployError, Remedy};
use crate::deployments::{BackendError, Deployments};
use crate::forge::error::ForgeError;
use crate::manifests::files;
use crate::model::event::{NamedRepository, RepositoryIdentity};
use crate::model::facts::{Fact, Ownership};
use crate::model::fleet::FleetPlace;
use crate::model::id::{AppKey, AppName, CommitSha, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::revision::ManifestFile;
use crate::model::rollback::{Hold, Holds};
use crate::model::violation::Violations;
use crate::pipeline::dry_run::{DryRun, DryRunOutcome};
use crate::pipeline::preview::live;
use crate::pipeline::{Input, dry_run, fact_requests};
use crate::store::Filter;
use crate::waml::Waml;
use crate::waml::extra_files::ExtraFiles;

/// The request for a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRunInput {
    /// The service's repository.
    pub repository: RepoName,
    /// The app, where the repository has several.
    pub app: Option<AppName>,
    /// The target.
    pub target: TargetName,
    /// The image tag; `None` means the live one.
    pub tag: Option<ImageTag>,
    /// The commit; `None` is allowed only with a WAML.
    pub at: Option<CommitSelector>,
    /// The WAML's text; `None` means the file at the commit.
    pub waml: Option<String>,
    /// The texts of the files that the given WAML names, by their paths; for a WAML at the commit they are there.
    pub manifests: BTreeMap<String, String>,
}

/// The way in which a caller names a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitSelector {
    /// The commit of that id.
    Commit(CommitSha),
    /// The commit of a branch or a tag.
    Ref(String),
}

/// The result of a dry run, with its context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The result of planning.
    pub run: DryRun,
    /// The app, once the WAML could be read.
    pub app: Option<AppKey>,
    /// The target.
    pub target: TargetName,
    /// The image tag.
    pub tag: Option<ImageTag>,
    /// The commit, if one was named.
    pub commit: Option<CommitSha>,
    /// Further remarks, one sentence each.
    pub notes: Vec<String>,
    /// The plans of a fleet's clusters, in the order of their names.
    pub clusters: Vec<Self>,
}

/// The reason why a dry run has no result.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    /// All places for dry runs are taken.
    #[error("the service computes too many plans at once: ask again in a moment")]
    Busy,
    /// The WAML is of this app, which the caller may not read.
    #[error("the caller may not read {0}")]
    Hidden(AppKey),
    /// There is no such repository, commit or file.
    #[error("{0}")]
    Missing(String),
    /// The request cannot be carried out as it stands.
    #[error("{0}")]
    Unmeant(String),
    /// A service that must be asked does not answer now; the text is for the caller too.
    #[error("{0}")]
    Unavailable(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

impl Deployments {
    /// Computes the result of a deployment now, of an app that the caller may read. Changes nothing
    /// anywhere; it ends when the caller stops waiting.
    pub(crate) async fn dry_run(
        &self,
        mut request: DryRunInput,
        is_visible: impl Fn(&AppKey) -> bool + Send + Sync,
    ) -> Result<Plan, DryRunError> {
        let cpu_pool = self.cpu_pool.for_dry_run().ok_or(DryRunError::Busy)?;
        let commit = resolve_commit(self, &request).await?;
        let text = load_waml(self, &request, commit.as_ref()).await?;
        request.app.clone_from(&text.app);
        let (deployments, target) = (self.clone(), request.target.clone());
        let parse = move || {
            let waml = deployments.parse(&text);
            waml.map_err(|rejection| deployments.all_violations(rejection, &text, Some(&target)))
        };
        match cpu_pool.run_blocking(parse).await? {
            Ok(waml) if !is_visible(&waml.app) => Err(DryRunError::Hidden(waml.app)),
            Ok(waml) => {
                let waml = load_extra_files(self, &mut request, commit.as_ref(), waml).await?;
                let (request, names) = rename_request(self, request, &waml.app).await?;
                let waml = Arc::new(waml);
                let fleet = None;
                let planned = DryRunRequest {
                    deployments: self,
                    cpu_pool,
                    request,
                    names,
                    commit,
                    waml,
                    fleet,
                };
                if self.fleets.is_fleet(&planned.request.target) {
                    Box::pin(planned.plan_fleet()).await
                } else {
                    planned.plan().await
                }
            }
            Err(rejection) => {
                let DryRunInput { target, tag, .. } = request;
                let run = dry_run::refuse(rejection);
                let (notes, clusters) = (Vec::new(), Vec::new());
                Ok(Plan { run, app: None, target, tag, commit, notes, clusters })
            }
        }
    }
}

/// Returns the commit that the request names.
async fn resolve_commit(
    deployments: &Deployments,
    request: &DryRunInput,
) -> Result<Option<CommitSha>, DryRunError> {
    match &request.at {
        None => Ok(None),
        Some(CommitSelector::Commit(commit)) => Ok(Some(commit.clone())),
        Some(CommitSelector::Ref(git_ref)) => {
            match deployments.forge.commit_of(&request.repository, git_ref).await {
                Ok(commit) => Ok(Some(commit)),
                Err(error @ ForgeError::NoRef { .. }) => {
                    Err(DryRunError::Missing(error.to_string()))
                }
                Err(error) => Err(DeployError::from(error).into()),
            }
        }
    }
}

/// Returns the WAML that the request names.
async fn load_waml(
    deployments: &Deployments,
    request: &DryRunInput,
    commit: Option<&CommitSha>,
) -> Result<WamlText, DryRunError> {
    let app = request.app.as_ref();
    if let Some(text) = &request.waml {
        let path = deployments.waml_path(app);
        return Ok(WamlText { app: app.cloned(), path, bytes: text.clone().into_bytes() });
    }
    let no_source = || {
        DryRunError::Unmeant(
            "the request names no commit and no WAML: set `commit`, `ref` or `waml`".to_owned(),
        )
    };
    let commit = commit.ok_or_else(no_source)?;
    let result = deployments.read_waml(&request.repository, app, commit).await;
    Ok(result.map_err(DeployError::from)?)
}

/// Puts the files that a WAML names into it: those of the request where the WAML is the request's, else those at its
/// commit.
async fn load_extra_files(
    deployments: &Deployments,
    request: &mut DryRunInput,
    commit: Option<&CommitSha>,
    waml: Waml,
) -> Result<Waml, DryRunError> {
    if let Some(commit) = commit.filter(|_| request.waml.is_none()) {
        let (target, repository) = (&request.target, &request.repository);
        let waml = deployments.with_extra_files(waml, target, repository, commit).await;
        return Ok(waml.map_err(DeployError::from)?);
    }
    let files = std::mem::take(&mut request.manifests).into_iter();
    let files = files.map(|(path, text)| (path, Ok(text.into_bytes())));
    Ok(waml.with_extra_files(ExtraFiles::of_bytes(files)))
}

/// The other names of a request's repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OtherNames {
    /// Its present name, where it was asked for by a former one.
    renamed: Option<RepoName>,
    /// The name that the app's owner has on record, where that is this repository's.
    recorded: Option<RepoName>,
}

/// Returns the request under the present name of its repository, the only name by which the code
/// host can be asked. A clone from before a rename names a former one, and the record may have a
/// former or a retired one: a deployment is accepted all the same.
async fn rename_request(
    deployments: &Deployments,
    request: DryRunInput,
    app: &AppKey,
) -> Result<(DryRunInput, OtherNames), DryRunError> {
    let owner =
        deployments.store.ownership(&request.target, app).await.map_err(BackendError::new)?.app;
    // In most cases the owner's name equals the requested one, and no lookup is needed.
    let Some(owner) = owner.filter(|owner| !owner.is_same(&request.repository)) else {
        return Ok((request, OtherNames::default()));
    };
    let repository =
        deployments.forge.named_repository(&request.repository, deployments.clock.now()).await;
    let Ok(Some(NamedRepository { name, identity })) = repository else {
        return Ok((request, OtherNames::default()));
    };
    let owner_identity =
        deployments.store.repository_identity(&owner).await.map_err(BackendError::new)?;
    let recorded = Some(owner).filter(|owner| is_owner(owner, owner_identity, &name, identity));
    let renamed = Some(name.clone()).filter(|name| !name.is_same(&request.repository));
    Ok((DryRunInput { repository: name, ..request }, OtherNames { renamed, recorded }))
}

/// Returns true if a deployment of the repository makes it the app's owner under its present name.
/// A transferred repository needs an operator, as a deployment of it does.
fn is_owner(
    owner: &RepoName,
    owner_identity: Option<RepositoryIdentity>,
    name: &RepoName,
    identity: RepositoryIdentity,
) -> bool {
    owner_identity.is_some_and(|owner_identity| {
        let is_same_account = identity.owner.is_some() && identity.owner == owner_identity.owner;
        owner_identity.repository == identity.repository
            && (is_same_account || owner.had_owner_of(name))
    })
}

/// One dry run, with a WAML that could be parsed.
#[derive(Clone)]
struct DryRunRequest<'a> {
    deployments: &'a Deployments,
    cpu_pool: CpuPool,
    request: DryRunInput,
    /// The other names of its repository.
    names: OtherNames,
    commit: Option<CommitSha>,
    waml: Arc<Waml>,
    /// The fleet, and the place of the target in it, where the target is one of its clusters.
    fleet: Option<(TargetName, FleetPlace)>,
}

/// The most steps of versions that a plan lists; the rest is counted.
const MAX_STEPS: usize = 40;

/// The note above the steps of versions.
const STEPS_TOGETHER: &str = "the steps below are applied together, in one sync: pods may be gone before those that replace \
                              them are ready (docs/traffic.md, Steps)";

/// Writes a note for each step from the live versions to the next ones, and above several of them that they are one.
fn traffic_notes(steps: &[String]) -> Vec<String> {
    let together = (steps.len() > 1).then(|| STEPS_TOGETHER.to_owned());
    let first = steps.iter().take(MAX_STEPS).enumerate();
    let first = first.map(|(index, step)| format!("step {}: {step}", index + 1));
    let mut notes: Vec<String> = together.into_iter().chain(first).collect();
    let more = steps.len().saturating_sub(MAX_STEPS);
    if more > 0 {
        notes.push(format!("… and {more} more steps"));
    }
    notes
}

impl DryRunRequest<'_> {
    /// Plans on each cluster of a fleet, and says which have joined or left it since its newest deployment.
    async fn plan_fleet(self) -> Result<Plan, DryRunError> {
        let fleet = self.request.target.clone();
        let mut plans = Vec::new();
        for place in self.deployments.fleet_places(&fleet).into_iter().flatten() {
            let mut request = self.clone();
            request.request.target = place.cluster.clone();
            request.fleet = Some((fleet.clone(), place));
            plans.push(request.plan().await?);
        }
        let notes = self.membership_notes(&fleet).await?;
        let (app, tag) =
            (Some(self.waml.app.clone()), plans.iter().find_map(|plan| plan.tag.clone()));
        let run = merge_runs(&plans);
        Ok(Plan { run, app, target: fleet, tag, commit: self.commit, notes, clusters: plans })
    }

    async fn membership_notes(&self, fleet: &TargetName) -> Result<Vec<String>, DryRunError> {
        let store = &self.deployments.store;
        let newest = store.deployments(&Filter::pushed(fleet, &self.waml.app), None, 1).await;
        let newest = newest.map_err(BackendError::new)?.deployments.pop();
        let Some(newest) = newest else {
            return Ok(vec![format!(
                "it would be the first deployment of the app to the fleet {fleet}"
            )]);
        };
        let parts = store.fleet_parts(&newest.id).await.map_err(BackendError::new)?;
        let clusters = self.deployments.clusters_of(fleet);
        let had_part =
            |cluster: &&TargetName| parts.iter().any(|part| part.request.target == **cluster);
        let joined = clusters.iter().filter(|cluster| !had_part(cluster));
        let joined = joined.map(|cluster| {
            format!(
                "{cluster} has joined {fleet} since its newest deployment, and would get the app"
            )
        });
        let left = parts.iter().map(|part| &part.request.target);
        let left = left.filter(|cluster| !clusters.contains(cluster));
        let left = left.map(|cluster| {
            format!(
                "{cluster} has left {fleet} since its newest deployment, and would keep what it has"
            )
        });
        Ok(joined.chain(left).collect())
    }

    async fn plan(self) -> Result<Plan, DryRunError> {
        let (is_ours, live) = self.live().await?;
        let tag = self.tag(&live).await?;
        let notes = self.notes(&live, is_ours).await?;
        let run = self.run(tag.clone(), live).await?;
        if !is_ours && run.outcome != DryRunOutcome::Refused {
            // The rule did not have the fact, and no caller may look into another repository's app.
            let sentence = "the owner of this app cannot be looked up: ask again in a moment; if its files \
                        were put there by hand, its next deployment records the owner";
            return Err(DryRunError::Unavailable(sentence.to_owned()));
        }
        let pods = (!run.restarts.is_empty())
            .then(|| format!("pods would be replaced: {}", run.restarts.join(", ")));
        let steps = traffic_notes(&run.steps);
        let notes = notes.into_iter().chain(pods).chain(steps).collect();
        let (app, target) = (Some(self.waml.app.clone()), self.request.target);
        let (tag, clusters) = (Some(tag), Vec::new());
        Ok(Plan { run, app, target, tag, commit: self.commit, notes, clusters })
    }

    /// Returns true if the app belongs to no other repository, since a WAML may have any name in
    /// it, and in that case the app's live files. Live files without an owner on record may be
    /// anybody's. For a target that does not exist a rule has the violation.
    async fn live(&self) -> Result<(bool, Vec<ManifestFile>), DryRunError> {
        let (app, target) = (&self.waml.app, &self.request.target);
        let owner =
            self.deployments.store.ownership(target, app).await.map_err(BackendError::new)?.app;
        let is_ours = owner.as_ref().map(|owner| self.is_same_repository(owner));
        if is_ours == Some(false) || self.deployments.clusters.find(target).is_none() {
            return Ok((is_ours != Some(false), Vec::new()));
        }
        let live = self.deployments.live(app, target).await?;
        let is_ours = is_ours.unwrap_or(live.is_empty());
        Ok((is_ours, if is_ours { live } else { Vec::new() }))
    }

    /// Returns true if a name on record is that of the request's repository.
    fn is_same_repository(&self, owner: &RepoName) -> bool {
        let recorded = self.names.recorded.as_ref();
        owner.is_same(&self.request.repository) || recorded.is_some_and(|name| name.is_same(owner))
    }

    /// Returns the owners as a deployment would find them: its event changes the name on record to
    /// the present one.
    fn present_owners(&self, mut owner: Fact<Ownership>) -> Fact<Ownership> {
        if let Fact::Known { value, .. } = &mut owner {
            for name in value.app.iter_mut().chain(&mut value.namespace) {
                if self.is_same_repository(name) {
                    *name = self.request.repository.clone();
                }
            }
        }
        owner
    }

    /// Returns the tag that was named, or the live one.
    async fn tag(&self, live: &[ManifestFile]) -> Result<ImageTag, DryRunError> {
        if let Some(tag) = &self.request.tag {
            return Ok(tag.clone());
        }
        let (app, target) = (&self.waml.app, &self.request.target);
        let succeeded =
            self.deployments.recent_successes(app, target).await.map_err(DeployError::from)?;
        let (_, tag) = live::release(live, &succeeded, &self.release(live::no_tag()));
        tag.ok_or_else(|| {
            DryRunError::Unmeant(format!("nothing of {app} is live on {target}: name a `tag`"))
        })
    }

    fn release(&self, tag: ImageTag) -> Release {
        let placeholder =
            || CommitSha::parse("0".repeat(40)).expect("forty digits are a commit id");
        let commit = self.commit.clone().unwrap_or_else(placeholder);
        let DryRunInput { repository, app, .. } = &self.request;
        Release { repository: repository.clone(), app: app.clone(), commit, tag }
    }

    async fn run(&self, tag: ImageTag, live: Vec<ManifestFile>) -> Result<DryRun, DryRunError> {
        let (cpu_pool, clusters) = (&self.cpu_pool, self.deployments.clusters.clone());
        let input = Input {
            waml: Arc::clone(&self.waml),
            target: self.fleet.as_ref().map_or(&self.request.target, |(fleet, _)| fleet).clone(),
            fleet: self.fleet.as_ref().map(|(_, place)| place.clone()),
            release: self.release(tag),
            templates: self.deployments.templates.now(),
        };
        let collect = move || {
            let questions = fact_requests::collect_questions(&input, &clusters);
            (input, questions)
        };
        let (input, questions) = cpu_pool.run_blocking(collect).await?;
        let has_questions = questions.is_some();
        let questions = questions.map(|mut questions| {
            if self.commit.is_none() {
                questions.target.policies.branches = None;
            }
            questions
        });
        let mut facts = self.deployments.gather(questions.as_ref()).await;
        facts.owner = self.present_owners(facts.owner);
        let run =
            cpu_pool.run_blocking(move || dry_run::plan_dry_run(&input, &facts, &live)).await?;
        if !has_questions && run.outcome != DryRunOutcome::Refused {
            return Err(BackendError::new("no rule refused a WAML without lookups").into());
        }
        Ok(run)
    }

    async fn notes(
        &self,
        live: &[ManifestFile],
        is_ours: bool,
    ) -> Result<Vec<String>, DryRunError> {
        let (app, target) = (&self.waml.app, &self.request.target);
        let mut notes = Vec::new();
        if let Some(name) = &self.names.renamed {
            notes.push(format!(
                "the repository was renamed to {name}: `git remote set-url origin` lets the other commands know it"
            ));
        }
        if is_ours && live.is_empty() {
            notes.push(format!("nothing of {app} is deployed to {target} yet"));
        }
        if !live.is_empty() && self.is_edited_by_hand().await? {
            let sentence = "the live files were edited by hand: the changes are shown against the edited files";
            notes.push(sentence.to_owned());
        }
        if is_ours
            && let Some(id) =
                self.deployments.store.deploying(target, app).await.map_err(BackendError::new)?
        {
            notes.push(format!(
                "deployment {id} is under way or waits, and may change what is live"
            ));
        }
        if is_ours
            && let Some(hold) =
                self.deployments.store.hold(target, app).await.map_err(BackendError::new)?
        {
            let cluster = self.deployments.clusters.find(target);
            let holds = cluster.map(|cluster| cluster.policies.holds).unwrap_or_default();
            notes.extend(hold_note(&hold, holds));
        }
        if self.commit.is_none() {
            notes.push("no commit was named, so its branch was not checked".to_owned());
        }
        Ok(notes)
    }

    async fn is_edited_by_hand(&self) -> Result<bool, DryRunError> {
        let (app, target) = (&self.waml.app, &self.request.target);
        let repository = &self.deployments.manifests_of(target)?.repository;
        let history = repository.history(target, app).await.map_err(DeployError::from)?;
        Ok(history.live().is_none() && !history.revisions.is_empty())
    }
}

/// Sums up the plans of a fleet's clusters: refused on one is refused on all.
fn merge_runs(plans: &[Plan]) -> DryRun {
    let runs = || plans.iter().map(|plan| &plan.run);
    let is = |outcome: DryRunOutcome| move |run: &DryRun| run.outcome == outcome;
    let outcome = if runs().any(is(DryRunOutcome::Refused)) {
        DryRunOutcome::Refused
    } else if runs().all(is(DryRunOutcome::Unchanged)) {
        DryRunOutcome::Unchanged
    } else {
        DryRunOutcome::Changes
    };
    let all = |list: fn(&DryRun) -> &Violations| {
        let of_clusters = plans
            .iter()
            .map(|plan| (plan.target.clone(), list(&plan.run).iter().cloned().collect::<Vec<_>>()));
        name_clusters(of_clusters.collect(), plans.len())
    };
    let digests: Option<Vec<_>> =
        plans.iter().map(|plan| Some((plan.target.as_str(), plan.run.digest.as_ref()?))).collect();
    DryRun {
        outcome,
        template: runs().find_map(|run| run.template.clone()),
        digest: digests.map(|digests| files::digest_of_fleet(digests.into_iter())),
        changes: runs().flat_map(|run| run.changes.iter().cloned()).collect(),
        restarts: Vec::new(),
        canary: runs().find_map(|run| run.canary.clone()),
        steps: Vec::new(),
        violations: all(|run| &run.violations).into(),
        warnings: all(|run| &run.warnings).into(),
    }
}

/// Explains the effect of a hold on a deployment by the target's policy; `None` where that stops
/// no deployment.
fn hold_note(Hold { by, reason, .. }: &Hold, holds: Holds) -> Option<String> {
    match holds {
        Holds::Off => None,
        Holds::Automation => Some(format!(
            "{by} holds automation off it ({reason}): a person's deployment of another release ends \
             the hold, and one that a job asks for is refused"
        )),
        Holds::Everybody => Some(format!(
            "{by} holds it ({reason}): every deployment is refused until `bart unhold` ends the hold"
        )),
    }
}

impl From<DeployError> for DryRunError {
    fn from(DeployError { remedy, message }: DeployError) -> Self {
        match remedy {
            Remedy::Late { .. } => Self::Missing(message),
            Remedy::Reject => Self::Unmeant(message),
            Remedy::Retry { .. } | Remedy::Doubt | Remedy::GiveUp => Self::Unavailable(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{Namespace, Slug, TargetName};

    #[test]
    fn a_retired_name_is_its_repositorys_by_the_same_test_as_a_deployments() {
        let judge = |owner: &str,
                     name: &str,
                     account: Option<i64>,
                     recorded: Option<(i64, Option<i64>)>| {
            let identity = |(repository, owner)| RepositoryIdentity { repository, owner, at: None };
            let (owner, name) = (owner.parse().unwrap(), name.parse().unwrap());
            is_owner(&owner, recorded.map(identity), &name, identity((7, account)))
        };
        let retired = "-acme/shop.former-7";
        assert!(judge(retired, "acme/web-shop", None, Some((7, None))));
        assert!(judge("acme/shop", "acme/web-shop", None, Some((7, None))));
        assert!(!judge(retired, "bob/shop", None, Some((7, None))), "it was transferred");
        assert!(judge("acme/shop", "new-acme/shop", Some(1), Some((7, Some(1)))));
        assert!(!judge(retired, "acme/web-shop", None, Some((8, None))), "another one");
        assert!(!judge(retired, "acme/web-shop", None, None));
    }

    #[test]
    fn a_note_about_a_hold_promises_no_way_out_that_is_refused() {
        let hold = Hold {
            target: TargetName::parse("prod").unwrap(),
            app: AppKey {
                namespace: Namespace::parse("devx").unwrap(),
                slug: Slug::parse("shop").unwrap(),
            },
            by: "jo".to_owned(),
            reason: "the fair".to_owned(),
            since: jiff::Timestamp::UNIX_EPOCH,
            rollback: None,
            away: None,
            to: None,
        };
        let note = |holds| hold_note(&hold, holds).unwrap_or_default();
        assert!(note(Holds::Automation).contains("a person's deployment of another release ends"));
        let everybody = note(Holds::Everybody);
        assert!(
            everybody.contains("`bart unhold`") && !everybody.contains("a person's"),
            "{everybody}"
        );
        assert_eq!(note(Holds::Off), "");
    }
}
