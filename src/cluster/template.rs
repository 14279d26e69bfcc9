//! The digest of a pod template, by which two templates are told apart without keeping them.
//!
//! A Deployment and its `ReplicaSet` objects have the same template but for a label of Kubernetes' own, which does not
//! count here. Nor does the annotation of `kubectl rollout restart`: the same release is started anew.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use crate::cluster::fields::value_at;

/// Keys that are no part of a release. By the last one Flagger takes the pods of a `DaemonSet` away.
const IGNORED: [&str; 3] =
    ["pod-template-hash", "kubectl.kubernetes.io/restartedAt", "flagger.app/scale-to-zero"];

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 32;

/// The digest of a pod template: 32 hexadecimal digits; empty where an object has no template.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TemplateHash(pub Box<str>);

impl TemplateHash {
    /// Computes the digest of the pod template at that path. The order of keys does not count, nor do values that are
    /// empty: servers of different versions write them or leave them out.
    pub(super) fn read(object: &Json, path: &[&str]) -> Self {
        let Some(template) = value_at(object, path) else { return Self::default() };
        let mut hash = Sha256::new();
        feed(template, &mut hash);
        let mut digits = hex::encode(hash.finalize());
        digits.truncate(DIGITS);
        Self(digits.into())
    }

    /// Reads a digest; `None` for a text that cannot be one.
    pub(super) fn parse(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_digest = digits.len() == DIGITS && digits.bytes().all(is_digit);
        is_digest.then(|| Self(digits.into()))
    }

    /// Checks that there was no template to read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn feed(value: &Json, hash: &mut Sha256) {
    match value {
        Json::Object(map) => {
            let mut entries: Vec<_> = map
                .iter()
                .filter(|(key, value)| !IGNORED.contains(&key.as_str()) && !is_empty(value))
                .collect();
            entries.sort_by_key(|(key, _)| *key);
            feed_text("{", hash);
            for (key, value) in entries {
                feed_text(key, hash);
                feed(value, hash);
            }
            feed_text("}", hash);
        }
        Json::Array(list) => {
            feed_text("[", hash);
            for value in list {
                feed(value, hash);
            }
            feed_text("]", hash);
        }
        Json::String(text) => {
            feed_text("text", hash);
            feed_text(text, hash);
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => feed_text(&value.to_string(), hash),
    }
}

/// The length before the text keeps two texts apart that follow each other.
fn feed_text(text: &str, hash: &mut Sha256) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}

/// A map whose only keys do not count is empty, too: annotations with nothing but the time of a restart.
fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(map) => {
            map.iter().all(|(key, value)| IGNORED.contains(&key.as_str()) || is_empty(value))
        }
        Json::Array(list) => list.is_empty(),
        Json::String(_) | Json::Bool(_) | Json::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(json: &Json) -> TemplateHash {
        TemplateHash::read(json, &[])
    }

    #[test]
    fn what_kubernetes_adds_does_not_count() {
        let plain = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": "a:1"}]}});
        let stored = json!({
            "spec": {"containers": [{"image": "a:1", "env": []}], "securityContext": {}},
            "metadata": {
                "creationTimestamp": null, "labels": {"pod-template-hash": "5b45", "app": "web"},
                "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-21T05:48:12Z"},
            },
        });
        assert_eq!(hash(&plain), hash(&stored));
        assert!(TemplateHash::read(&plain, &["none"]).is_empty());
    }

    #[test]
    fn what_is_released_counts() {
        let image = |image: &str| hash(&json!({"spec": {"containers": [{"image": image}]}}));
        assert_ne!(image("a:1"), image("a:2"));
        assert_ne!(hash(&json!({"a": ["b", "c"]})), hash(&json!({"a": ["bc"]})));
        assert_ne!(hash(&json!({"a": 1})), hash(&json!({"a": "1"})));
    }
}
