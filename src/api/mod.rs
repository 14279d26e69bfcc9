//! The words of the HTTP API: each request and each answer, declared once, for the service and for `bart`.
//!
//! Knows neither where values come from nor how they travel: the routes make answers of records, `server/openapi`
//! describes them. Services and programs are not of one age: answers are read by who does not know all of their keys,
//! and a key that an older service does not send has a default. Of requests no unknown key is taken.

pub mod apps; // lists of apps, one app, removals
pub mod audit; // the audit log
pub mod builds; // builds that can be deployed
pub mod deployments; // deployments and their logs
pub(crate) mod forms; // patterns of names and texts
pub mod locks; // locks
pub mod plans; // dry runs
pub mod problem; // errors
pub mod revisions; // revisions of an app
pub mod rollbacks; // rollbacks and holds
pub mod service; // the caller, the code host and the targets

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Returns what a value means to this version; of a form that it does not know, the default. One part of an answer
/// that is newer must not make the rest unreadable.
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
        let read: ProblemBody = serde_json::from_str(text).unwrap();
        assert_eq!((read.status, read.detail.as_deref()), (0, Some("come again")));
    }
}
