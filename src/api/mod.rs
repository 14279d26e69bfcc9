//! The words of the HTTP API: each request and each answer, declared once, for the service and for `bart`.
//!
//! Knows neither where values come from nor how they travel: the routes make answers of records, `server/openapi`
//! describes them. Services and programs are not of one age: answers are read by who does not know all of their keys,
//! and a key that an older service does not send has a default. Of requests no unknown key is taken.

pub mod apps; // what is where, and removals
pub mod audit; // who did what
pub mod builds; // what could be deployed
pub mod deployments; // what happened
pub(crate) mod forms; // patterns of names and texts
pub mod locks; // what people keep back
pub mod plans; // what a deployment would do
pub mod problem; // errors
pub mod revisions; // what an app was
pub mod rollbacks; // a former revision made live again, and holds
pub mod service; // who calls, and what there is to deploy from and to

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
