//! The types of the HTTP API: each request and each answer, declared once, for the service and for `bart`.
//!
//! The types know neither the origin of values nor the transport: the routes make answers from records, and
//! `server/openapi` describes them. Service and client may have different versions: a client ignores keys of an answer
//! that it does not know, and a key that an older service does not send has a default. Requests with unknown keys are
//! refused; those of agents ([`observations`]) are not, because the older side must understand the newer one.
//!
//! Begin with [`deployments`] and [`apps`]; [`problem`] is the answer to every error.

pub mod apps; // lists of apps, one app, removals
pub mod audit; // the audit log
pub mod builds; // builds that can be deployed
pub mod deployments; // deployments and their logs
pub(crate) mod forms; // patterns of names and texts
pub mod hand_edits; // manual edits, imported into a WAML
pub mod insights; // how long deployments take, and how they end
pub mod locks; // locks
pub mod observations; // reports of agents inside clusters
pub mod agent_logs; // logs that are read through agents
pub mod plans; // dry runs
pub mod pods; // apps in their clusters
pub mod problem; // errors
pub mod revisions; // revisions of an app
pub mod rollbacks; // rollbacks and holds
pub mod rollouts; // one release over many targets
pub mod secrets; // acts on secrets, without values
pub mod service; // the caller, the code host and the targets

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Returns the value, or the default for a form that this version does not know: one newer part of an answer must not
/// make the rest unreadable.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::problem::ProblemBody;

    #[test]
    fn one_part_of_another_form_leaves_the_others_readable() {
        let text = r#"{"title": "Bad gateway", "status": "502", "detail": "come again"}"#;
        let problem: ProblemBody = serde_json::from_str(text).unwrap();
        assert_eq!((problem.status, problem.detail.as_deref()), (0, Some("come again")));
    }
}
