//! A deployment as GitHub's API lists it: the same fields as in the event. Pure.

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use crate::forge::github::webhook::field::{MalformedPayload, field_error};
use crate::forge::github::webhook::payload::DeploymentPayload;
use crate::forge::github::webhook::request;
use crate::forge::github::webhook::rules::Rules;
use crate::model::event::WebhookEvent;
use crate::model::id::RepoName;

/// One deployment of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedDeployment {
    /// The repository of the deployment: by its present name, where the request had a former one.
    pub repository: RepoName,
    /// GitHub's number of it.
    pub forge_id: i64,
    /// The time of the request to deploy.
    pub created_at: Timestamp,
    /// The result of its event: a deployment, a refusal, or nothing.
    pub event: WebhookEvent,
}

/// Reads one deployment of the list, by the same rules as its event.
///
/// # Errors
/// [`MalformedPayload`] where not even its number and its time can be read.
pub fn read(
    repository: &RepoName,
    deployment: &Value,
    rules: &Rules,
) -> Result<ListedDeployment, MalformedPayload> {
    let deployment = DeploymentPayload::deserialize(deployment)
        .map_err(|_| field_error("deployment", "has not the shape of a deployment"))?;
    let created_at = deployment.created_at.required_text("deployment.created_at")?;
    let created_at =
        created_at.parse().map_err(|_| field_error("deployment.created_at", "is not a time"))?;
    let forge_id = request::forge_id(&deployment.id)?;
    let repository = present_name(&deployment).unwrap_or_else(|| repository.clone());
    let event = request::judge(&repository, &deployment, None, rules)?;
    Ok(ListedDeployment { repository, forge_id, created_at, event })
}

/// Returns the present name: the API follows former names; events have the present one.
fn present_name(deployment: &DeploymentPayload) -> Option<RepoName> {
    let url = deployment.repository_url.text("deployment.repository_url").ok()??;
    let (rest, name) = url.rsplit_once('/')?;
    let (_, owner) = rest.rsplit_once('/')?;
    RepoName::parse(format!("{owner}/{name}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment() -> Value {
        json!({
            "id": 7, "sha": "a84d88e7554fc1fa21bcbc4efae3c782a70d2b9d", "ref": "main",
            "task": "deploy", "payload": {"tag": "1.10"}, "environment": "prod-cluster-1",
            "description": null, "creator": {"login": "octo-dev"},
            "created_at": "2026-11-20T10:00:00Z", "production_environment": true,
        })
    }

    fn listed(deployment: &Value) -> Result<ListedDeployment, MalformedPayload> {
        read(&RepoName::parse("acme/shop").unwrap(), deployment, &Rules::default())
    }

    #[test]
    fn it_asks_what_its_event_would_have_asked() {
        let ListedDeployment { forge_id, created_at, event, .. } = listed(&deployment()).unwrap();
        assert_eq!((forge_id, created_at.to_string().as_str()), (7, "2026-11-20T10:00:00Z"));
        let WebhookEvent::Deployment(request) = event else { panic!("{event:?}") };
        assert_eq!((request.forge_id, request.release.tag.as_str()), (7, "1.10"));
        assert_eq!((request.actor.as_str(), request.production), ("octo-dev", true));
    }

    #[test]
    fn a_renamed_repository_goes_by_its_present_name() {
        let name = |url: Value| {
            let mut deployment = deployment();
            deployment["repository_url"] = url;
            listed(&deployment).unwrap().repository.to_string()
        };
        assert_eq!(name(json!("https://api.github.com/repos/acme/store")), "acme/store");
        for url in [json!(null), json!(7), json!("x"), json!("https://a/b/../c d")] {
            assert_eq!(name(url), "acme/shop");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (field, value) in [("id", json!("7")), ("created_at", json!("today"))] {
            let mut invalid = deployment();
            invalid[field] = value;
            let error = listed(&invalid).unwrap_err().to_string();
            assert!(error.starts_with(&format!("deployment.{field}: ")), "{error}");
        }
        assert!(listed(&json!([1])).is_err() && listed(&json!(null)).is_err());
        let mut invalid = deployment();
        invalid["payload"] = json!({"tag": 1.10});
        assert!(matches!(listed(&invalid).unwrap().event, WebhookEvent::Refused(_)));
    }
}
