//! One attempt at one rollback: ask for the turn, push. Nothing is fetched and nothing is planned, so
//! neither the forge nor the templates are needed. What its revision routes may be another app's by now:
//! that is looked at.

use crate::controller::job::Leased;
use crate::controller::jobs::deploy::Stop;
use crate::controller::{Parts, outcome};
use crate::deployments::outcome::{Problem, Remedy, Restored, object_taken, route_taken};
use crate::deployments::stages::Stages;
use crate::model::deployment::Stage;
use crate::model::lock::Lock;
use crate::model::rollback::Rollback;
use crate::store::{ClaimConflict, Ending, Findings, PushTurn};

/// Makes the attempt.
pub(in crate::controller) async fn forward(
    parts: &Parts,
    leased: &Leased,
    rollback: &Rollback,
    stages: &Stages,
    known: &mut Findings,
) -> Result<Ending, Stop> {
    let claim = &leased.claim;
    known.take_claims(parts.deployments.restore_claims(&claim.deployment, rollback).await?);
    known.stages = stages.times();
    match parts.store.begin_push(claim, known, parts.clock.now()).await? {
        PushTurn::Yes => push(parts, leased, rollback, stages, known).await,
        PushTurn::Superseded { by } => Err(Stop::Superseded(by)),
        PushTurn::Locked(lock) => Err(refused(&lock).into()),
        PushTurn::Claimed(conflict) => Err(claimed(&conflict)),
        // A rollback is no automation: only who asks for it holds anybody.
        PushTurn::Lost | PushTurn::HeldBack(_) => Err(Stop::Lost),
    }
}

/// Another deployment took one of its routes or objects since they were looked at, and has it for good.
fn claimed(conflict: &ClaimConflict) -> Stop {
    let message = match conflict {
        ClaimConflict::Route(route) => route_taken(route),
        ClaimConflict::Object { object, app } => object_taken(object, app),
        ClaimConflict::App | ClaimConflict::Namespace => {
            "the app belongs to another repository by now".to_owned()
        }
    };
    Problem { remedy: Remedy::Reject, message: format!("not rolled back: {message}") }.into()
}

/// No rule runs for it: it ends with the same words as one that is asked for too late.
fn refused(lock: &Lock) -> Problem {
    let message = format!(
        "{} is locked by {}: {}; `bart unlock` takes the lock away, then roll back again",
        lock.scope, lock.by, lock.reason
    );
    Problem { remedy: Remedy::Reject, message }
}

async fn push(
    parts: &Parts,
    Leased { claim, lease }: &Leased,
    rollback: &Rollback,
    stages: &Stages,
    known: &mut Findings,
) -> Result<Ending, Stop> {
    let going = stages.begin(Stage::Push);
    let now = parts.clock.now();
    let Restored { ended, hand_edit } =
        parts.deployments.restore_revision(&claim.deployment, rollback, now, lease).await;
    drop(going);
    known.hand_edit = hand_edit.map(|edit| *edit);
    Ok(outcome::arrived(&claim.deployment, ended?, vec![]))
}
