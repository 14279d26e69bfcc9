//! Acts of people on the secrets of an app, as the audit log has them: names of keys, and never a value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::forms;
use crate::model::words::words;

/// The number of keys that one act names at most.
pub const MAX_SECRET_KEYS: usize = 500;

words! {
    /// An act on secrets.
    pub enum SecretAct {
        /// A key got a value.
        Set = "set",
        /// A key was removed.
        Unset = "unset",
        /// Keys got the values that they have on another target.
        Copy = "copy",
        /// Values were shown on a terminal.
        Reveal = "reveal",
        /// Values were read for a process on a person's machine.
        Run = "run",
    }
}

/// The request to record an act on secrets, which the caller did in the store with an own login. The service reads and
/// writes no secret, and no value is in the request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct SecretActRequest {
    /// The act.
    pub act: SecretAct,
    /// The keys, `SECRET/KEY`.
    #[schemars(with = "Vec<forms::OfSecretKey>", length(min = 1, max = MAX_SECRET_KEYS))]
    pub keys: Vec<String>,
    /// The target that values were copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfTarget>")]
    pub from: Option<String>,
    /// True if the caller only wants to know whether the act may be recorded: before it is done.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to such a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretActAnswer {
    /// True if the audit log has the act now; false after a dry run.
    pub recorded: bool,
}
