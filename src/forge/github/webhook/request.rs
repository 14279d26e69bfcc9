//! The conversion of a deployment event into a request to deploy. Pure: every value becomes its own type here or is
//! refused by name.

use crate::forge::github::webhook::environments::EnvironmentMatch;
use crate::forge::github::webhook::field::{
    MalformedPayload, PayloadField, field_error, id, ignore, quote_text,
};
use crate::forge::github::webhook::naming;
use crate::forge::github::webhook::payload::{self, Body, DeploymentPayload, User};
use crate::forge::github::webhook::rollout;
use crate::forge::github::webhook::rules::Rules;
use crate::forge::status::is_own_task;
use crate::model::event::{
    DeploymentRequest, EventRefusal, GHOST, Recipient, RolloutTrigger, UnusedPart, WebhookEvent,
};
use crate::model::id::{CommitSha, IdError, ImageTag, RepoName, TargetName};
use crate::model::release::Release;

/// GitHub's word for a created deployment.
const CREATED: &str = "created";
/// The task of a deployment that starts a rollout.
const TRIGGER_TASK: &str = "rollout";
/// The limit that `model::event::DeploymentRequest::actor` promises.
const ACTOR_CHARACTERS: usize = 100;
/// The limit that `model::event::DeploymentRequest::description` promises.
const DESCRIPTION_CHARACTERS: usize = 500;
/// GitHub's own bound for a ref's name, with room for `refs/heads/`.
const REF_BYTES: usize = 300;

/// Decides about an event. An event for other programs is ignored before its values are judged, so that their
/// deployments are no errors.
pub(super) fn decide(document: &[u8], rules: &Rules) -> Result<WebhookEvent, MalformedPayload> {
    let body: Body = payload::shape(document)?;
    // Older Enterprise Servers leave the action out: they send the event when one is created, and
    // at no other time.
    let action = body.action.text("action")?.unwrap_or(CREATED);
    if action != CREATED {
        return Ok(ignore(UnusedPart::Kind, format!("action {} is not used", quote_text(action))));
    }
    let deployment =
        body.deployment.as_ref().ok_or_else(|| field_error("deployment", "is missing"))?;
    let event = judge(
        &payload::repository(body.repository.as_ref())?,
        deployment,
        body.sender.as_ref(),
        rules,
    )?;
    Ok(match event {
        WebhookEvent::Deployment(request) => {
            let at = naming::time(&deployment.created_at);
            let repository = body.repository.as_ref();
            let identity = repository.and_then(|repository| naming::identity(repository, at));
            WebhookEvent::Deployment(DeploymentRequest { identity, ..request })
        }
        WebhookEvent::Rollout(trigger) => {
            let at = naming::time(&deployment.created_at);
            let repository = body.repository.as_ref();
            let identity = repository.and_then(|repository| naming::identity(repository, at));
            WebhookEvent::Rollout(RolloutTrigger { identity, ..trigger })
        }
        other => other,
    })
}

/// Decides about a deployment of that repository, from an event or the API's list.
pub(super) fn judge(
    repository: &RepoName,
    deployment: &DeploymentPayload,
    sender: Option<&User>,
    rules: &Rules,
) -> Result<WebhookEvent, MalformedPayload> {
    if let Some(ignored) = not_ours(repository, deployment, rules)? {
        return Ok(ignored);
    }
    let event = if starts_rollout(deployment)? {
        trigger(repository.clone(), deployment, sender, rules).map(WebhookEvent::Rollout)
    } else {
        request(repository.clone(), deployment, sender, rules).map(WebhookEvent::Deployment)
    };
    match event {
        Ok(event) => Ok(event),
        Err(MalformedPayload::Field { field, problem }) => {
            // Without its number it can get no status.
            let forge_id = forge_id(&deployment.id)?;
            let repository = repository.clone();
            Ok(WebhookEvent::Refused(EventRefusal { repository, forge_id, field, problem }))
        }
        Err(other) => Err(other),
    }
}

/// Returns the ignored event of a deployment for another program; `None` for one of the service.
fn not_ours(
    repository: &RepoName,
    deployment: &DeploymentPayload,
    rules: &Rules,
) -> Result<Option<WebhookEvent>, MalformedPayload> {
    if let Some(ignored) = rules.not_allowed(repository) {
        return Ok(Some(ignored));
    }
    // Its environment is no target: the WAML's rollout names those.
    if starts_rollout(deployment)? {
        return Ok(None);
    }
    let task = deployment.task.text("deployment.task")?.unwrap_or("deploy");
    if is_own_task(task) || !rules.tasks.iter().any(|task_in_use| task_in_use == task) {
        return Ok(Some(ignore(
            UnusedPart::Task,
            format!("task {} is not used", quote_text(task)),
        )));
    }
    let PayloadField::Text(environment) = &deployment.environment else { return Ok(None) };
    let reason = match rules.environments.classify(environment, deployment.names_a_tag()) {
        EnvironmentMatch::Ours => return Ok(None),
        EnvironmentMatch::NotAllowed => "is not among the allowed ones",
        EnvironmentMatch::Unlikely => "can be no target, and the payload names no tag",
    };
    let reason = format!("environment {} {reason}", quote_text(environment));
    Ok(Some(ignore(UnusedPart::Environment, reason)))
}

/// Checks that the deployment starts a rollout: it has that task, and its payload names or describes one.
fn starts_rollout(deployment: &DeploymentPayload) -> Result<bool, MalformedPayload> {
    let task = deployment.task.text("deployment.task")?;
    // A payload that cannot be read is the error of a deployment of the service alone.
    let names_one = || deployment.rollout().is_ok_and(|rollout| rollout.is_some());
    Ok(task == Some(TRIGGER_TASK) && names_one())
}

fn trigger(
    repository: RepoName,
    deployment: &DeploymentPayload,
    sender: Option<&User>,
    rules: &Rules,
) -> Result<RolloutTrigger, MalformedPayload> {
    let commit = deployment.sha.id("deployment.sha", CommitSha::parse)?;
    let what = "branch, tag or commit";
    let git_ref = deployment.git_ref.reference("deployment.ref", REF_BYTES, what)?;
    let tag = tag(deployment, &git_ref, &commit, rules)?;
    let rollout = rollout::parse(&deployment.rollout()?.unwrap_or_default())?;
    let description = deployment.description.text("deployment.description")?.unwrap_or_default();
    let automatic = sender.into_iter().chain(&deployment.creator).any(is_program);
    Ok(RolloutTrigger {
        forge_id: forge_id(&deployment.id)?,
        release: Release { repository, app: deployment.app()?, commit, tag },
        git_ref,
        rollout,
        actor: actor(sender, deployment.creator.as_ref()),
        description: shorten(description, DESCRIPTION_CHARACTERS),
        automatic,
        recipient: recipient(automatic, deployment),
        identity: None,
    })
}

fn request(
    repository: RepoName,
    deployment: &DeploymentPayload,
    sender: Option<&User>,
    rules: &Rules,
) -> Result<DeploymentRequest, MalformedPayload> {
    let commit = deployment.sha.id("deployment.sha", CommitSha::parse)?;
    let what = "branch, tag or commit";
    let git_ref = deployment.git_ref.reference("deployment.ref", REF_BYTES, what)?;
    let tag = tag(deployment, &git_ref, &commit, rules)?;
    let target = deployment.environment.id("deployment.environment", TargetName::parse)?;
    let description = deployment.description.text("deployment.description")?.unwrap_or_default();
    let automatic = sender.into_iter().chain(&deployment.creator).any(is_program);
    Ok(DeploymentRequest {
        forge_id: forge_id(&deployment.id)?,
        release: Release { repository, app: deployment.app()?, commit, tag },
        target,
        git_ref,
        actor: actor(sender, deployment.creator.as_ref()),
        description: shorten(description, DESCRIPTION_CHARACTERS),
        production: deployment.production_environment.is_true(),
        automatic,
        recipient: recipient(automatic, deployment),
        identity: None,
        requested_at: naming::time(&deployment.created_at),
    })
}

/// Decides who gets messages. A workflow's own token does not say who started it: the workflow may. A person who asks
/// gets the messages, whatever the payload says.
fn recipient(automatic: bool, deployment: &DeploymentPayload) -> Recipient {
    let login = if automatic { deployment.actor() } else { None };
    login.map_or(Recipient::Actor, Recipient::Login)
}

/// Returns true if the account is a program's: an App's, as GitHub Actions has one. A person's token in a workflow
/// cannot be told from the person.
fn is_program(user: &User) -> bool {
    let is = |field: &PayloadField, right: fn(&str) -> bool| {
        field.text("type").ok().flatten().is_some_and(right)
    };
    is(&user.kind, |kind| kind == "Bot") || is(&user.login, |login| login.ends_with("[bot]"))
}

pub(super) fn forge_id(number: &PayloadField) -> Result<i64, MalformedPayload> {
    match number.integer("deployment.id")? {
        number @ 1.. => Ok(number),
        _ => Err(field_error("deployment.id", "is not a positive number")),
    }
}

/// Returns the payload's tag, else the configured rule's.
fn tag(
    deployment: &DeploymentPayload,
    git_ref: &str,
    commit: &CommitSha,
    rules: &Rules,
) -> Result<ImageTag, MalformedPayload> {
    if let Some(tag) = deployment.tag()? {
        return id("deployment.payload.tag", &tag, ImageTag::parse);
    }
    let tag = rules.tag.apply(git_ref, commit);
    ImageTag::parse(tag.as_str()).map_err(|IdError { rule, .. }| {
        let quoted = quote_text(&tag);
        field_error(
            "deployment.payload.tag",
            format!("is missing, and the configured rule {} makes {quoted}: {rule}", rules.tag),
        )
    })
}

/// Returns the actor. GitHub's logins are letters, digits, `-` and `_`; bots carry `[bot]`. The actor does not decide
/// about the deployment: another character is shown by its number.
fn actor(sender: Option<&User>, creator: Option<&User>) -> String {
    let login = |user: &User| match &user.login {
        PayloadField::Text(login) if !login.is_empty() => Some(escape_login(login)),
        _ => None,
    };
    let login_found = [sender, creator].into_iter().flatten().find_map(login);
    login_found.unwrap_or_else(|| GHOST.to_owned())
}

fn escape_login(login: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']');
    let mut out = String::new();
    for c in login.chars().take(ACTOR_CHARACTERS) {
        if legal(c) { out.push(c) } else { out.extend(c.escape_unicode()) }
    }
    shorten(&out, ACTOR_CHARACTERS)
}

fn shorten(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
