//! From a deployment event to what is asked of us. Pure: every value becomes its own type here or
//! is refused by name.

use crate::forge::github::webhook::field::{Field, wrong};
use crate::forge::github::webhook::payload::{Body, Deployment, User};
use crate::forge::github::webhook::rules::Rules;
use crate::forge::github::webhook::{Malformed, ignored, shown};
use crate::model::event::{DeploymentRequest, Event};
use crate::model::id::{CommitSha, IdError, ImageTag, RepoName, TargetName};
use crate::model::release::Release;

/// As `model::event::DeploymentRequest::actor` promises.
const ACTOR_CHARACTERS: usize = 100;
/// As `model::event::DeploymentRequest::description` promises.
const DESCRIPTION_CHARACTERS: usize = 500;
/// GitHub's own bound for a ref's name, with room for `refs/heads/`.
const REF_BYTES: usize = 300;
/// GitHub's name for an account that is gone.
const NOBODY: &str = "ghost";

/// Decides what an event asks. What is not meant for us is ignored before its values are judged,
/// so that other tools' deployments are no errors.
pub(super) fn decide(body: &Body, rules: &Rules) -> Result<Event, Malformed> {
    let action = body.action.required("action")?;
    if action != "created" {
        return Ok(ignored(format!("action {} is not used", shown(action))));
    }
    let deployment = body.deployment.as_ref().ok_or_else(|| wrong("deployment", "is missing"))?;
    let repository = repository(body)?;
    if !rules.repositories.allow(&repository) {
        return Ok(ignored(format!("repository {repository} is not among the allowed ones")));
    }
    let task = deployment.task.text("deployment.task")?.unwrap_or("deploy");
    if !rules.tasks.iter().any(|used| used == task) {
        return Ok(ignored(format!("task {} is not used", shown(task))));
    }
    let request = request(repository, deployment, body.sender.as_ref(), rules)?;
    Ok(Event::Deployment(request))
}

fn request(
    repository: RepoName,
    deployment: &Deployment,
    sender: Option<&User>,
    rules: &Rules,
) -> Result<DeploymentRequest, Malformed> {
    let commit =
        id("deployment.sha", deployment.sha.required("deployment.sha")?, CommitSha::parse)?;
    let git_ref = git_ref(&deployment.git_ref)?;
    let tag = tag(deployment, &git_ref, &commit, rules)?;
    let environment = deployment.environment.required("deployment.environment")?;
    let description = deployment.description.text("deployment.description")?.unwrap_or_default();
    Ok(DeploymentRequest {
        forge_id: forge_id(&deployment.id)?,
        release: Release { repository, commit, tag },
        target: id("deployment.environment", environment, TargetName::parse)?,
        git_ref,
        actor: actor(sender, deployment.creator.as_ref())?,
        description: cut(description, DESCRIPTION_CHARACTERS),
        production: deployment.production_environment == serde_json::Value::Bool(true),
    })
}

fn repository(body: &Body) -> Result<RepoName, Malformed> {
    let field = "repository.full_name";
    let repository = body.repository.as_ref().ok_or_else(|| wrong("repository", "is missing"))?;
    id(field, repository.full_name.required(field)?, RepoName::parse)
}

fn forge_id(number: &Field) -> Result<i64, Malformed> {
    match number.integer("deployment.id")? {
        number @ 1.. => Ok(number),
        _ => Err(wrong("deployment.id", "is not a positive number")),
    }
}

fn git_ref(git_ref: &Field) -> Result<String, Malformed> {
    let field = "deployment.ref";
    let text = git_ref.required(field)?;
    if text.is_empty() || text.len() > REF_BYTES || text.chars().any(char::is_control) {
        return Err(wrong(field, format!("{} is not a branch, tag or commit", shown(text))));
    }
    Ok(text.to_owned())
}

/// The payload's tag, else the configured rule's.
fn tag(
    deployment: &Deployment,
    git_ref: &str,
    commit: &CommitSha,
    rules: &Rules,
) -> Result<ImageTag, Malformed> {
    if let Some(tag) = deployment.payload.tag()? {
        return id("deployment.payload.tag", &tag, ImageTag::parse);
    }
    let tag = rules.tag.apply(git_ref, commit);
    ImageTag::parse(tag.as_str()).map_err(|IdError { rule, .. }| {
        let shown = shown(&tag);
        wrong(
            "deployment.payload.tag",
            format!("is missing, and the configured rule {} makes {shown}: {rule}", rules.tag),
        )
    })
}

/// GitHub's logins are letters, digits, `-` and `_`; bots carry `[bot]`.
fn actor(sender: Option<&User>, creator: Option<&User>) -> Result<String, Malformed> {
    let candidates = [("sender.login", sender), ("deployment.creator.login", creator)];
    for (field, user) in candidates {
        let Some(user) = user else { continue };
        let Some(login) = user.login.text(field)? else { continue };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']');
        if login.is_empty() || !login.chars().all(legal) {
            return Err(wrong(field, format!("{} is not a login", shown(login))));
        }
        return Ok(cut(login, ACTOR_CHARACTERS));
    }
    Ok(NOBODY.to_owned())
}

fn id<T>(
    field: &'static str,
    text: &str,
    parse: impl Fn(String) -> Result<T, IdError>,
) -> Result<T, Malformed> {
    parse(text.to_owned()).map_err(|error| wrong(field, error.to_string()))
}

fn cut(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
