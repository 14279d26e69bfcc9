//! The rollback of a deployment that failed in its cluster: requested in the transaction that records the failure.
//!
//! The decision was made before, by what the manifest repository had; here it is refused where something has come
//! between. A rollback names the deployment that it takes back in its delivery, which is unique: there is never a second
//! one of the same failure.

use jiff::Timestamp;

use crate::model::audit::AuditRecord;
use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, RepoName, TargetName};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lane::LaneName;
use crate::store::query::query;
use crate::store::rollbacks::{NewRollback, undo_delivery};
use crate::store::row::{self, overview_columns};
use crate::store::write::WriteTransaction;
use crate::store::{audit, lane, removals};

/// The decision on a deployment that fails in its cluster, where the policy is to roll back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureUndo {
    /// It is rolled back, unless something comes between.
    Rollback(Box<UndoRequest>),
    /// It is not, for this reason, a clause for people.
    Refused(String),
}

/// A rollback by the service, with its entry in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoRequest {
    /// The rollback.
    pub rollback: NewRollback,
    /// The entry.
    pub entry: AuditRecord,
}

/// What becomes of a failure.
pub(super) struct AdmittedUndo<'a> {
    /// The clause for people.
    pub(super) note: String,
    /// The rollback to store.
    pub(super) request: Option<&'a UndoRequest>,
}

const DOING: &str = "requesting the rollback of a failed deployment";

impl Store {
    /// Returns the rollback by which the service took a failed deployment back.
    pub async fn undo_of(&self, failed: &DeployId) -> Result<Option<Deployment>, StoreError> {
        let sql = concat!("SELECT ", overview_columns!(), " FROM deployments WHERE delivery = $1");
        let row =
            query(sql, undo_delivery(failed)).first(&self.readers, "reading a rollback").await?;
        row.as_ref().map(row::overview).transpose()
    }

    /// Stores the rollback and its entry in the audit log.
    pub(super) async fn request_undo(
        &self,
        write: &mut WriteTransaction,
        request: &UndoRequest,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.enqueue(write, &request.rollback, now).await?;
        audit::note(write, &request.entry).await
    }
}

/// Locks the lanes of all rollbacks that are decided on, in the order in which every transaction locks several lanes,
/// and before any deployment.
pub(super) fn lock_lanes<'a>(
    write: &mut WriteTransaction,
    decisions: impl Iterator<Item = &'a FailureUndo>,
) {
    let mut lanes: Vec<(&RepoName, &TargetName)> = decisions
        .filter_map(|decision| match decision {
            FailureUndo::Rollback(request) => {
                let new = &request.rollback.request;
                Some((&new.release.repository, &new.target))
            }
            FailureUndo::Refused(_) => None,
        })
        .collect();
    lanes.sort_by_key(|(repository, target)| (repository.to_string(), target.as_str()));
    for (repository, target) in lanes {
        lane::ensure(write, repository, target);
    }
}

/// Decides what becomes of a failure now; the lane of the rollback must be locked. A newer deployment that waits or runs
/// takes its place, and nobody asked for a rollback before it.
pub(super) async fn admit<'a>(
    write: &mut WriteTransaction,
    undo: &'a FailureUndo,
    failed: &DeployId,
    now: Timestamp,
) -> Result<AdmittedUndo<'a>, StoreError> {
    let refused =
        |reason: &str| AdmittedUndo { note: format!("not rolled back: {reason}"), request: None };
    let request = match undo {
        FailureUndo::Rollback(request) => request,
        FailureUndo::Refused(reason) => return Ok(refused(reason)),
    };
    let NewRollback { id, request: new, app, .. } = &request.rollback;
    let repository = &new.release.repository;
    let own_lane = LaneName::of(new);
    let acts = removals::select_blocking_app(&new.target, app, now);
    if acts.first(write.sql(), DOING).await?.is_some() {
        return Ok(refused(&format!("{app} is being removed")));
    }
    let lane = lane::read_app(write, &own_lane, app).await?;
    if let Some(newest) = lane.open.iter().map(|entry| &entry.place).max() {
        return Ok(refused(&format!("deployment {} is under way", newest.id)));
    }
    // Of a part, its fleet's deployment is taken back: once, though several clusters may fail.
    let failed = request.rollback.rollback.undoes.as_ref().unwrap_or(failed);
    let sql = "SELECT id, repository FROM deployments WHERE id = $1 OR delivery = $2";
    let rows = query(sql, (failed, undo_delivery(failed))).fetch_all(write.sql(), DOING).await?;
    for row in rows {
        let one: DeployId = row.id("id")?;
        if one != *failed {
            return Ok(refused(&format!("rollback {one} was its rollback")));
        }
        if row.id::<RepoName>("repository")? != *repository {
            return Ok(refused("its repository was renamed at the same moment"));
        }
    }
    let note = format!("it is being rolled back to {} by rollback {id}", new.release.tag);
    Ok(AdmittedUndo { note, request: Some(request) })
}
