//! The repository that an event names, beside the event itself: a push comes before every deployment, so a new name is
//! known before it is needed. Pure.

use jiff::Timestamp;
use serde::Deserialize;

use crate::forge::github::webhook::document::{ContentType, document};
use crate::forge::github::webhook::field::PayloadField;
use crate::forge::github::webhook::payload::{RepositoryPayload, shape};
use crate::forge::github::webhook::rules::Rules;
use crate::model::event::{NamedRepository, RepositoryIdentity};
use crate::model::id::RepoName;

/// The event, as far as it is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    repository: Option<RepositoryPayload>,
    pull_request: Option<PullRequest>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PullRequest {
    updated_at: PayloadField,
}

/// Returns the repository of a push or a pull request; none for other events, and none that may not deploy. A
/// deployment says it itself.
pub fn read(
    event: &str,
    content_type: ContentType,
    body: &[u8],
    rules: &Rules,
) -> Option<NamedRepository> {
    if !matches!(event, "push" | "pull_request") {
        return None;
    }
    let document = document(content_type, body).ok()?;
    let Body { repository, pull_request } = shape(&document).ok()?;
    let repository = repository?;
    let PayloadField::Text(name) = &repository.full_name else { return None };
    let name = RepoName::parse(name.clone()).ok().filter(|name| rules.repositories.allow(name))?;
    let at = match pull_request {
        Some(PullRequest { updated_at }) => time(&updated_at),
        None => time(&repository.pushed_at),
    };
    Some(NamedRepository { name, identity: identity(&repository, at)? })
}

/// Returns the numbers that GitHub has for the repository and its owner; none where it sends none.
pub(super) fn identity(
    repository: &RepositoryPayload,
    at: Option<Timestamp>,
) -> Option<RepositoryIdentity> {
    let number = |field: &PayloadField| match field {
        PayloadField::Integer(number @ 1..) => Some(*number),
        _ => None,
    };
    let owner = repository.owner.as_ref().and_then(|owner| number(&owner.id));
    Some(RepositoryIdentity { repository: number(&repository.id)?, owner, at })
}

/// Reads the time when something happened: a text, or in pushes the seconds since the epoch.
pub(super) fn time(field: &PayloadField) -> Option<Timestamp> {
    match field {
        PayloadField::Text(text) => text.parse().ok(),
        PayloadField::Integer(seconds) => Timestamp::from_second(*seconds).ok(),
        PayloadField::Absent
        | PayloadField::Flag(_)
        | PayloadField::Object(_)
        | PayloadField::Other(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_push_and_a_pull_request_name_their_repository() {
        let rules = Rules::default();
        let repository_of = |event: &str, body: &serde_json::Value| {
            read(event, ContentType::Json, body.to_string().as_bytes(), &rules)
        };
        let repository = json!({
            "id": 7, "full_name": "acme/shop", "owner": {"id": 9, "login": "acme"},
            "pushed_at": 1_700_000_000,
        });
        let at = Timestamp::from_second(1_700_000_000).ok();
        let identity = RepositoryIdentity { repository: 7, owner: Some(9), at };
        let name = RepoName::parse("acme/shop").unwrap();
        let expected = Some(NamedRepository { name, identity });
        assert_eq!(repository_of("push", &json!({"repository": repository})), expected);
        let pull = json!({"updated_at": "2023-11-14T22:13:20Z"});
        let pull = json!({"repository": repository, "pull_request": pull});
        assert_eq!(repository_of("pull_request", &pull), expected);
        assert_eq!(repository_of("check_run", &json!({"repository": repository})), None);
        for body in [json!({}), json!([]), json!({"repository": {"id": "x", "full_name": "a/b"}})] {
            assert_eq!(repository_of("push", &body), None, "{body}");
        }
    }
}
