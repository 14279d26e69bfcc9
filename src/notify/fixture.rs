//! A deployment, for unit tests of what is told of one.

use jiff::Timestamp;

use crate::model::deploy_clock::DeployMarks;
use crate::model::deployment::{Deployment, Pushed, Stage, StageTime, State};
use crate::model::event::{DeploymentRequest, Recipient};
use crate::model::id::{
    AppKey, CommitSha, DeployId, ImageTag, Namespace, RepoName, Slug, TargetName,
};
use crate::model::release::Release;
use crate::model::revision::Digest;

/// Returns a deployment of `shop/web` to `prod` in that state, with its push where it succeeded.
pub(crate) fn deployment(state: State) -> Deployment {
    let commit = |c: &str| CommitSha::parse(c.repeat(40)).unwrap();
    Deployment {
        id: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
        request: DeploymentRequest {
            forge_id: 7,
            release: Release {
                repository: RepoName::parse("Acme/Web").unwrap(),
                app: None,
                commit: commit("a"),
                tag: ImageTag::parse("1.2").unwrap(),
            },
            target: TargetName::parse("prod").unwrap(),
            git_ref: "main".to_owned(),
            actor: "octo".to_owned(),
            description: String::new(),
            production: true,
            automatic: false,
            recipient: Recipient::Actor,
            identity: None,
            requested_at: None,
        },
        app: Some(AppKey {
            namespace: Namespace::parse("shop").unwrap(),
            slug: Slug::parse("web").unwrap(),
        }),
        state,
        received_at: Timestamp::UNIX_EPOCH,
        pushed_at: None,
        finished_at: state.is_final().then_some(Timestamp::UNIX_EPOCH),
        waiting: None,
        log_tail: Vec::new(),
        marks: DeployMarks::default(),
        stages: vec![StageTime { stage: Stage::Push, micros: 61_000 }],
        summary: "port 80 is not served".to_owned(),
        violations: vec![].into(),
        pushed: (state == State::Succeeded).then(|| Pushed {
            commit: commit("b"),
            changed: true,
            digest: Digest("sha256:cc".to_owned()),
            files: vec!["deployment.yaml".to_owned()],
        }),
        rollback: None,
        rollout: None,
        fleet: None,
        all_apps: false,
        parent: None,
        hand_edit: None,
        template: None,
        templates_commit: None,
        contact: None,
        address: None,
        attempts: 1,
    }
}
