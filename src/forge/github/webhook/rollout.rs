//! The rollout that a deployment's payload asks for: the name of one of the WAML, or targets and options.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::Deserialize;

use crate::forge::github::webhook::field::{
    MAX_ROLLOUT_BYTES, MalformedPayload, PayloadField, field_error,
};
use crate::model::event::{RequestedRollout, RequestedTargets};
use crate::model::id::RolloutName;
use crate::model::rollout_words::RolloutFailurePolicy;
use crate::support::time_text::{self, DURATIONS};

/// The longest problem of a description, in characters.
const PROBLEM_CHARACTERS: usize = 200;
const FIELD: &str = "deployment.payload.rollout";

/// Targets and options, with the keys of `POST /api/v1/rollouts`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TargetsPayload {
    targets: Vec<String>,
    #[serde(rename = "match")]
    pattern: Option<String>,
    labels: BTreeMap<String, String>,
    parallel: Option<usize>,
    max_failures: Option<usize>,
    on_failure: Option<RolloutFailurePolicy>,
    timeout: Option<String>,
    bake: Option<String>,
}

/// Reads what the payload has under `rollout`, as JSON.
pub(super) fn parse(json: &str) -> Result<RequestedRollout, MalformedPayload> {
    if json.len() > MAX_ROLLOUT_BYTES {
        return Err(field_error(FIELD, format!("has more than {MAX_ROLLOUT_BYTES} bytes")));
    }
    if !json.starts_with('{') {
        let name: PayloadField = serde_json::from_str(json).unwrap_or_default();
        return Ok(RequestedRollout::Name(name.id(FIELD, RolloutName::parse)?));
    }
    let payload: TargetsPayload = serde_json::from_str(json).map_err(|error| {
        let text = error.to_string();
        let text = text.chars().flat_map(char::escape_debug).take(PROBLEM_CHARACTERS);
        field_error(FIELD, format!("cannot be read: {}", text.collect::<String>()))
    })?;
    let TargetsPayload { targets: patterns, pattern: regex, labels, parallel, .. } = &payload;
    if patterns.is_empty() && regex.is_none() && labels.is_empty() {
        return Err(field_error(FIELD, "has none of `targets`, `match` and `labels`"));
    }
    Ok(RequestedRollout::Targets(RequestedTargets {
        patterns: patterns.clone(),
        regex: regex.clone(),
        labels: labels.clone(),
        parallel: *parallel,
        max_failures: payload.max_failures,
        on_failure: payload.on_failure,
        timeout: duration("timeout", payload.timeout.as_deref())?,
        bake: duration("bake", payload.bake.as_deref())?,
    }))
}

fn duration(key: &str, text: Option<&str>) -> Result<Option<SignedDuration>, MalformedPayload> {
    let Some(text) = text else { return Ok(None) };
    let length = time_text::duration(text).filter(SignedDuration::is_positive);
    length.map(Some).ok_or_else(|| field_error(FIELD, format!("`{key}` is no time: {DURATIONS}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn targets_and_options_have_the_keys_of_the_api() {
        let value = json!({
            "targets": ["canary-1", "prod-*"], "match": "prod-.*", "labels": {"region": "eu"}, "parallel": 2,
            "max_failures": 1, "on_failure": "pause", "timeout": "20m", "bake": "10m",
        });
        let requested = RequestedTargets {
            patterns: vec!["canary-1".to_owned(), "prod-*".to_owned()],
            regex: Some("prod-.*".to_owned()),
            labels: BTreeMap::from([("region".to_owned(), "eu".to_owned())]),
            parallel: Some(2),
            max_failures: Some(1),
            on_failure: Some(RolloutFailurePolicy::Pause),
            timeout: Some(SignedDuration::from_mins(20)),
            bake: Some(SignedDuration::from_mins(10)),
        };
        assert_eq!(parse(&value.to_string()), Ok(RequestedRollout::Targets(requested)));
    }

    #[test]
    fn a_wrong_description_is_refused_in_short_words() {
        let long = json!({"targets": ["x".repeat(MAX_ROLLOUT_BYTES)]});
        let unknown = json!({"x".repeat(1000): 1});
        for (value, problem) in [
            (json!({}), "none of `targets`, `match` and `labels`"),
            (json!({"parallel": 2}), "none of `targets`"),
            (json!({"targets": ["a"], "bake": "soon"}), "`bake` is no time"),
            (json!({"targets": ["a"], "timeout": "-5m"}), "`timeout` is no time"),
            (json!({"targets": "a"}), "cannot be read"),
            (json!({"targets": ["a"], "gates": []}), "unknown field"),
            (json!({"targets": ["a"], "on_failure": "explode\n"}), "explode\\n"),
            (unknown, "unknown field"),
            (long, "more than"),
            (json!(["a"]), "is a list"),
        ] {
            let value: Value = value;
            let error = parse(&value.to_string()).unwrap_err().to_string();
            assert!(error.contains(problem), "{value}: {error}");
            assert!(error.len() < 300 && !error.chars().any(char::is_control), "{error}");
        }
    }
}
