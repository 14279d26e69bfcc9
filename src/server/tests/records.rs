//! What the backend has of deployments and apps.

use jiff::Timestamp;
use tokio::sync::watch;

use super::world::{Fake, now};
use crate::model::deployment::{Deployment, ForgeState, Pushed, Stage, StageTime, State};
use crate::model::hand_edit::{EditCommit, Edited, EditedFile, HandEdit};
use crate::model::id::{CommitSha, DeployId};
use crate::model::lock::{Lock, LockId, LockScope};
use crate::model::placed::{Placed, Spot};
use crate::model::revision::{Digest, ManifestFile};
use crate::model::rollback::{Hold, Rollback, TreeId};
use crate::model::violation::{Position, Violation};
use crate::pipeline::diff::{Change, How};
use crate::server::ports::{
    App, AppNow, Fault, History, NotShown, Page, Query, Records, Revision, RevisionFiles,
    StatusRecord, Synced,
};

impl Records for Fake {
    async fn deployments(&self, query: &Query) -> Result<Page, Fault> {
        self.trouble().await?;
        let Query { target, repository, state, app, actor, tag, forge_id, before, limit, .. } =
            query;
        let inner = self.inner.lock().unwrap();
        let passes = |d: &&Deployment| {
            target.as_ref().is_none_or(|t| *t == d.request.target)
                && repository.as_ref().is_none_or(|r| *r == d.request.release.repository)
                && state.is_none_or(|s| s == d.state)
                && (app.is_none() || *app == d.app)
                && actor.as_ref().is_none_or(|a| *a == d.request.actor)
                && tag.as_ref().is_none_or(|t| *t == d.request.release.tag)
                && forge_id.is_none_or(|n| n == d.request.forge_id)
                && before.as_ref().is_none_or(|b| d.id < *b)
        };
        let all = inner.stored.iter().rev().map(|(_, d)| d).filter(passes).cloned();
        let mut deployments: Vec<_> = all.collect();
        let more = deployments.len() > *limit as usize;
        deployments.truncate(*limit as usize);
        let next = deployments.last().filter(|_| more).map(|d| d.id.clone());
        Ok(Page { deployments, next })
    }

    async fn deployment(
        &self,
        id: &DeployId,
    ) -> Result<Option<(Deployment, Vec<StatusRecord>)>, Fault> {
        self.trouble().await?;
        let inner = self.inner.lock().unwrap();
        let found = inner.stored.iter().map(|(_, d)| d).find(|d| d.id == *id);
        let told = StatusRecord {
            state: ForgeState::Queued,
            description: "waiting for a worker".to_owned(),
            at: now(),
            sent_at: None,
            parked: None,
            skipped: None,
        };
        Ok(found.map(|d| (d.clone(), vec![told])))
    }

    async fn version(&self, id: &DeployId) -> Result<Option<String>, Fault> {
        Ok(self.picture(id).await?.map(|deployment| format!("{deployment:?}")))
    }

    async fn picture(&self, id: &DeployId) -> Result<Option<Deployment>, Fault> {
        Ok(self.deployment(id).await?.map(|(found, _)| found))
    }

    async fn changes(&self, deployment: &Deployment) -> Option<Vec<Change>> {
        deployment.pushed.as_ref()?;
        let diff = "-replicas: 1\n+replicas: 2\n".to_owned();
        let (kind, name) = ("Deployment".to_owned(), "shop".to_owned());
        Some(vec![Change {
            kind,
            name,
            how: How::Changed,
            fields: Vec::new(),
            more_fields: 0,
            diff,
        }])
    }

    fn page_of(&self, id: &DeployId) -> String {
        format!("https://deployer.example.com/deployments/{id}")
    }

    fn bell(&self) -> watch::Receiver<()> {
        self.bell.subscribe()
    }
}

impl App for Fake {
    async fn app(&self, spot: &Spot) -> Result<Option<AppNow>, NotShown> {
        self.trouble().await?;
        let found = self.inner.lock().unwrap().app.clone();
        Ok(found.filter(|now| now.placed.as_ref().is_some_and(|placed| placed.spot == *spot)))
    }

    async fn history(&self, spot: &Spot) -> Result<Option<History>, NotShown> {
        let found = self.app(spot).await?;
        Ok(found.map(|now| History {
            revisions: now.live.into_iter().collect(),
            hand_edited: now.hand_edited,
        }))
    }

    async fn revision(
        &self,
        spot: &Spot,
        id: &DeployId,
    ) -> Result<Option<RevisionFiles>, NotShown> {
        let live = self.app(spot).await?.and_then(|now| now.live);
        let file = |name: &str, text: &str| ManifestFile {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        let service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: shop\n";
        let secret =
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop\nstringData:\n  a: hunter2\n";
        Ok(live.filter(|live| live.id == *id).map(|revision| RevisionFiles {
            revision,
            files: vec![file("secret.yaml", secret), file("service.yaml", service)],
            changes: Some(Vec::new()),
        }))
    }
}

/// An id of that number.
pub(super) fn id(n: u32) -> DeployId {
    DeployId::parse(format!("20261121-{n:09}-abcdef")).unwrap()
}

/// Everything that a record can have, as it is when it has ended well.
pub(super) fn ended(mut deployment: Deployment) -> Deployment {
    let commit = CommitSha::parse("c".repeat(40)).unwrap();
    deployment.state = State::Succeeded;
    deployment.app = Some(spot().app);
    deployment.finished_at = Some(now());
    deployment.summary = "1.10 is on prod".to_owned();
    deployment.attempts = 1;
    deployment.template = Some("backend-default@latest".to_owned());
    deployment.stages = vec![StageTime { stage: Stage::Fetch, micros: 61_290 }];
    let position = Position { file: ".weave.yaml".into(), line: 3, column: 5, length: 2 };
    deployment.violations =
        vec![Violation::warning("slo", "no SLO").at("slo", Some(position)).help("set `slo`")]
            .into();
    deployment.pushed = Some(Pushed {
        commit: commit.clone(),
        changed: true,
        digest: Digest("sha256:ab".to_owned()),
        files: vec!["service.yaml".to_owned()],
    });
    deployment.hand_edit = Some(HandEdit {
        replaced: true,
        push_failed: false,
        base: Some(id(1)),
        files: vec![EditedFile { name: "service.yaml".to_owned(), how: Edited::Changed }],
        diff: "-a\n+b\n".to_owned(),
        commit: Some(EditCommit { id: commit, author: "Jo".to_owned(), at: now() }),
    });
    deployment
}

pub(super) fn spot() -> Spot {
    Spot::parse("prod/devx/shop").unwrap()
}

/// The same as a rollback.
fn rolled_back(mut deployment: Deployment) -> Deployment {
    deployment.rollback = Some(Rollback {
        with_data: false,
        with_fewer_pods: false,
        to: id(7),
        from: Some(id(8)),
        away: None,
        tree: TreeId("d".repeat(40)),
        reason: "1.11 loses orders".to_owned(),
        hold: true,
    });
    deployment
}

fn hold() -> Hold {
    Hold {
        target: spot().target,
        app: spot().app,
        by: "ann".to_owned(),
        reason: "1.11 loses orders".to_owned(),
        since: now(),
        rollback: Some(id(9)),
        away: None,
        to: Some("1.10".parse().unwrap()),
    }
}

/// An app with everything that one can have.
pub(super) fn app_now(last: Deployment) -> AppNow {
    let lock = |scope| Lock {
        scope,
        reason: "the books are closed".to_owned(),
        by: "Jo".to_owned(),
        since: now(),
        until: None::<Timestamp>,
    };
    let scopes = [
        LockScope::Everything,
        LockScope::Target(spot().target),
        LockScope::Owner("squad@example.com".to_owned()),
        LockScope::App(spot().target, spot().app),
    ];
    let locks = scopes.into_iter().map(|scope| (LockId::parse("0123abcd").unwrap(), lock(scope)));
    AppNow {
        placed: Some(Placed {
            spot: spot(),
            live: Some(id(7)),
            hosts: ["shop.example.com".to_owned()].into(),
            owner: Some("squad@example.com".to_owned()),
            repository: Some("acme/shop".parse().unwrap()),
        }),
        live: Some(Revision {
            id: id(7),
            tree: "d".repeat(40),
            live: true,
            tag: Some("1.10".parse().unwrap()),
            commit: None,
            repository: Some("acme/shop".parse().unwrap()),
            actor: Some("octo-dev".to_owned()),
            reason: None,
            at: Some(now()),
            template: Some("backend-default@latest".to_owned()),
            digest: Some(Digest("sha256:ab".to_owned())),
            rolled_back: None,
        }),
        rollback: Some(rolled_back(last.clone())),
        hand_edited: false,
        under_way: vec![last.clone()],
        last: Some(last),
        locks: locks.collect(),
        hold: Some(hold()),
        sync: Synced::GivenUp("no token".to_owned()),
    }
}
