//! A `check_run` or `check_suite` event: a person presses *Re-run* on a check run of the service. Pure.
//!
//! GitHub sends it to the App that created the check run, whether that subscribed to it or not.

use serde::Deserialize;

use crate::forge::github::webhook::field::{
    MalformedPayload, PayloadField, field_error, ignore, quote_text,
};
use crate::forge::github::webhook::payload::{self, RepositoryPayload};
use crate::forge::github::webhook::rules::Rules;
use crate::model::event::{CheckRerun, Rerun, UnusedPart, WebhookEvent};
use crate::model::id::CommitSha;

/// The event, as far as it is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    action: PayloadField,
    check_run: Option<Check>,
    check_suite: Option<Check>,
    repository: Option<RepositoryPayload>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Check {
    id: PayloadField,
    head_sha: PayloadField,
}

/// Reads the event. An event without a re-run is ignored before its values are judged.
pub(super) fn read(document: &[u8], rules: &Rules) -> Result<WebhookEvent, MalformedPayload> {
    if rules.previews.is_none() {
        return Ok(ignore(UnusedPart::Kind, "previews of pull requests are not on".to_owned()));
    }
    let Body { action, check_run, check_suite, repository } = payload::shape(document)?;
    let action = action.required_text("action")?;
    if action != "rerequested" {
        let reason = format!("check run: action {} is not used", quote_text(action));
        return Ok(ignore(UnusedPart::Kind, reason));
    }
    let repository = payload::repository(repository.as_ref())?;
    if let Some(ignored) = rules.not_allowed(&repository) {
        return Ok(ignored);
    }
    let rerun = match (check_run, check_suite) {
        (Some(run), _) => Rerun::Run(run.id.integer("check_run.id")?),
        (None, Some(suite)) => {
            Rerun::Commit(suite.head_sha.id("check_suite.head_sha", CommitSha::parse)?)
        }
        (None, None) => return Err(field_error("check_run", "is missing")),
    };
    Ok(WebhookEvent::Rerun(CheckRerun { repository, rerun }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::forge::github::webhook::rules::PreviewRules;
    use crate::model::id::RepoName;

    fn read_with(event: &Value, previews: bool) -> Result<WebhookEvent, MalformedPayload> {
        let previews = previews.then(PreviewRules::default);
        read(event.to_string().as_bytes(), &Rules { previews, ..Rules::default() })
    }

    #[test]
    fn a_rerun_names_a_check_run_or_a_commit() {
        let sha = "ab".repeat(20);
        let mut event = json!({
            "action": "rerequested",
            "check_run": {"id": 7, "head_sha": sha, "name": "the-deployer/preview"},
            "repository": {"id": 1, "full_name": "acme/web"},
        });
        let repository = RepoName::parse("acme/web").unwrap();
        let run = CheckRerun { repository: repository.clone(), rerun: Rerun::Run(7) };
        assert_eq!(read_with(&event, true), Ok(WebhookEvent::Rerun(run)));
        assert!(matches!(read_with(&event, false), Ok(WebhookEvent::Ignored { .. })));
        event["check_suite"] = json!({"id": 8, "head_sha": sha});
        event["check_run"] = Value::Null;
        let rerun = Rerun::Commit(CommitSha::parse(sha).unwrap());
        assert_eq!(
            read_with(&event, true),
            Ok(WebhookEvent::Rerun(CheckRerun { repository, rerun }))
        );
        event["action"] = json!("completed");
        assert!(matches!(read_with(&event, true), Ok(WebhookEvent::Ignored { .. })));
        for event in [json!({}), json!({"action": "rerequested"}), json!({"action": 7})] {
            assert!(read_with(&event, true).is_err(), "{event}");
        }
    }
}
