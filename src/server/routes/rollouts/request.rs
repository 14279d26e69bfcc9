//! Reads the body of a request for a rollout: every name parsed, the selection as the planner takes it. Pure.

use crate::api::rollouts::{OverlapChoice, RolloutStartRequest};
use crate::deployments::rollouts::{OverlapPolicy, RolloutRequest, RolloutSteps};
use crate::model::id::{AppName, IdError, ImageTag, RepoName, RolloutName};
use crate::model::removal;
use crate::pipeline::rollout_plan::{RolloutOptions, RolloutSelection, TargetFilter};
use crate::server::routes::deployments::check_ref;

/// Reads the body; the message says which part is wrong.
pub(super) fn read(body: RolloutStartRequest) -> Result<RolloutRequest, String> {
    let RolloutStartRequest {
        repository,
        app_name,
        git_ref,
        tag,
        name,
        targets,
        labels,
        pattern,
        parallel,
        max_failures,
        on_failure,
        timeout,
        bake,
        weights,
        gates,
        on_overlap,
        reason,
        dry_run: _,
    } = body;
    let id_error = |key: &'static str| move |error: IdError| format!("{key}: {error}");
    check_ref(&git_ref)?;
    let is_filtered = !targets.is_empty() || !labels.is_empty() || pattern.is_some();
    let selection = match name {
        Some(_) if is_filtered => {
            return Err(
                "`name` is a rollout of the WAML, which has its own targets: leave `targets`, \
                        `labels` and `match` out, or `name`"
                    .to_owned(),
            );
        }
        Some(name) => {
            RolloutSelection::Definition(RolloutName::parse(name).map_err(id_error("name"))?)
        }
        None => {
            RolloutSelection::Targets(TargetFilter { patterns: targets, regex: pattern, labels })
        }
    };
    let gates = gates.map(RolloutName::parse).transpose().map_err(id_error("gates"))?;
    let options =
        RolloutOptions { parallel, max_failures, on_failure, timeout, bake, weights, gates };
    Ok(RolloutRequest {
        repository: RepoName::parse(repository).map_err(id_error("repository"))?,
        app: app_name.map(AppName::parse).transpose().map_err(id_error("app_name"))?,
        git_ref,
        tag: ImageTag::parse(tag).map_err(id_error("tag"))?,
        steps: RolloutSteps::Selection { selection, options },
        on_overlap: match on_overlap {
            Some(OverlapChoice::Queue) => OverlapPolicy::Queue,
            Some(OverlapChoice::Refuse) | None => OverlapPolicy::Refuse,
        },
        reason: reason.map(|reason| removal::reason(&reason)).transpose()?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use crate::api::rollouts::RolloutFailurePolicy;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_body_is_a_selection_with_its_options_or_names_what_is_wrong() {
        let body = json!({
            "repository": "acme/shop", "ref": "main", "tag": "1.0", "targets": ["prod-*"], "parallel": 2,
            "on_failure": "pause", "on_overlap": "queue",
        });
        let request = read(from_value(body.clone()).unwrap()).unwrap();
        let RolloutSteps::Selection { selection, options } = request.steps else { panic!() };
        assert!(matches!(selection, RolloutSelection::Targets(_)), "{selection:?}");
        assert_eq!(
            (options.parallel, options.on_failure),
            (Some(2), Some(RolloutFailurePolicy::Pause))
        );
        assert_eq!((request.on_overlap, request.reason.as_str()), (OverlapPolicy::Queue, ""));
        for (key, value, message) in [
            ("repository", json!("shop"), "repository: "),
            ("ref", json!(""), "ref: "),
            ("tag", json!("a b"), "tag: "),
            ("name", json!("production"), "`name` is a rollout of the WAML"),
            ("reason", json!("by ops\u{202e}x"), "the reason has"),
        ] {
            let mut wrong = body.clone();
            wrong[key] = value;
            let error = read(from_value(wrong).unwrap()).unwrap_err();
            assert!(error.starts_with(message), "{key}: {error}");
        }
    }
}
