//! A secret as it was read, with the version that a write must still find, and edits of it. Pure.
//!
//! No type here prints a value: none has `Debug`, and none is serialized.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use serde_json::Value as Json;

/// The largest value, in bytes (Kubernetes' limit of a Secret, and Vault's default of an entry).
pub(in crate::cli) const MAX_VALUE: usize = 1024 * 1024;

/// A value.
pub(in crate::cli) enum StoredValue {
    /// Bytes: text, as a rule.
    Bytes(SecretSlice<u8>),
    /// Something else than a text that Vault keeps, such as a number; its JSON.
    Json(SecretString),
}

/// A secret without its values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct SecretState {
    /// True if there is one.
    pub(in crate::cli) exists: bool,
    pub(in crate::cli) keys: BTreeSet<String>,
    /// The version, as the store counts.
    pub(in crate::cli) version: Option<String>,
    /// The time of that version.
    pub(in crate::cli) since: Option<Timestamp>,
}

/// A secret as it was read.
pub(in crate::cli) struct StoredSecret {
    pub(in crate::cli) state: SecretState,
    pub(in crate::cli) values: BTreeMap<String, StoredValue>,
    pub(super) base: WriteBase,
}

/// The version that a write must still find.
pub(super) enum WriteBase {
    /// The version in Vault; 0 where there was never one.
    Vault(u64),
    /// The object without its data; `None` where there is none.
    Kubernetes(Option<Box<Json>>),
}

impl StoredValue {
    /// Makes a value of a text.
    pub(in crate::cli) fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec().into())
    }

    /// Makes a value of bytes.
    pub(in crate::cli) fn bytes(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// Makes a value of what Vault keeps.
    pub(super) fn from_vault(json: &Json) -> Self {
        match json {
            Json::String(text) => Self::text(text),
            other => Self::Json(other.to_string().into()),
        }
    }

    /// Returns what Vault is to keep; `None` for bytes that are no text.
    pub(super) fn to_vault(&self) -> Option<Json> {
        match self {
            Self::Bytes(bytes) => {
                Some(std::str::from_utf8(bytes.expose_secret()).ok()?.to_owned().into())
            }
            Self::Json(text) => serde_json::from_str(text.expose_secret()).ok(),
        }
    }

    /// Returns the bytes that a process gets.
    pub(in crate::cli) fn expose(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.expose_secret(),
            Self::Json(text) => text.expose_secret().as_bytes(),
        }
    }

    /// Returns the value as text; `None` if it is none.
    pub(in crate::cli) fn expose_text(&self) -> Option<&str> {
        std::str::from_utf8(self.expose()).ok()
    }
}

impl StoredSecret {
    /// Gives a key a value.
    pub(in crate::cli) fn set(&mut self, key: &str, value: StoredValue) {
        self.state.keys.insert(key.to_owned());
        self.values.insert(key.to_owned(), value);
    }

    /// Removes a key; returns whether it was there.
    pub(in crate::cli) fn unset(&mut self, key: &str) -> bool {
        self.state.keys.remove(key);
        self.values.remove(key).is_some()
    }
}

/// The keys of a secret that a copy takes, leaves and misses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct CopyPlan {
    /// The keys to copy.
    pub(in crate::cli) copied: Vec<String>,
    /// The keys that the other target has already.
    pub(in crate::cli) left: Vec<String>,
    /// The keys that the app wants and the source lacks.
    pub(in crate::cli) absent: Vec<String>,
}

/// Decides which keys to copy: those that are wanted, or all where the whole secret is; none that is there already,
/// unless it is to be overwritten.
pub(in crate::cli) fn plan_copy(
    from: &BTreeSet<String>,
    to: &BTreeSet<String>,
    keys: Option<&BTreeSet<String>>,
    overwrite: bool,
) -> CopyPlan {
    let mut plan = CopyPlan::default();
    for key in keys.unwrap_or(from) {
        if !from.contains(key) {
            plan.absent.push(key.clone());
        } else if to.contains(key) && !overwrite {
            plan.left.push(key.clone());
        } else {
            plan.copied.push(key.clone());
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn a_copy_leaves_what_is_there_and_says_what_is_missing() {
        let (from, to) = (set(&["a", "b", "extra"]), set(&["b"]));
        let wanted = set(&["a", "b", "c"]);
        let plan = plan_copy(&from, &to, Some(&wanted), false);
        assert_eq!(
            (plan.copied, plan.left, plan.absent),
            (vec!["a".into()], vec!["b".into()], vec!["c".into()])
        );
        let plan = plan_copy(&from, &to, None, true);
        assert_eq!(plan.copied, ["a", "b", "extra"]);
    }

    #[test]
    fn what_vault_keeps_besides_texts_stays_what_it_is() {
        for json in [Json::from(5), Json::from("5"), serde_json::json!({"a": [1, null]})] {
            assert_eq!(StoredValue::from_vault(&json).to_vault(), Some(json));
        }
        assert_eq!(StoredValue::from_vault(&Json::from(5)).expose(), b"5");
        assert!(StoredValue::bytes(vec![0xff]).to_vault().is_none(), "Vault keeps texts");
    }
}
