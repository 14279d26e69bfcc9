//! Passes an answer on as it arrived, with keys of a newer service that this `bart` does not know.

use std::ops::Deref;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;

/// A parsed answer, and the JSON it was parsed from: programs get the JSON.
#[derive(Debug)]
pub(super) struct Verbatim<T> {
    pub(super) value: T,
    json: Json,
}

impl<T> Verbatim<T> {
    /// Replaces the value under that key in the JSON.
    pub(super) fn set(&mut self, key: &str, value: Json) {
        if let Some(map) = self.json.as_object_mut() {
            map.insert(key.to_owned(), value);
        }
    }
}

impl<T> Deref for Verbatim<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Compares the whole JSON.
impl<T> PartialEq for Verbatim<T> {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl<T> Serialize for Verbatim<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(to)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Verbatim<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(from)?;
        let value = T::deserialize(&json).map_err(D::Error::custom)?;
        Ok(Self { value, json })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;
    use crate::api::deployments::{DeploymentPicture, DeploymentSummary};
    use crate::api::plans::{PlanAnswer, PlanOutcome};

    #[test]
    fn programs_get_what_came_and_nothing_that_did_not() {
        let answer = json!({
            "outcome": "another", "app": null, "target": "dev", "later": {"a": [1]}, "tag": "1",
            "changes": [{"kind": "Job", "name": "x", "how": "moved", "diff": "", "later": 1}],
            "violations": [], "warnings": [], "notes": [],
        });
        let mut plan: Verbatim<PlanAnswer> = from_value(answer.clone()).unwrap();
        assert_eq!((plan.outcome, plan.violations_left_out), (PlanOutcome::Changes, 0));
        assert_eq!(to_value(&plan).unwrap(), answer);
        plan.set("tag", json!("2"));
        assert_eq!(to_value(&plan).unwrap()["tag"], "2");
    }

    #[test]
    fn what_is_within_an_event_is_passed_on_without_the_rest_of_it() {
        let deployment = json!({
            "id": "x", "state": "queued", "app": null, "target": "dev", "repository": "acme/shop",
            "tag": "1", "actor": "ada", "received_at": "2026-11-21T05:48:12Z", "finished_at": null,
            "summary": "", "template": null, "errors": 0, "warnings": 0, "later": {"a": 1},
        });
        let mut event = deployment.clone();
        event["stages"] = json!([]);
        let picture: DeploymentPicture<Verbatim<DeploymentSummary>> = from_value(event).unwrap();
        assert_eq!(to_value(&picture.summary).unwrap(), deployment);
    }
}
