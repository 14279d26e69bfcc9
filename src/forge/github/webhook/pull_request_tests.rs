//! Pull requests in GitHub's shape, whole and broken.

use serde_json::json;

use super::*;
use crate::forge::github::webhook::rules::{PreviewRules, Repositories};

fn event() -> Json {
    let repository = json!({"id": 1, "full_name": "acme/web", "private": true, "fork": false});
    json!({
        "action": "opened", "number": 7,
        "pull_request": {
            "url": "https://api.github.com/repos/acme/web/pulls/7", "id": 279_147_437, "number": 7,
            "state": "open", "locked": false, "title": "More replicas", "draft": false,
            "user": {"login": "octocat", "id": 1, "type": "User"}, "body": null,
            "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-21T10:00:00Z",
            "closed_at": null, "merged_at": null, "merge_commit_sha": null, "merged": false,
            "head": {"label": "acme:more", "ref": "more", "sha": "a".repeat(40), "repo": repository},
            "base": {"label": "acme:main", "ref": "main", "sha": "b".repeat(40), "repo": repository},
            "mergeable": null, "commits": 1, "additions": 2, "deletions": 1, "changed_files": 1
        },
        "repository": repository,
        "organization": {"login": "acme", "id": 2},
        "sender": {"login": "octocat", "id": 1, "type": "User"},
        "installation": {"id": 4, "node_id": "x"}
    })
}

fn with(pointer: &str, value: Json) -> Json {
    let mut event = event();
    *event.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is in the event")) = value;
    event
}

fn rules() -> Rules {
    Rules { previews: Some(PreviewRules::default()), ..Rules::default() }
}

fn parsed(event: &Json, rules: &Rules) -> Result<WebhookEvent, MalformedPayload> {
    read(event.to_string().as_bytes(), rules)
}

fn request(event: &Json) -> PullRequest {
    match parsed(event, &rules()) {
        Ok(WebhookEvent::PullRequest(request)) => request,
        other => panic!("{other:?} is no pull request"),
    }
}

fn reason(event: &Json, rules: &Rules) -> String {
    match parsed(event, rules) {
        Ok(WebhookEvent::Ignored { reason, .. }) => reason,
        other => panic!("{other:?} is not ignored"),
    }
}

#[test]
fn an_opened_pull_request_says_what_to_preview() {
    let pull_request = request(&event());
    assert_eq!((pull_request.repository.as_str(), pull_request.number), ("acme/web", 7));
    assert_eq!(pull_request.head.as_str(), "a".repeat(40));
    assert_eq!(
        (pull_request.base.as_str(), pull_request.base_commit.as_str()),
        ("main", &*"b".repeat(40))
    );
    assert_eq!(
        (pull_request.draft, pull_request.open, pull_request.author.as_str()),
        (false, true, "octocat")
    );
    assert_eq!(pull_request.updated_at.to_string(), "2026-11-21T10:00:00Z");
    assert!(!pull_request.is_from_fork());
}

#[test]
fn only_actions_that_change_a_preview_are_used() {
    for action in ["opened", "reopened", "synchronize", "ready_for_review"] {
        assert!(request(&with("/action", json!(action))).open, "{action}");
    }
    assert!(!request(&with("/action", json!("closed"))).open);
    for action in ["labeled", "assigned", "edited", "converted_to_draft", "x\ny"] {
        let reason = reason(&with("/action", json!(action)), &rules());
        assert!(reason.ends_with("changes no preview") && !reason.contains('\n'), "{reason}");
    }
}

#[test]
fn an_edit_counts_when_the_base_is_another() {
    let mut edited = with("/action", json!("edited"));
    edited["changes"] = json!({"title": {"from": "x"}});
    assert!(reason(&edited, &rules()).contains("\"edited\""));
    edited["changes"] = json!({"base": {"ref": {"from": "old"}, "sha": {"from": "c".repeat(40)}}});
    assert!(request(&edited).open);
}

#[test]
fn nothing_is_read_while_previews_are_off() {
    assert_eq!(reason(&json!(7), &Rules::default()), "previews of pull requests are not on");
}

#[test]
fn other_repositories_are_dropped() {
    let rules = Rules { repositories: Repositories::matching(["other/*"]).unwrap(), ..rules() };
    assert!(reason(&event(), &rules).contains("acme/web is not among the allowed ones"));
}

#[test]
fn a_fork_gets_no_preview_unless_it_is_allowed() {
    let fork = with("/pull_request/head/repo/full_name", json!("mallory/web"));
    let without_repository = with("/pull_request/head/repo", json!(null));
    for event in [&fork, &without_repository] {
        assert!(reason(event, &rules()).contains("is from a fork"));
        for previews in [(true, false), (false, true)] {
            let (forks, always) = previews;
            let rules = Rules { previews: Some(PreviewRules { forks, always }), ..rules() };
            let Ok(WebhookEvent::PullRequest(pull_request)) = parsed(event, &rules) else {
                panic!()
            };
            assert!(pull_request.is_from_fork());
        }
    }
    let same_repository = with("/pull_request/head/repo/full_name", json!("Acme/Web"));
    assert!(
        !request(&same_repository).is_from_fork(),
        "letter case does not count in GitHub's names"
    );
}

#[test]
fn what_is_wrong_is_named() {
    let problem = |pointer: &str, value: Json| {
        parsed(&with(pointer, value), &rules()).unwrap_err().to_string()
    };
    assert_eq!(problem("/number", json!("7")), "number: \"7\" is not a number");
    assert_eq!(problem("/number", json!(0)), "number: is not a positive number");
    assert_eq!(problem("/pull_request", json!(null)), "pull_request: is missing");
    assert!(problem("/pull_request/head/sha", json!("x")).starts_with("pull_request.head.sha: "));
    assert!(problem("/pull_request/base/ref", json!("a\nb")).starts_with("pull_request.base.ref:"));
    assert!(problem("/pull_request/updated_at", json!("now")).contains("is not a time"));
    assert!(problem("/pull_request/user/login", json!("a b\u{1b}")).contains("is not a login"));
    assert!(problem("/repository/full_name", json!("../x")).starts_with("repository.full_name: "));
    for body in ["", "{", "[]", "7", "{\"action\": {}}"] {
        assert!(read(body.as_bytes(), &rules()).is_err(), "{body}");
    }
}

#[test]
fn who_is_gone_is_a_ghost() {
    assert_eq!(request(&with("/pull_request/user", json!(null))).author, "ghost");
}
