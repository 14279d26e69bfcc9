//! A `push` event: the repository, the branch and its new commit. Pure.

use serde::Deserialize;

use crate::forge::github::webhook::field::{
    MalformedPayload, PayloadField, field_error, ignore, quote_text,
};
use crate::forge::github::webhook::payload::{self, RepositoryPayload};
use crate::model::event::{BranchPush, UnusedPart, WebhookEvent};
use crate::model::id::CommitSha;

/// GitHub's own bound for a ref's name, with room for `refs/heads/`.
const REF_BYTES: usize = 300;

/// The event, as far as it is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    #[serde(rename = "ref")]
    git_ref: PayloadField,
    after: PayloadField,
    deleted: PayloadField,
    repository: Option<RepositoryPayload>,
}

/// Reads the event. Another reference than a branch, such as a tag, is ignored.
pub(super) fn read(document: &[u8]) -> Result<WebhookEvent, MalformedPayload> {
    let Body { git_ref, after, deleted, repository } = payload::shape(document)?;
    let git_ref = git_ref.required_text("ref")?;
    if git_ref.len() > REF_BYTES || git_ref.chars().any(char::is_control) {
        return Err(field_error("ref", format!("{} is not a branch or tag", quote_text(git_ref))));
    }
    let Some(branch) = git_ref.strip_prefix("refs/heads/") else {
        return Ok(ignore(UnusedPart::Kind, format!("{} is no branch", quote_text(git_ref))));
    };
    let repository = payload::repository(repository.as_ref())?;
    let after = if deleted.is_true() { None } else { Some(after.id("after", CommitSha::parse)?) };
    Ok(WebhookEvent::Push(BranchPush { repository, branch: branch.to_owned(), after }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event() -> serde_json::Value {
        json!({
            "ref": "refs/heads/main", "before": "1".repeat(40), "after": "2".repeat(40),
            "created": false, "deleted": false, "forced": true, "base_ref": null,
            "repository": {"id": 1, "full_name": "acme/templates", "default_branch": "main"},
            "pusher": {"name": "octocat"}, "commits": [{"id": "2".repeat(40), "added": ["a"]}],
        })
    }

    fn parsed(event: &serde_json::Value) -> Result<WebhookEvent, MalformedPayload> {
        read(event.to_string().as_bytes())
    }

    #[test]
    fn a_push_says_which_branch_moved_where() {
        let Ok(WebhookEvent::Push(push)) = parsed(&event()) else { panic!() };
        assert_eq!((push.repository.as_str(), push.branch.as_str()), ("acme/templates", "main"));
        assert_eq!(push.after.unwrap().as_str(), "2".repeat(40));
    }

    #[test]
    fn a_deleted_branch_is_nowhere_and_a_tag_is_none() {
        let mut deletion = event();
        deletion["deleted"] = json!(true);
        deletion["after"] = json!("0".repeat(40));
        let Ok(WebhookEvent::Push(push)) = parsed(&deletion) else { panic!() };
        assert_eq!(push.after, None);
        let mut tag = event();
        tag["ref"] = json!("refs/tags/v1");
        assert!(matches!(parsed(&tag), Ok(WebhookEvent::Ignored { .. })));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |field: &str, value: serde_json::Value| {
            let mut event = event();
            event[field] = value;
            parsed(&event).unwrap_err().to_string()
        };
        assert_eq!(problem("ref", json!(7)), "ref: is a number; a text is expected (quote it)");
        assert!(problem("after", json!("xyz")).starts_with("after: "));
        assert_eq!(problem("repository", json!(null)), "repository: is missing");
        assert!(problem("ref", json!("refs/heads/a\nb")).starts_with("ref: "));
        assert!(matches!(read(b"{"), Err(MalformedPayload::NotJson { .. })));
    }
}
