//! The steps of one attempt at a deployment: fetch the WAML, plan, write the plan.

use std::sync::Arc;
use std::time::Duration;

use crate::deployments::app_files::{RequestedWaml, WamlText, without_lag};
use crate::deployments::outcome::{DeployError, PlanError, WritablePlan};
use crate::deployments::stages::Stages;
use crate::deployments::{Deployments, ServedRepository};
use crate::git::layout;
use crate::git::writer::{DeploymentChange, DriftPolicy, Note, ProjectFile};
use crate::manifests::argocd::application::{ApplicationInfo, Source};
use crate::manifests::argocd::{application, project};
use crate::manifests::files;
use crate::manifests::parse::names::NamePool;
use crate::manifests::parse::{names, routes};
use crate::model::claim::{self, Claims, ObjectClaim};
use crate::model::deployment::{Contact, ContactLink, Deployment, Pushed, Stage};
use crate::model::event::DeploymentRequest;
use crate::model::facts::{Fact, FactRequests, Facts, LiveObject};
use crate::model::fleet::FleetPlace;
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::release::Release;
use crate::model::revision::{ManifestFile, Revision};
use crate::model::route::{self, Route, RouteClaim};
use crate::model::violation::Rejection;
use crate::pipeline;
use crate::pipeline::render::RenderedManifests;
use crate::pipeline::weights::apply_weights;
use crate::pipeline::{Input, fact_requests};
use crate::support::secret_mask::mask_secrets;
use crate::waml::Waml;
use crate::waml::document::Link;

/// The time for which the check of a manifest host waits; a slower host is left to the push.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

impl Deployments {
    /// Returns the repository of a target's manifests; all clusters of a fleet have the same.
    pub(crate) fn manifests_of(
        &self,
        target: &TargetName,
    ) -> Result<&ServedRepository, DeployError> {
        let cluster = self.fleets.clusters_of(target).and_then(|clusters| clusters.first());
        let cluster = cluster.unwrap_or(target).as_str();
        let repository =
            self.manifests.iter().find(|repository| repository.targets.is_match(cluster));
        repository.ok_or_else(|| {
            DeployError::give_up(format!(
                "no manifest repository is configured for {target}: add it to the `targets` of one under manifests.repositories"
            ))
        })
    }

    /// Checks that a deployment is a step of a rollout that a caller of the API started: the caller's rights on each target
    /// were checked then, also those of tokens and administrators, whom the code host has in no team. An event has none.
    async fn is_authorized_step(&self, deployment: &Deployment) -> Result<bool, DeployError> {
        let Some(id) = &deployment.rollout else { return Ok(false) };
        let rollout = self.store.rollout(id).await?;
        Ok(rollout.is_some_and(|rollout| rollout.origin.event.is_none()))
    }

    /// Plans on a thread of its own and within a bound: a template's computation cannot be
    /// interrupted. Returns the claims of what the app has live, too.
    async fn compute_plan(
        &self,
        deployment: &Deployment,
        place: Option<FleetPlace>,
        waml: WamlText,
        stages: &Stages,
    ) -> Result<(RenderedManifests, Arc<Waml>, LiveClaims), PlanError> {
        let timer = stages.begin(Stage::Facts);
        let waml = self.with_step_weights(deployment, waml).await?;
        let (deployments, accepted) = (self.clone(), deployment.clone());
        let (mut input, mut questions) =
            self.cpu_pool.run_blocking(move || deployments.read(&accepted, place, &waml)).await??;
        let Release { repository, commit, .. } = &deployment.request.release;
        self.check_other_file(&deployment.request, &input.waml).await?;
        let waml = Arc::unwrap_or_clone(input.waml);
        let waml = self.with_extra_files(waml, &input.target, repository, commit).await;
        input.waml = Arc::new(waml.map_err(DeployError::from)?);
        if let Some(questions) = &mut questions
            && self.is_authorized_step(deployment).await?
        {
            questions.actor = None;
        }
        let has_questions = questions.is_some();
        let facts = self.gather(questions.as_ref()).await;
        if matches!(facts.live, Fact::Missing { .. }) {
            self.check_writable(&deployment.request.target).await?;
        }
        drop(timer);
        let live = LiveClaims::from_facts(&facts);
        let stages = stages.clone();
        let (rendered, waml) =
            self.cpu_pool.run_blocking(move || plan_now(&input, &facts, &stages)).await??;
        // Lookups are skipped where a rule refuses the WAML anyway. If no rule did, locks and owners must not be
        // skipped.
        let fault = "no rule refused a WAML without lookups: a fault in the-deployer itself";
        if has_questions {
            Ok((rendered, waml, live))
        } else {
            Err(DeployError::give_up(fault).into())
        }
    }

    /// Puts the weights of a rollout's step into the WAML, as `bart traffic set` would.
    async fn with_step_weights(
        &self,
        deployment: &Deployment,
        waml: WamlText,
    ) -> Result<WamlText, PlanError> {
        let Some(id) = &deployment.rollout else { return Ok(waml) };
        let rollout =
            self.rollout(id).await.map_err(|error| DeployError::retry(error.to_string()))?;
        let weights =
            rollout.and_then(|rollout| rollout.record.weights_of(&deployment.id).cloned());
        let Some(weights) = weights else { return Ok(waml) };
        let (deployments, target) = (self.clone(), deployment.request.target.clone());
        let edit = move || {
            // One that cannot be read is reported with its places by the stages that follow.
            let Ok(document) = deployments.parse(&waml) else { return Ok(waml) };
            let edit = apply_weights(&waml.bytes, &document, &target, &weights);
            edit.map(|edit| WamlText { bytes: edit.text.into_bytes(), ..waml })
                .map_err(|error| DeployError::reject(error.to_string()))
        };
        Ok(self.cpu_pool.run_blocking(edit).await??)
    }

    /// Checks that the manifest repository can be written. One that cannot be read cannot be
    /// written to either: the attempt waits for it, as for a push, and does not fail for missing
    /// facts.
    async fn check_writable(&self, target: &TargetName) -> Result<(), DeployError> {
        let repository = &self.manifests_of(target)?.repository;
        match tokio::time::timeout(LONGEST_LOOK, repository.ready()).await {
            Ok(ready) => Ok(ready?),
            Err(_elapsed) => Ok(()),
        }
    }

    /// Parses the WAML, and returns the lookups that it needs.
    fn read(
        &self,
        deployment: &Deployment,
        fleet: Option<FleetPlace>,
        text: &WamlText,
    ) -> Result<(Input, Option<FactRequests>), PlanError> {
        let request = &deployment.request;
        let waml = self.parse(text).map_err(|rejection| {
            let violations = self.all_violations(rejection, text, Some(&request.target));
            reject(violations, None, None)
        })?;
        let input = Input {
            waml: Arc::new(waml),
            target: request.target.clone(),
            fleet,
            release: request.release.clone(),
            templates: self.templates.now(),
        };
        let questions = fact_requests::collect_questions(&input, &self.clusters)
            .map(|questions| with_origin(deployment, questions));
        Ok((input, questions))
    }
}

/// Adds what the WAML does not say to the lookups: who deploys, and since when. A tag counts as it was then or later.
fn with_origin(deployment: &Deployment, questions: FactRequests) -> FactRequests {
    let DeploymentRequest { automatic, actor, .. } = &deployment.request;
    FactRequests {
        automatic: *automatic,
        actor: Some(actor.clone()),
        images_since: Some(deployment.received_at),
        ..questions
    }
}

fn plan_now(
    input: &Input,
    facts: &Facts,
    stages: &Stages,
) -> Result<(RenderedManifests, Arc<Waml>), PlanError> {
    let mut timer = Some(stages.begin(Stage::Merge));
    let rendered = pipeline::plan_observed(input, facts, &mut |finished| {
        timer.take();
        timer = next_stage(finished).map(|stage| stages.begin(stage));
    });
    drop(timer);
    match rendered {
        Ok(rendered) => Ok((rendered, input.waml.clone())),
        Err(rejection) => Err(reject(rejection, Some(&input.waml), input.templates.commit.clone())),
    }
}

/// Returns the stage of planning that follows.
fn next_stage(finished: Stage) -> Option<Stage> {
    match finished {
        Stage::Merge => Some(Stage::Default),
        Stage::Default => Some(Stage::Validate),
        Stage::Validate => Some(Stage::Render),
        Stage::Queue | Stage::Fetch | Stage::Facts | Stage::Render | Stage::Push => None,
    }
}

fn reject(
    rejection: Rejection,
    waml: Option<&Waml>,
    templates_commit: Option<CommitSha>,
) -> PlanError {
    let app = waml.map(|waml| waml.app.clone());
    let contact = waml.map(contact);
    PlanError::Rejected { rejection, app, template: None, templates_commit, contact }
}

/// The most links that are recorded of a WAML.
const MAX_LINKS: usize = 20;

fn contact(waml: &Waml) -> Contact {
    let Waml { name, owner, slack, successes, links, .. } = waml;
    let link = |Link { name, url }: &Link| ContactLink { name: name.clone(), url: url.clone() };
    Contact {
        name: name.clone(),
        owner: owner.clone(),
        // An incoming webhook may stand there by mistake.
        slack: slack.as_deref().map(|slack| mask_secrets(slack).into_owned()),
        successes: *successes,
        links: links.iter().take(MAX_LINKS).map(link).collect(),
    }
}

/// Returns the address of the first host that the manifests route to the app; one with a wildcard
/// leads nowhere.
fn address(routes: &[Route]) -> Option<String> {
    let route = routes.iter().find(|route| !route.host.contains('*'))?;
    Some(format!("https://{}{}", route.host, route.path))
}

/// The routes and objects that an app has on a target already; only one app may have each.
#[derive(Default)]
struct LiveClaims {
    routes: Vec<Route>,
    objects: Vec<LiveObject>,
}

impl LiveClaims {
    fn from_facts(facts: &Facts) -> Self {
        let mut live = Self::default();
        if let Fact::Known { value, .. } = &facts.own_routes {
            live.routes.clone_from(value);
        }
        if let Fact::Known { value, .. } = &facts.live {
            live.objects = value.names().cloned().collect();
        }
        live
    }
}

/// Returns the claims on the objects of an app's files; `live` are those that the app has already.
pub(super) fn object_claims(files: &[ManifestFile], live: &[LiveObject]) -> Vec<ObjectClaim> {
    let mut interner = NamePool::default();
    let live = names::names(live, &mut interner);
    let (objects, _) = names::objects(files);
    claim::object_claims(&names::names(&objects, &mut interner), &live)
}

/// Returns the routes that an app's files make live, as far as they can be read: other files are
/// not the service's.
pub(super) fn routes_of(app: &AppKey, files: &[ManifestFile]) -> Vec<Route> {
    let routing = files.iter().filter(|file| routes::may_contain_routes(&file.name));
    routes::read_routes(app, &routing.cloned().collect::<Vec<_>>()).found
}

/// Returns the claims on these routes; `live` are those that the app has already.
pub(super) fn route_claims(routes: Vec<Route>, live: &[Route]) -> Vec<RouteClaim> {
    let claim = |Route { host, path, .. }: Route| {
        let claim = RouteClaim { host, path, live: false };
        RouteClaim { live: route::is_among(&claim, live), ..claim }
    };
    routes.into_iter().map(claim).collect()
}

/// Assembles the change to write: the files of a deployment, the app's Application, and the commit
/// message.
fn build_change(
    rendered: &RenderedManifests,
    waml: &Waml,
    (id, fleet): (&DeployId, Option<(DeployId, TargetName)>),
    request: &DeploymentRequest,
    source: &Source,
    forge_url: Option<&str>,
) -> DeploymentChange {
    let info = ApplicationInfo {
        app: &rendered.app,
        owner: &waml.owner,
        slack: waml.slack.as_deref(),
        repository: &request.release.repository,
        forge_url,
        links: &waml.links,
        autoscaled: &rendered.autoscaled,
        flagger: &rendered.flagger,
    };
    let project = project::of_cluster(&rendered.target, source);
    DeploymentChange {
        revision: Revision {
            id: id.clone(),
            app: rendered.app.clone(),
            target: rendered.target.name.clone(),
            files: rendered.files.clone(),
            digest: rendered.digest.clone(),
        },
        application: Some(application::of_app(&info, &rendered.target, source)),
        project: project.map(|bytes| ProjectFile { bytes, follow: project::with_destinations }),
        parent: Some(application::of_cluster(&rendered.target, source)),
        note: Note {
            tag: request.release.tag.clone(),
            repository: request.release.repository.clone(),
            repository_number: request.identity.map(|identity| identity.repository),
            app_name: request.release.app.clone(),
            commit: request.release.commit.clone(),
            actor: request.actor.clone(),
            template: rendered.template.clone(),
            templates_commit: rendered.templates_commit.clone(),
            reason: request.description.clone(),
            fleet,
        },
        hand_edits: DriftPolicy::new(rendered.target.policies.hand_edits),
    }
}

impl Deployments {
    /// Fetches the WAML at the release's commit, not longer than the configured limit.
    pub(crate) async fn fetch_waml(
        &self,
        request: &DeploymentRequest,
    ) -> Result<RequestedWaml, DeployError> {
        let Release { repository, app, commit, .. } = &request.release;
        // All clusters of a fleet have the same repository.
        let clusters = self.clusters_of(&request.target);
        self.facts.prepare(clusters.first().unwrap_or(&request.target));
        let result = self.find_waml(repository, app.as_ref(), commit).await;
        result.map_err(|error| without_lag(error.into(), &self.forge))
    }

    /// Plans a deployment on one cluster, under that id, or returns the reason why not. Begins and ends its stages in
    /// `stages`. Of a fleet the place names the cluster.
    pub(super) async fn plan_cluster(
        &self,
        deployment: &Deployment,
        (id, place): (DeployId, Option<FleetPlace>),
        waml: WamlText,
        stages: &Stages,
    ) -> Result<WritablePlan, PlanError> {
        let source = self.manifests_of(&deployment.request.target)?;
        let is_part = place.is_some();
        let (rendered, waml, live) = self.compute_plan(deployment, place, waml, stages).await?;
        let (request, forge_url) = (&deployment.request, self.forge_url.as_deref());
        let fleet = is_part.then(|| (deployment.id.clone(), request.target.clone()));
        let write =
            build_change(&rendered, &waml, (&id, fleet), request, &source.source, forge_url);
        let routes = routes_of(&rendered.app, &rendered.files);
        Ok(WritablePlan {
            address: address(&routes),
            claims: Claims {
                routes: route_claims(routes, &live.routes),
                objects: object_claims(&rendered.files, &live.objects),
            },
            template: rendered.template,
            templates_commit: rendered.templates_commit,
            contact: Some(contact(&waml)),
            warnings: rendered.warnings,
            write: Box::new(write),
        })
    }

    /// Returns the push of an earlier attempt at this deployment, if there is one. Called where a
    /// push began and its result is unknown.
    pub(crate) async fn find_earlier_push(
        &self,
        deployment: &Deployment,
    ) -> Result<Option<(Pushed, Option<HandEdit>)>, DeployError> {
        if let Some(rollback) = &deployment.rollback {
            return self.find_earlier_restore(deployment, rollback).await;
        }
        let target = &deployment.request.target;
        let repository = &self.manifests_of(target)?.repository;
        let Some(app) = &deployment.app else { return Ok(None) };
        let folder = layout::revision_folder(target, app, &deployment.id).to_string();
        let files = repository.files(&folder).await?;
        let tip = repository.tip().await?;
        let Some((digest, commit)) = files::digest_of(&files).zip(tip) else { return Ok(None) };
        let files = files.into_iter().map(|file| file.name).collect();
        let pushed = Pushed { commit, changed: true, digest, files };
        Ok(Some((pushed, repository.replaced_edit(target, app, &deployment.id).await?)))
    }
}
