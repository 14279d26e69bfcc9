//! A world in memory for the loops: a forge, a planner and a manifest repository with state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use the_deployer::controller::outside::{
    Delivered, Earlier, NotDelivered, NotPlanned, Outside, Planned, Problem, Remedy, Restored,
    Written, Wrote,
};
use the_deployer::controller::stages::Stages;
use the_deployer::model::claim::Claims;
use the_deployer::model::deployment::{Deployment, ForgeState, Pushed, Stage};
use the_deployer::model::event::DeploymentRequest;
use the_deployer::model::id::{AppKey, CommitSha, DeployId, Namespace, Slug};
use the_deployer::model::notice::Family;
use the_deployer::model::revision::{Digest, ManifestFile, Revision};
use the_deployer::model::rollback::Rollback;
use the_deployer::model::violation::Violation;
use the_deployer::store::Message;
use the_deployer::support::lease::Lease;
use tokio::sync::Notify;

/// Where a job can be held up; to drop it there is a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    Fetch,
    Plan,
    BeforeWrite,
    AfterWrite,
    BeforeReport,
    AfterReport,
}

/// Everything that jobs see of the world, and what they did to it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct World {
    state: Arc<Mutex<State>>,
    reached: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[derive(Default)]
pub(crate) struct State {
    /// What every reading fails with.
    pub(crate) forge_down: Option<Remedy>,
    /// What every report fails with.
    pub(crate) reports_refused: Option<Remedy>,
    /// How often a report was refused.
    pub(crate) refused: usize,
    /// Who does not answer to reports.
    pub(crate) down: Vec<Family>,
    /// Deployments that may not be told of before that time.
    pub(crate) not_before: BTreeMap<i64, Timestamp>,
    /// Deployments that a sender with a fault panics at.
    pub(crate) unspeakable: BTreeSet<i64>,
    /// What every push fails with.
    pub(crate) push_refused: Option<Remedy>,
    /// Deployments whose WAML breaks a rule.
    pub(crate) broken: BTreeSet<i64>,
    /// Deployments that a planner with a fault panics at.
    pub(crate) cursed: BTreeSet<i64>,
    /// Deployments that render to the same, whatever their tag.
    pub(crate) alike: BTreeSet<i64>,
    /// The deployments that were pushed, in order.
    pub(crate) pushed: Vec<(DeployId, String, i64)>,
    /// What the forge was told.
    pub(crate) told: Vec<(i64, ForgeState, String)>,
    latest: BTreeMap<String, Digest>,
    hold: Option<Point>,
}

impl World {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The next job that comes to the point waits there.
    pub(crate) fn hold_at(&self, point: Point) {
        self.lock().hold = Some(point);
    }

    /// A job waits at the point.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// The job that waits goes on.
    pub(crate) fn go_on(&self) {
        self.go_on.notify_one();
    }

    /// The forge's numbers of what was pushed, in order.
    pub(crate) fn pushes(&self) -> Vec<i64> {
        self.lock().pushed.iter().map(|(_, _, forge_id)| *forge_id).collect()
    }

    /// What the forge was told of one deployment.
    pub(crate) fn told(&self, forge_id: i64) -> Vec<ForgeState> {
        let state = self.lock();
        state.told.iter().filter(|told| told.0 == forge_id).map(|told| told.1).collect()
    }

    async fn point(&self, point: Point) {
        let held = self.lock().hold.take_if(|hold| *hold == point).is_some();
        if held {
            self.reached.notify_one();
            self.go_on.notified().await;
        }
    }
}

impl State {
    fn may_be_told(&mut self, message: &Message) -> Result<(), NotDelivered> {
        let down = self.down.contains(&message.sink.family());
        let down = down.then_some(Remedy::Retry { after: None });
        let refused = problem(self.reports_refused.or(down), "no right to write statuses");
        self.refused += usize::from(refused.is_err());
        refused.map_err(|problem| NotDelivered { problem, unsure: false })
    }

    fn plan(&self, deployment: &Deployment) -> Result<Planned<()>, NotPlanned> {
        let DeploymentRequest { forge_id, release, target, .. } = &deployment.request;
        let app = AppKey {
            namespace: Namespace::parse("shop").unwrap(),
            slug: Slug::parse(release.repository.name()).unwrap(),
        };
        if self.broken.contains(forge_id) {
            let rejection = Violation::error("ports-map", "port 80 is not served").into();
            return Err(NotPlanned::Rejected {
                rejection,
                app: Some(app),
                template: None,
                templates_commit: None,
                contact: None,
            });
        }
        let text = if self.alike.contains(forge_id) { "alike" } else { release.tag.as_str() };
        let files = vec![ManifestFile { name: "deployment.yaml".to_owned(), bytes: text.into() }];
        let revision = Revision {
            id: deployment.id.clone(),
            app,
            target: target.clone(),
            files,
            digest: Digest(format!("sha256:{text}")),
        };
        Ok(Planned {
            revision,
            template: "backend@latest".to_owned(),
            templates_commit: None,
            contact: None,
            address: None,
            claims: Claims::default(),
            warnings: vec![],
            extra: (),
        })
    }

    fn write(&mut self, deployment: &Deployment, revision: &Revision) -> Written {
        let lane = lane(deployment);
        if let Some(commit) = self.commit_of(&deployment.id) {
            return Written::AlreadyPushed { commit };
        }
        if self.latest.get(&lane) == Some(&revision.digest) {
            return Written::Unchanged { commit: commit(0) };
        }
        self.latest.insert(lane.clone(), revision.digest.clone());
        self.pushed.push((deployment.id.clone(), lane, deployment.request.forge_id));
        Written::Pushed { commit: commit(self.pushed.len()) }
    }

    fn restore(&mut self, deployment: &Deployment, rollback: &Rollback) -> CommitSha {
        if let Some(commit) = self.commit_of(&deployment.id) {
            return commit;
        }
        let lane = lane(deployment);
        self.latest.insert(lane.clone(), Digest(rollback.tree.to_string()));
        self.pushed.push((deployment.id.clone(), lane, deployment.request.forge_id));
        commit(self.pushed.len())
    }

    fn commit_of(&self, id: &DeployId) -> Option<CommitSha> {
        self.pushed.iter().position(|(pushed, _, _)| pushed == id).map(|at| commit(at + 1))
    }
}

impl Outside for World {
    type Extra = ();

    async fn waml(&self, _request: &DeploymentRequest) -> Result<Vec<u8>, Problem> {
        self.point(Point::Fetch).await;
        problem(self.lock().forge_down, "the forge does not answer")?;
        Ok(b"schema: \"2\"".to_vec())
    }

    async fn plan(
        &self,
        deployment: &Deployment,
        _waml: Vec<u8>,
        stages: &Stages,
    ) -> Result<Planned<()>, NotPlanned> {
        self.point(Point::Plan).await;
        let _going = stages.begin(Stage::Render);
        let cursed = self.lock().cursed.contains(&deployment.request.forge_id);
        assert!(!cursed, "a fault in the planner");
        self.lock().plan(deployment)
    }

    async fn write(
        &self,
        deployment: &Deployment,
        planned: Planned<()>,
        _at: Timestamp,
        _lease: &Lease,
    ) -> Wrote {
        self.point(Point::BeforeWrite).await;
        if let Err(problem) = problem(self.lock().push_refused, "the branch is protected") {
            return Wrote { ended: Err(problem), hand_edit: None };
        }
        let written = self.lock().write(deployment, &planned.revision);
        self.point(Point::AfterWrite).await;
        Wrote { ended: Ok(written), hand_edit: None }
    }

    async fn rollback_claims(
        &self,
        _deployment: &Deployment,
        _rollback: &Rollback,
    ) -> Result<Claims, Problem> {
        Ok(Claims::default())
    }

    async fn roll_back(
        &self,
        deployment: &Deployment,
        rollback: &Rollback,
        _at: Timestamp,
        _lease: &Lease,
    ) -> Restored {
        self.point(Point::BeforeWrite).await;
        if let Err(problem) = problem(self.lock().push_refused, "the branch is protected") {
            return Restored { ended: Err(problem), hand_edit: None };
        }
        let commit = self.lock().restore(deployment, rollback);
        self.point(Point::AfterWrite).await;
        let digest = Digest(rollback.tree.to_string());
        let pushed = Pushed { commit, changed: true, digest, files: vec![] };
        Restored { ended: Ok(pushed), hand_edit: None }
    }

    async fn pushed(&self, deployment: &Deployment) -> Result<Option<Earlier>, Problem> {
        let commit = self.lock().commit_of(&deployment.id);
        let pushed = commit.map(|commit| Pushed {
            commit,
            changed: true,
            digest: self.lock().latest[&lane(deployment)].clone(),
            files: vec!["deployment.yaml".to_owned()],
        });
        Ok(pushed.map(|pushed| Earlier { pushed, hand_edit: None }))
    }

    async fn tell(&self, message: &Message, now: Timestamp) -> Result<Delivered, NotDelivered> {
        self.point(Point::BeforeReport).await;
        self.lock().may_be_told(message)?;
        if let Some(at) = self.lock().not_before.get(&message.forge_id).filter(|at| **at > now) {
            return Ok(Delivered::Later { at: *at });
        }
        let unspeakable = self.lock().unspeakable.contains(&message.forge_id);
        assert!(!unspeakable, "a fault in a sender");
        let Message { forge_id, status, .. } = message;
        let news = (*forge_id, status.state, status.description().to_owned());
        let there = message.unsure && self.lock().told.contains(&news);
        if !there {
            self.lock().told.push(news);
        }
        self.point(Point::AfterReport).await;
        Ok(Delivered::Yes { reference: None })
    }
}

fn lane(deployment: &Deployment) -> String {
    format!("{} {}", deployment.request.release.repository, deployment.request.target)
}

fn commit(n: usize) -> CommitSha {
    CommitSha::parse(format!("{n:040x}")).unwrap()
}

fn problem(remedy: Option<Remedy>, message: &str) -> Result<(), Problem> {
    remedy.map_or(Ok(()), |remedy| Err(Problem { remedy, message: message.to_owned() }))
}
