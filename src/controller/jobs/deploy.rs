//! One attempt at one deployment: fetch, plan, push.

use crate::controller::Parts;
use crate::controller::job::Leased;
use crate::controller::jobs::rollback;
use crate::controller::outcome::{self, Trouble};
use crate::deployments::outcome::{Earlier, NotPlanned, Planned, Problem, Remedy};
use crate::deployments::stages::Stages;
use crate::model::deployment::{Stage, State};
use crate::model::id::DeployId;
use crate::store::{Claim, Ending, Findings, Held, PushTurn, StoreError};

/// So often an attempt is planned when others claim what it needs. The rules see claims, so the second
/// plan is refused by them; what they do not look at is refused after the last one.
const MOST_PLANS: u32 = 3;

/// How far an attempt came.
pub(in crate::controller) enum Reached {
    /// The end; it is still to be recorded.
    End(Ending),
    /// A newer deployment took its place; that is recorded.
    Superseded(DeployId),
    /// Another worker took over.
    Lost,
    /// Not to its end.
    Trouble(Trouble, Findings),
}

/// Makes the attempt.
pub(in crate::controller) async fn attempt(
    parts: &Parts,
    leased: &Leased,
    stages: &Stages,
) -> Result<Reached, StoreError> {
    let mut known = Findings::default();
    let ended = forward(parts, leased, stages, &mut known).await;
    known.stages = stages.times();
    match ended {
        Ok(ending) => Ok(Reached::End(Ending { known, ..ending })),
        Err(Stop::Superseded(by)) => Ok(Reached::Superseded(by)),
        Err(Stop::Lost) => Ok(Reached::Lost),
        Err(Stop::Trouble(trouble)) => Ok(Reached::Trouble(trouble, known)),
        Err(Stop::Store(error)) => Err(error),
    }
}

/// Ends an attempt in its middle.
pub(in crate::controller) enum Stop {
    Superseded(DeployId),
    Lost,
    Trouble(Trouble),
    Store(StoreError),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Trouble(Trouble::Problem(problem))
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The sentence: fetch, plan, ask for the turn, push.
async fn forward(
    parts: &Parts,
    leased: &Leased,
    stages: &Stages,
    known: &mut Findings,
) -> Result<Ending, Stop> {
    let claim = &leased.claim;
    if claim.deployment.state == State::Pushing
        && let Some(ending) = found(parts, claim, known).await?
    {
        return Ok(ending);
    }
    if let Some(back) = &claim.deployment.rollback {
        return rollback::forward(parts, leased, back, stages, known).await;
    }
    let waml = fetch(parts, claim, stages).await?;
    let mut plans = 1;
    loop {
        let planned = plan(parts, claim, waml.clone(), stages, known).await?;
        known.stages = stages.times();
        let turn = parts.store.begin_push(claim, known, parts.clock.now()).await?;
        return match turn {
            PushTurn::Yes => push(parts, leased, planned, stages, known).await,
            PushTurn::Superseded { by } => Err(Stop::Superseded(by)),
            PushTurn::Locked(lock) => Err(planned_again("locked", &lock.by, &lock.reason).into()),
            PushTurn::HeldBack(hold) => Err(planned_again("held", &hold.by, &hold.reason).into()),
            PushTurn::Claimed(conflict) if plans < MOST_PLANS => {
                tracing::info!(?conflict, "another deployment came first: it is planned again");
                plans += 1;
                continue;
            }
            PushTurn::Claimed(conflict) => {
                Err(outcome::claimed(&planned.revision, &conflict).into())
            }
            PushTurn::Lost => Err(Stop::Lost),
        };
    }
}

/// The next attempt meets the rule, and ends with its violation.
fn planned_again(what: &str, by: &str, reason: &str) -> Problem {
    let message = format!("{by} {what} it while it was planned: {reason}");
    Problem { remedy: Remedy::Retry { after: None }, message }
}

/// What an earlier attempt pushed before it died. The plan is not made again for that: by now
/// the templates may be others, and what is in the repository counts.
async fn found(parts: &Parts, claim: &Claim, known: &mut Findings) -> Result<Option<Ending>, Stop> {
    let earlier = parts.deployments.find_earlier_push(&claim.deployment).await?;
    Ok(earlier.map(|Earlier { pushed, hand_edit }| {
        known.hand_edit = hand_edit.map(|edit| *edit);
        outcome::arrived(&claim.deployment, pushed, vec![])
    }))
}

async fn fetch(parts: &Parts, claim: &Claim, stages: &Stages) -> Result<Vec<u8>, Stop> {
    let _going = stages.begin(Stage::Fetch);
    Ok(parts.deployments.fetch_waml(&claim.deployment.request).await?)
}

async fn plan(
    parts: &Parts,
    claim: &Claim,
    waml: Vec<u8>,
    stages: &Stages,
    known: &mut Findings,
) -> Result<Planned, Stop> {
    if parts.store.plan_alone(claim).await? == Held::Lost {
        return Err(Stop::Lost);
    }
    match parts.deployments.plan_attempt(&claim.deployment, waml, stages).await {
        Ok(planned) => {
            known.app = Some(planned.revision.app.clone());
            known.template = Some(planned.template.clone());
            known.templates_commit.clone_from(&planned.templates_commit);
            known.contact.clone_from(&planned.contact);
            known.address.clone_from(&planned.address);
            known.take_claims(planned.claims.clone());
            Ok(planned)
        }
        Err(NotPlanned::Rejected { rejection, app, template, templates_commit, contact }) => {
            *known = Findings { app, template, templates_commit, contact, ..Findings::default() };
            Err(Stop::Trouble(Trouble::Rejected(rejection)))
        }
        Err(NotPlanned::Problem(problem)) => Err(problem.into()),
    }
}

async fn push(
    parts: &Parts,
    Leased { claim, lease }: &Leased,
    planned: Planned,
    stages: &Stages,
    known: &mut Findings,
) -> Result<Ending, Stop> {
    let digest = planned.revision.digest.clone();
    let files = planned.revision.files.iter().map(|file| file.name.clone()).collect();
    let warnings = planned.warnings.clone();
    let going = stages.begin(Stage::Push);
    let wrote =
        parts.deployments.write_plan(&claim.deployment, planned, parts.clock.now(), lease).await;
    drop(going);
    known.hand_edit = wrote.hand_edit.map(|edit| *edit);
    let pushed = outcome::pushed(wrote.ended?, digest, files);
    Ok(outcome::arrived(&claim.deployment, pushed, warnings))
}
