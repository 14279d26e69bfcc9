//! Acts on a rollout: pause, resume, approve, cancel, undo, retry.

use axum::extract::Path;
use axum::response::Response;
use serde_json::json;

use crate::api::rollouts::{RolloutDetail, RolloutSummary};
use crate::model::callers::Scope;
use crate::model::id::RolloutId;
use crate::server::act_api::ApiRefusal;
use crate::server::call::bad;
use crate::server::pages::acts::act_call::ActCall;
use crate::server::pages::acts::confirmation::{ActConfirmation, ActField};
use crate::server::pages::acts::form::ActForm;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::routes::rollouts::{authorize, load, require_approver};

/// An act on a rollout; its word is the end of the path, of the page and of the API's route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RolloutActWord {
    Pause,
    Resume,
    Approve,
    Cancel,
    Undo,
    Retry,
}

impl RolloutActWord {
    const WORDS: [Self; 6] =
        [Self::Approve, Self::Resume, Self::Retry, Self::Pause, Self::Undo, Self::Cancel];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Approve => "approve",
            Self::Cancel => "cancel",
            Self::Undo => "undo",
            Self::Retry => "retry",
        }
    }

    /// Finds the act of that word.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::WORDS.into_iter().find(|act| act.as_str() == word)
    }

    /// The word on a button.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Approve => "Approve",
            Self::Cancel => "Cancel",
            Self::Undo => "Undo",
            Self::Retry => "Retry",
        }
    }
}

/// Shows what an act on a rollout does.
pub(super) async fn ask(
    call: ActCall,
    Path((id, act)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (id, act) = read(id, &act)?;
    let rollout = load(&call.request, &id).await?;
    match act {
        RolloutActWord::Approve => {
            require_approver(&call.request, &rollout, rollout.record.index).await?;
        }
        _ => authorize(&call.request, Scope::Deploy, &rollout).await?,
    }
    let page = page(&call, &id, act).await;
    call.ask(page)
}

/// Acts on a rollout.
pub(super) async fn act(
    call: ActCall,
    Path((id, act)): Path<(String, String)>,
    form: ActForm,
) -> Result<Response, Problem> {
    let (id, act) = read(id, &act)?;
    let path = format!("/rollouts/{id}/{}", act.as_str());
    let body = json!({"reason": form.reason()});
    let answer: Result<RolloutSummary, ApiRefusal> = call.api.post(&path, &body, form.key()).await;
    let outcome = answer.map(|_| format!("/rollouts/{id}"));
    call.end(outcome, page(&call, &id, act), &form).await
}

fn read(id: String, act: &str) -> Result<(RolloutId, RolloutActWord), Problem> {
    let id = RolloutId::parse(id).map_err(|error| bad(error.to_string()))?;
    let act = RolloutActWord::parse(act);
    let nothing = || Problem::new(ProblemKind::NotFound, "there is no such act on a rollout");
    Ok((id, act.ok_or_else(nothing)?))
}

async fn page(
    call: &ActCall,
    id: &RolloutId,
    act: RolloutActWord,
) -> Result<ActConfirmation, ApiRefusal> {
    let RolloutDetail { summary, steps, waits, commands, .. } =
        call.api.get(&format!("/rollouts/{id}")).await?;
    let mut page = ActConfirmation {
        heading: format!("{} the rollout of {} {}", act.title(), summary.app, summary.tag),
        back: (format!("/rollouts/{id}"), format!("Rollout {id}")),
        is_severe: matches!(act, RolloutActWord::Undo | RolloutActWord::Cancel),
        ..ActConfirmation::default()
    };
    page.consequences.push(format!(
        "{} of {} targets are complete, {} have failed; it is {}.",
        summary.complete,
        summary.targets_count,
        summary.failed,
        summary.state.as_str().replace('_', " ")
    ));
    let prefix = format!("bart rollout {} ", act.as_str());
    let Some(command) = commands.into_iter().find(|one| one.command.starts_with(&prefix)) else {
        page.consequences.push("This cannot be done to it now.".to_owned());
        return Ok(page);
    };
    page.consequences.push(format!("This {}.", command.effect));
    let gate = steps.get(summary.index).and_then(|step| step.gate.as_ref());
    if let (RolloutActWord::Approve, Some(gate)) = (act, gate) {
        let team = gate.team.as_ref().map(|team| format!(" by a member of {team}"));
        page.consequences.push(format!(
            "The gate is {}{}.",
            gate.condition,
            team.unwrap_or_default()
        ));
    }
    page.warnings.extend(waits.iter().map(|wait| {
        let target = wait.target.as_ref().map(|target| format!("{target}, ")).unwrap_or_default();
        format!("It waits for {target}{}.", wait.waiting.what)
    }));
    page.fields = vec![ActField::reason()];
    page.button = Some(act.title());
    Ok(page)
}
