//! A `pull_request` event, with the commit to preview. Pure.
//!
//! It has the present state of the pull request, not what happened to it: previews need no more, and a lost event is
//! made good by the next one.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::forge::github::webhook::field::{
    MalformedPayload, PayloadField, field_error, ignore, quote_text,
};
use crate::forge::github::webhook::payload::{self, RepositoryPayload, User};
use crate::forge::github::webhook::rules::Rules;
use crate::model::event::{PullRequest, UnusedPart, WebhookEvent};
use crate::model::id::{CommitSha, RepoName};

/// GitHub's own bound for a branch's name is 244 bytes.
const BRANCH_BYTES: usize = 255;
/// The limit that `model::event::PullRequest::author` promises.
const AUTHOR_CHARACTERS: usize = 100;
/// GitHub's name for an account that is gone.
const GHOST: &str = "ghost";

/// The event, as far as it is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    action: PayloadField,
    number: PayloadField,
    changes: Json,
    pull_request: Option<Pull>,
    repository: Option<RepositoryPayload>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pull {
    head: Side,
    base: Side,
    draft: PayloadField,
    user: Option<User>,
    updated_at: PayloadField,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Side {
    sha: PayloadField,
    #[serde(rename = "ref")]
    git_ref: PayloadField,
    repo: Option<RepositoryPayload>,
}

/// Reads the event. What changes nothing about a preview is ignored before its values are judged.
pub(super) fn read(document: &[u8], rules: &Rules) -> Result<WebhookEvent, MalformedPayload> {
    let Some(previews) = rules.previews else {
        return Ok(ignore(UnusedPart::Kind, "previews of pull requests are not on".to_owned()));
    };
    let body: Body = payload::shape(document)?;
    let Some(open) = read_open(&body)? else {
        let action = quote_text(body.action.text("action")?.unwrap_or_default());
        let reason = format!("pull request: action {action} changes no preview");
        return Ok(ignore(UnusedPart::Kind, reason));
    };
    let repository = payload::repository(body.repository.as_ref())?;
    if let Some(ignored) = rules.not_allowed(&repository) {
        return Ok(ignored);
    }
    let request = request(&body, repository, open)?;
    if request.is_from_fork() && !previews.forks && !previews.always {
        let PullRequest { repository, number, .. } = request;
        return Ok(ignore(
            UnusedPart::Repository,
            format!(
                "pull request {number} of {repository} is from a fork: its preview would show manifests to whoever opened it"
            ),
        ));
    }
    Ok(WebhookEvent::PullRequest(request))
}

/// Returns whether the pull request is open after the action; `None` where the action changes no
/// preview.
fn read_open(body: &Body) -> Result<Option<bool>, MalformedPayload> {
    Ok(match body.action.required_text("action")? {
        "opened" | "reopened" | "synchronize" | "ready_for_review" => Some(true),
        // A new title does not matter; another base does.
        "edited" if body.changes.get("base").is_some() => Some(true),
        "closed" => Some(false),
        _ => None,
    })
}

fn request(body: &Body, repository: RepoName, open: bool) -> Result<PullRequest, MalformedPayload> {
    let number @ 1.. = body.number.integer("number")? else {
        return Err(field_error("number", "is not a positive number"));
    };
    let pull =
        body.pull_request.as_ref().ok_or_else(|| field_error("pull_request", "is missing"))?;
    let Pull { head, base, draft, user, updated_at } = pull;
    // A fork that was deleted is `null`.
    let head_repository = head.repo.as_ref().map(|repository| {
        repository.full_name.id("pull_request.head.repo.full_name", RepoName::parse)
    });
    Ok(PullRequest {
        repository,
        number,
        head: head.sha.id("pull_request.head.sha", CommitSha::parse)?,
        head_repository: head_repository.transpose()?,
        base: base.git_ref.reference("pull_request.base.ref", BRANCH_BYTES, "branch")?,
        base_commit: base.sha.id("pull_request.base.sha", CommitSha::parse)?,
        draft: draft.is_true(),
        author: author(user.as_ref())?,
        open,
        updated_at: time(updated_at)?,
    })
}

fn author(user: Option<&User>) -> Result<String, MalformedPayload> {
    let field = "pull_request.user.login";
    let login = user.map_or(Ok(None), |user| user.login.text(field))?.unwrap_or(GHOST);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']');
    if login.is_empty() || !login.chars().all(legal) {
        return Err(field_error(field, format!("{} is not a login", quote_text(login))));
    }
    Ok(login.chars().take(AUTHOR_CHARACTERS).collect())
}

fn time(text: &PayloadField) -> Result<Timestamp, MalformedPayload> {
    let field = "pull_request.updated_at";
    let text = text.required_text(field)?;
    text.parse().map_err(|_| field_error(field, format!("{} is not a time", quote_text(text))))
}

#[cfg(test)]
#[path = "pull_request_tests.rs"]
mod tests;
