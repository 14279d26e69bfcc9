//! Locks: stops of deployments, with a reason.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::api::forms;
use crate::model::id::LockId;
use crate::model::lock::{self, Lock};
use crate::support::time_text::{self, DURATIONS, MOMENTS};

/// The request to place a lock.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct LockRequest {
    /// The scope.
    #[serde(deserialize_with = "KnownScope::deserialize")]
    #[schemars(with = "ScopeForm")]
    pub scope: LockScope,
    /// The reason, which refused deployments show.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
    /// The end; absent: until the lock is removed.
    #[serde(default, deserialize_with = "moment", skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if)]
    pub until: Option<Timestamp>,
    /// The duration: `2h`, `2d`.
    #[serde(
        default,
        rename = "for",
        deserialize_with = "duration",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfDuration>")]
    pub lasting: Option<SignedDuration>,
}

/// Parses the end of a lock; errors are in the service's words.
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    time_text::moment(&text).map(Some).ok_or_else(|| D::Error::custom(MOMENTS))
}

/// Parses the duration of a lock.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SignedDuration>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    time_text::duration(&text).map(Some).ok_or_else(|| D::Error::custom(DURATIONS))
}

/// The request to remove a lock.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct UnlockRequest {
    /// The reason.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
}

/// The scope of a new lock: one of these.
#[derive(JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[expect(dead_code, reason = "it says what `KnownScope` takes")]
enum ScopeForm {
    /// Every deployment.
    Everything {
        /// `true`.
        #[schemars(extend("const" = true))]
        everything: bool,
    },
    /// Every deployment to a target.
    Target {
        /// The target.
        #[schemars(with = "forms::OfTarget")]
        target: String,
    },
    /// One app on a target.
    App {
        /// The target.
        #[schemars(with = "forms::OfTarget")]
        target: String,
        /// `namespace/slug`.
        #[schemars(with = "forms::OfApp")]
        app: String,
    },
    /// Every app of an owner.
    Owner {
        /// The WAML's `owner`.
        #[schemars(with = "forms::OfOwner")]
        owner: String,
    },
}

/// The scope of a lock: `{"everything": true}`, `{"target": T}`, `{"owner": O}`, or `{"target": T, "app":
/// "NAMESPACE/SLUG"}`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct LockScope {
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Every deployment.
    pub everything: Option<bool>,
    /// Every deployment to a target; with `app`, only that app's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Every app of an owner (the WAML's `owner`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// `namespace/slug`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

/// A scope in a request, which refuses unknown keys; an answer may have keys that the client does not know.
#[derive(Deserialize)]
#[serde(remote = "LockScope", expecting = "a map", deny_unknown_fields)]
struct KnownScope {
    everything: Option<bool>,
    target: Option<String>,
    owner: Option<String>,
    app: Option<String>,
}

/// A lock as callers see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Lock")]
pub struct LockSummary {
    /// The id: eight hexadecimal digits.
    pub id: String,
    /// The scope.
    pub scope: LockScope,
    /// The reason.
    pub reason: String,
    /// The person or token that placed it.
    pub by: String,
    /// The time when it was placed.
    pub since: Timestamp,
    /// The end; null: until it is removed.
    pub until: Option<Timestamp>,
}

/// The active locks, oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LockPage {
    /// All active locks that pass the filter.
    pub locks: Vec<LockSummary>,
}

impl From<(LockId, Lock)> for LockSummary {
    fn from((id, lock): (LockId, Lock)) -> Self {
        let Lock { scope, reason, by, since, until } = lock;
        Self { id: id.to_string(), scope: scope.into(), reason, by, since, until }
    }
}

impl fmt::Display for LockScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, &self.app, &self.owner) {
            (Some(target), Some(app), _) => write!(f, "{app} on {target}"),
            (Some(target), None, _) => write!(f, "everything on {target}"),
            (None, _, Some(owner)) => write!(f, "the apps of {owner}"),
            (None, _, None) => f.write_str("everything"),
        }
    }
}

impl From<lock::LockScope> for LockScope {
    fn from(scope: lock::LockScope) -> Self {
        let nothing = Self::default();
        match scope {
            lock::LockScope::Everything => Self { everything: Some(true), ..nothing },
            lock::LockScope::Target(target) => Self { target: Some(target.into()), ..nothing },
            lock::LockScope::Owner(owner) => Self { owner: Some(owner), ..nothing },
            lock::LockScope::App(target, app) => {
                Self { target: Some(target.into()), app: Some(app.to_string()), ..nothing }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn a_scope_has_no_unknown_key_in_a_request_and_may_have_one_in_an_answer() {
        let scope = json!({"target": "dev", "later": 1});
        assert_eq!(from_value::<LockScope>(scope.clone()).unwrap().target.as_deref(), Some("dev"));
        let request = from_value::<LockRequest>(json!({"scope": scope, "reason": "x"}));
        let refused = request.unwrap_err().to_string();
        assert!(refused.starts_with("unknown field `later`, expected one of"), "{refused}");
    }

    #[test]
    fn a_request_is_read_as_it_was_meant() {
        let scope =
            LockScope { owner: Some("squad@example.com".to_owned()), ..LockScope::default() };
        let lasting = Some(SignedDuration::from_hours(2));
        let request = LockRequest { scope, reason: "books".to_owned(), until: None, lasting };
        let json = to_value(&request).unwrap();
        assert_eq!(json["scope"], json!({"owner": "squad@example.com"}));
        assert!(json.get("until").is_none(), "{json}");
        assert_eq!(from_value::<LockRequest>(json).unwrap().lasting, lasting);
    }
}
