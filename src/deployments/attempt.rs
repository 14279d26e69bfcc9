//! One attempt at a deployment: its WAML is fetched, it is planned, and the plan is written.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::outcome::{Earlier, NotPlanned, Planned, Problem, Ready, Remedy, Wrote};
use crate::deployments::planners::given_up;
use crate::deployments::push::Change;
use crate::deployments::stages::Stages;
use crate::deployments::{Deployments, Manifests, problem, push, rollback};
use crate::forge::Forge;
use crate::git::layout;
use crate::git::writer::Written;
use crate::manifests::files;
use crate::manifests::parse::names::Interned;
use crate::manifests::parse::{names, routes};
use crate::model::claim::{self, Claims, ObjectClaim};
use crate::model::deployment::{Contact, Deployment, Pushed, Stage};
use crate::model::event::{DeploymentRequest, RepositoryIdentity};
use crate::model::facts::{Fact, Facts, LiveObject, Questions};
use crate::model::id::{AppKey, CommitSha, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::route::{self, Route, RouteClaim};
use crate::model::violation::Rejection;
use crate::pipeline;
use crate::pipeline::render::Rendered;
use crate::pipeline::{Input, questions};
use crate::support::lease::Lease;
use crate::support::secret_mask::mask_secrets;
use crate::waml::Waml;

/// A manifest host that takes longer to say that it is there is left to the push.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

impl Deployments {
    pub(super) fn manifests_of(&self, target: &TargetName) -> Result<&Manifests, Problem> {
        let found = self.manifests.iter().find(|one| one.targets.is_match(target.as_str()));
        found.ok_or_else(|| Problem {
            remedy: Remedy::GiveUp,
            message: format!(
                "no manifest repository is configured for {target}: add it to the `targets` of one under manifests.repositories"
            ),
        })
    }

    /// What the code host knows a deployment's repository by, where an event has said it.
    pub(super) async fn identity_of(
        &self,
        deployment: &Deployment,
    ) -> Result<Option<RepositoryIdentity>, Problem> {
        let found = self.store.repository_identity(&deployment.request.release.repository).await;
        found.map_err(|error| Problem {
            remedy: Remedy::Retry { after: None },
            message: format!("which repository it is cannot be read: {error}"),
        })
    }

    /// Plans on threads of its own, with an end: what a template computes cannot be interrupted. With
    /// what the app has now.
    async fn planned(
        &self,
        deployment: &Deployment,
        waml: Vec<u8>,
        stages: &Stages,
    ) -> Result<(Rendered, Arc<Waml>, LiveClaims), NotPlanned> {
        let going = stages.begin(Stage::Facts);
        let (this, request) = (self.clone(), deployment.request.clone());
        let read = self.planners.beside(move || this.read(&request, &waml)).await;
        let (input, questions) = read.map_err(NotPlanned::Problem)??;
        let asked = questions.is_some();
        let facts = match questions {
            Some(questions) => self.facts.gather(&questions, self.clusters.clone()).await,
            None => Facts::unasked(self.clock.now(), self.clusters.clone()),
        };
        if matches!(facts.live, Fact::Missing { .. }) {
            self.can_be_written(&deployment.request.target).await?;
        }
        drop(going);
        let live = LiveClaims::of(&facts);
        let stages = stages.clone();
        let planned = self.planners.beside(move || plan_now(&input, &facts, &stages)).await;
        let (rendered, waml) = planned.map_err(NotPlanned::Problem)??;
        if asked { Ok((rendered, waml, live)) } else { Err(unasked()) }
    }

    /// A manifest repository that cannot be read cannot be written to either: it is waited for, as
    /// for a push, and the deployment does not fail for want of facts.
    async fn can_be_written(&self, target: &TargetName) -> Result<(), NotPlanned> {
        let repository = &self.manifests_of(target).map_err(NotPlanned::Problem)?.repository;
        match tokio::time::timeout(LONGEST_LOOK, repository.ready()).await {
            Ok(Err(error)) => Err(NotPlanned::Problem(problem::of_write(&error))),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }

    /// The WAML, and what there is to ask because of it.
    fn read(
        &self,
        request: &DeploymentRequest,
        bytes: &[u8],
    ) -> Result<(Input, Option<Questions>), NotPlanned> {
        let waml = self.parse(bytes).map_err(|rejection| {
            let all = self.all_violations(rejection, bytes, Some(&request.target));
            rejected(all, None, None)
        })?;
        let input = Input {
            waml: Arc::new(waml),
            target: request.target.clone(),
            release: request.release.clone(),
            templates: self.templates.now(),
        };
        let questions =
            questions::of(&input, &self.clusters).map(|questions| asked_by(request, questions));
        Ok((input, questions))
    }
}

/// Who asks is nothing of the WAML.
fn asked_by(request: &DeploymentRequest, questions: Questions) -> Questions {
    let (automatic, actor) = (request.automatic, Some(request.actor.clone()));
    Questions { automatic, actor, ..questions }
}

fn plan_now(
    input: &Input,
    facts: &Facts,
    stages: &Stages,
) -> Result<(Rendered, Arc<Waml>), NotPlanned> {
    let mut going = Some(stages.begin(Stage::Merge));
    let rendered = pipeline::plan_observed(input, facts, &mut |finished| {
        going.take();
        going = next(finished).map(|stage| stages.begin(stage));
    });
    drop(going);
    match rendered {
        Ok(rendered) => Ok((rendered, input.waml.clone())),
        Err(rejection) => {
            Err(rejected(rejection, Some(&input.waml), input.templates.commit.clone()))
        }
    }
}

/// The stage of planning that follows.
fn next(finished: Stage) -> Option<Stage> {
    match finished {
        Stage::Merge => Some(Stage::Default),
        Stage::Default => Some(Stage::Validate),
        Stage::Validate => Some(Stage::Render),
        Stage::Queue | Stage::Fetch | Stage::Facts | Stage::Render | Stage::Push => None,
    }
}

fn rejected(
    rejection: Rejection,
    waml: Option<&Waml>,
    templates_commit: Option<CommitSha>,
) -> NotPlanned {
    let app = waml.map(|waml| waml.app.clone());
    let contact = waml.map(contact);
    NotPlanned::Rejected { rejection, app, template: None, templates_commit, contact }
}

fn contact(waml: &Waml) -> Contact {
    let Waml { name, owner, slack, successes, .. } = waml;
    Contact {
        name: name.clone(),
        owner: owner.clone(),
        // An incoming webhook may stand there by mistake.
        slack: slack.as_deref().map(|slack| mask_secrets(slack).into_owned()),
        successes: *successes,
    }
}

/// The first host that the manifests route to it; one with a star leads nowhere.
fn address(routes: &[Route]) -> Option<String> {
    let route = routes.iter().find(|route| !route.host.contains('*'))?;
    Some(format!("https://{}{}", route.host, route.path))
}

/// What an app has on a target already, of what only one app may have.
#[derive(Default)]
struct LiveClaims {
    routes: Vec<Route>,
    objects: Vec<LiveObject>,
}

impl LiveClaims {
    fn of(facts: &Facts) -> Self {
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

/// The claims on the objects of an app's files, beside what the app has already.
pub(super) fn object_claims(files: &[ManifestFile], live: &[LiveObject]) -> Vec<ObjectClaim> {
    let mut interned = Interned::default();
    let live = names::names(live, &mut interned);
    let (objects, _) = names::objects(files);
    claim::object_claims(&names::names(&objects, &mut interned), &live)
}

/// The routes that an app's files make live. Those that can be read: others are not ours.
pub(super) fn routes_of(app: &AppKey, files: &[ManifestFile]) -> Vec<Route> {
    let routing = files.iter().filter(|file| routes::can_be_in(&file.name));
    routes::of(app, &routing.cloned().collect::<Vec<_>>()).found
}

/// The same as they are claimed; `live` are those that the app has already.
pub(super) fn route_claims(routes: Vec<Route>, live: &[Route]) -> Vec<RouteClaim> {
    let claim = |Route { host, path, .. }: Route| {
        let claim = RouteClaim { host, path, live: false };
        RouteClaim { live: route::is_among(&claim, live), ..claim }
    };
    routes.into_iter().map(claim).collect()
}

/// Nothing is asked where a rule refuses the WAML anyway. If none did, locks and owners must not be
/// passed by unasked.
fn unasked() -> NotPlanned {
    let message = "no rule refused what nobody could ask about: a fault in the-deployer itself";
    NotPlanned::Problem(given_up(message.to_owned()))
}

impl Deployments {
    /// The bytes of the WAML at the release's commit, not longer than the configured limit.
    pub(crate) async fn fetch_waml(&self, request: &DeploymentRequest) -> Result<Vec<u8>, Problem> {
        let release = &request.release;
        let (path, limit) = (&self.waml.path, self.waml.max_bytes);
        self.facts.prepare(&request.target);
        let read = self.forge.file(&release.repository, &release.commit, path, limit).await;
        let problem = match &self.forge {
            Forge::Local(_) => problem::of_local,
            Forge::GitHub(_) => problem::of_forge,
        };
        read.map_err(|error| problem(&error))
    }

    /// What would be deployed, or why not. Begins and ends its stages in `stages`.
    pub(crate) async fn plan_attempt(
        &self,
        deployment: &Deployment,
        waml: Vec<u8>,
        stages: &Stages,
    ) -> Result<Planned, NotPlanned> {
        let source = self.manifests_of(&deployment.request.target).map_err(NotPlanned::Problem)?;
        let on_its_way = source.repository.announce(&deployment.request.release);
        let (rendered, waml, live) = self.planned(deployment, waml, stages).await?;
        let identity = self.identity_of(deployment).await.map_err(NotPlanned::Problem)?;
        let request = DeploymentRequest { identity, ..deployment.request.clone() };
        let change = Change::new(
            &rendered,
            &waml,
            &deployment.id,
            &request,
            &source.source,
            self.forge_url.as_deref(),
        );
        let routes = routes_of(&rendered.app, &rendered.files);
        Ok(Planned {
            revision: change.revision().clone(),
            address: address(&routes),
            claims: Claims {
                routes: route_claims(routes, &live.routes),
                objects: object_claims(&rendered.files, &live.objects),
            },
            template: rendered.template,
            templates_commit: rendered.templates_commit,
            contact: Some(contact(&waml)),
            warnings: rendered.warnings,
            extra: Box::new(Ready { change, on_its_way }),
        })
    }

    /// Puts the plan into the manifest repository, unless the lease has ended. A deploy id that is
    /// there already is not pushed again. What somebody had edited by hand there is told, whatever became of the write.
    pub(crate) async fn write_plan(
        &self,
        deployment: &Deployment,
        planned: Planned,
        at: Timestamp,
        lease: &Lease,
    ) -> Wrote {
        let manifests = match self.manifests_of(&deployment.request.target) {
            Ok(manifests) => manifests,
            Err(problem) => return Wrote { ended: Err(problem), hand_edit: None },
        };
        let Ready { change, on_its_way } = *planned.extra;
        let (written, edit) =
            push::push(&manifests.repository, change, at, lease, on_its_way).await;
        if matches!(written, Ok(Written::Pushed { .. })) {
            self.facts.pushed();
        }
        let ended = written.map_err(|error| problem::of_write(&error));
        if let Some(edit) = &edit {
            let (id, replaced) = (&deployment.id, edit.replaced);
            tracing::warn!(
                deployment = %id, replaced, push_failed = edit.push_failed, %edit,
                "somebody had edited manifests by hand"
            );
        }
        Wrote { ended, hand_edit: edit.map(Box::new) }
    }

    /// What an earlier attempt has pushed for this deployment, if it has. Asked where a push
    /// was begun and nobody knows how it ended.
    pub(crate) async fn find_earlier_push(
        &self,
        deployment: &Deployment,
    ) -> Result<Option<Earlier>, Problem> {
        if let Some(rollback) = &deployment.rollback {
            return rollback::pushed(self, deployment, rollback).await;
        }
        let target = &deployment.request.target;
        let repository = &self.manifests_of(target)?.repository;
        let Some(app) = &deployment.app else { return Ok(None) };
        let failed = |error| problem::of_write(&error);
        let folder = layout::revision_folder(target, app, &deployment.id).to_string();
        let files = repository.files(&folder).await.map_err(failed)?;
        let tip = repository.tip().await.map_err(failed)?;
        let Some((digest, commit)) = files::digest_of(&files).zip(tip) else { return Ok(None) };
        let files = files.into_iter().map(|file| file.name).collect();
        let pushed = Pushed { commit, changed: true, digest, files };
        let edit = repository.replaced_edit(target, app, &deployment.id).await.map_err(failed)?;
        Ok(Some(Earlier { pushed, hand_edit: edit.map(Box::new) }))
    }
}
