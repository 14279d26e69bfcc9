//! Deployments of all apps of a repository: one for each app, and one that says how those go.
//!
//! A request that names no app becomes such a deployment once its commit turns out to have files for each, be it for
//! one app alone: what its sender was told at first has its end under the same names. The deployments of the apps are
//! made in one transaction with that change, in the lanes of their apps and at the place of the request, so another
//! attempt, another worker or a restart makes no second ones. The request's own deployment waits until all of them
//! have an end: each end makes it due, in its own transaction (`followers.rs`).

use jiff::{SignedDuration, Timestamp};

use crate::model::app_progress::{AppsProgress, sum_up};
use crate::model::deploy_clock::{DeployMark, MarkTime};
use crate::model::deployment::{Deployment, State};
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, AppName, DeployId, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::rollback::provisional_number;
use crate::model::status::{ForgeStatus, one_line};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lane::LaneName;
use crate::store::lease::{Claim, LeaseState};
use crate::store::query::{Query, query};
use crate::store::row::{self, EVERY_APP, overview_columns};
use crate::store::write::WriteTransaction;
use crate::store::{inactive, intake, lane, mark_text};
use crate::support::time::saturating_add;

/// The longest time without a look at the deployments of the apps: each end of one makes the sum due.
const REST: SignedDuration = SignedDuration::from_mins(10);
/// The longest summary, in characters.
const LONGEST_SUMMARY: usize = 2000;

const SPLITTING: &str = "making the deployments of several apps";
const SUMMING: &str = "summing up the deployments of several apps";

/// The state of a deployment of all apps after a look at theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "another worker may have taken over"]
pub enum AppsTurn {
    /// An app's deployment goes on.
    Waiting,
    /// All have an end, and it has its own: `Succeeded` or `Failed`.
    Ended(State),
    /// Another worker took over.
    Lost,
}

impl Store {
    /// Returns the deployments of the apps of a deployment of all, by the names of the apps.
    pub async fn deployments_of_apps(
        &self,
        parent: &DeployId,
    ) -> Result<Vec<Deployment>, StoreError> {
        let rows = select_apps(parent).fetch_all(&self.readers, SUMMING).await?;
        rows.iter().map(row::overview).collect()
    }

    /// Returns the name of an app in its repository by the newest of its deployments to a target that was pushed: `None`
    /// inside for the only app of the repository, outside where there is no such deployment.
    pub async fn newest_app_name(
        &self,
        repository: &RepoName,
        (target, app): (&TargetName, &AppKey),
    ) -> Result<Option<Option<AppName>>, StoreError> {
        let sql = "SELECT id, repository, app_name FROM deployments WHERE target = $1 AND namespace = $2 \
             AND slug = $3 AND state = 'succeeded' ORDER BY id DESC LIMIT 1";
        let row =
            query(sql, (target, app)).first(&self.readers, "reading the name of an app").await?;
        let Some(row) = row else { return Ok(None) };
        let is_own = row.id::<RepoName>("repository")?.is_same(repository);
        if is_own { row::app_name(&row).map(Some) } else { Ok(None) }
    }

    /// Makes the deployments of the apps, under these ids, and ends the attempt: the claimed deployment is that of all apps
    /// from now on.
    ///
    /// # Errors
    /// [`StoreError::IdTaken`] means that the caller draws other ids; nothing was stored.
    pub async fn split(
        &self,
        claim: &Claim,
        apps: &[(DeployId, AppName)],
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let Deployment { id: parent, request, .. } = &claim.deployment;
        let mut write = self.begin_durable(SPLITTING).await?;
        lane::ensure(&mut write, &request.release.repository, &request.target);
        let sql = "UPDATE deployments SET app_name = $3, worker = NULL, due_at = $4, state = 'queued', \
             cluster_state = 'running' \
             WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL AND state = 'running' RETURNING id, place";
        let update = query(sql, (claim, EVERY_APP, now));
        let Some(row) = update.first(write.sql(), SPLITTING).await? else {
            // A dropped transaction releases the lanes only some time later.
            write.commit().await?;
            return Ok(LeaseState::Lost);
        };
        let place = row.number("place")?;
        for (id, app) in apps {
            let request = request_of(request, id, app);
            let delivery = format!("app/{parent}/{app}");
            let insert = intake::insert(&delivery, &request, id, (place, None), now);
            if insert.execute(write.sql(), SPLITTING).await? == 0 {
                return Err(StoreError::IdTaken(id.clone()));
            }
            write.later(query("UPDATE deployments SET parent = $2 WHERE id = $1", (id, parent)));
            self.enqueue_messages(&mut write, id, &ForgeStatus::queued(), now);
        }
        for (_, app) in apps {
            let lane = LaneName { app: app.to_string(), ..LaneName::of(request) };
            self.supersede_older(&mut write, &lane, now).await?;
        }
        let lane = LaneName { app: EVERY_APP.to_owned(), ..LaneName::of(request) };
        self.supersede_older(&mut write, &lane, now).await?;
        write.commit().await?;
        Ok(LeaseState::Held)
    }

    /// Sums up the deployments of the apps: ends the claimed one once all have an end, and ends the attempt.
    pub async fn follow_apps(&self, claim: &Claim, now: Timestamp) -> Result<AppsTurn, StoreError> {
        let Deployment { id, marks, .. } = &claim.deployment;
        let mut write = self.begin(SUMMING).await?;
        // Of an app that ends meanwhile, either its end is seen here, or it makes this deployment due again.
        let sql =
            "SELECT id FROM deployments WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL";
        let held = query(self.locking(sql, "FOR UPDATE"), claim);
        if held.first(write.sql(), SUMMING).await?.is_none() {
            // A dropped transaction ends only some time later.
            write.commit().await?;
            return Ok(AppsTurn::Lost);
        }
        let rows = select_apps(id).fetch_all(write.sql(), SUMMING).await?;
        let parts = rows.iter().map(row::overview).collect::<Result<Vec<_>, _>>()?;
        let progress = sum_up(&parts);
        let summary = one_line(&progress.summary, LONGEST_SUMMARY);
        let status = ForgeStatus::new(progress.forge_state(), &progress.news);
        let AppsProgress { end, .. } = progress;
        let Some(end) = end else {
            let sql = "UPDATE deployments SET worker = NULL, due_at = $3, summary = $4, state = 'queued', \
                 cluster_state = 'running' WHERE id = $1 AND attempts = $2";
            write.later(query(sql, (claim, saturating_add(now, REST), &summary)));
            if newest_words(&mut write, id).await?.as_deref() != Some(status.description()) {
                self.enqueue_change(&mut write, id, &status, now);
            }
            write.commit().await?;
            return Ok(AppsTurn::Waiting);
        };
        let mut marks = marks.clone();
        if end == State::Succeeded {
            marks.insert(MarkTime::of_service(DeployMark::Finished, now));
        }
        let sql = "UPDATE deployments SET worker = NULL, state = $3, cluster_state = NULL, finished_at = $4, \
             summary = $5, marks = $6, lapses = $7, errors = 0, warnings = 0 WHERE id = $1 AND attempts = $2";
        let lapses = mark_text::encode_lapses(&marks);
        let values = (claim, end.as_str(), now, &summary, mark_text::encode(&marks), lapses);
        query(sql, values).execute(write.sql(), SUMMING).await?;
        if end == State::Succeeded {
            let older = inactive::older(self, &claim.deployment).ask(write.sql(), SUMMING).await?;
            inactive::enqueue_replaced(self, &mut write, &claim.deployment, &older, now).await?;
        }
        self.enqueue_change(&mut write, id, &status, now);
        write.commit().await?;
        Ok(AppsTurn::Ended(end))
    }

    async fn supersede_older(
        &self,
        write: &mut WriteTransaction,
        name: &LaneName,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let lane = lane::read(write, name).await?;
        lane::supersede(self, write, &lane, &lane.next_turn(now).superseded, now).await
    }
}

/// Returns what the code host is told last of the deployment.
async fn newest_words(
    write: &mut WriteTransaction,
    id: &DeployId,
) -> Result<Option<String>, StoreError> {
    let sql = "SELECT deployment AS id, description FROM outbox \
         WHERE deployment = $1 AND sink = 'forge' ORDER BY seq DESC LIMIT 1";
    let row = query(sql, id).first(write.sql(), SUMMING).await?;
    row.map(|row| row.text("description")).transpose()
}

fn select_apps(parent: &DeployId) -> Query {
    let sql = concat!(
        "SELECT ",
        overview_columns!(),
        " FROM deployments WHERE parent = $1 ORDER BY app_name"
    );
    query(sql, parent)
}

/// Returns the request of one app's deployment.
fn request_of(request: &DeploymentRequest, id: &DeployId, app: &AppName) -> DeploymentRequest {
    DeploymentRequest {
        forge_id: provisional_number(id),
        release: Release { app: Some(app.clone()), ..request.release.clone() },
        ..request.clone()
    }
}
