//! A message of the outbox and a workload of a preview environment, for unit tests.

use jiff::Timestamp;

use crate::model::deployment::ForgeState;
use crate::model::environment::{
    EnvironmentCommit, EnvironmentState, EnvironmentWorkload, WorkloadName,
};
use crate::model::id::{CommitSha, DeployId, RepoName, TargetName};
use crate::model::notice::Sink;
use crate::model::status::ForgeStatus;
use crate::store::OutboxMessage;

/// Returns a first attempt at a message about a deployment of `acme/web` to `prod`, due at that
/// time.
pub(super) fn message(sink: Sink, state: ForgeState, at: Timestamp) -> OutboxMessage {
    OutboxMessage {
        deployment: DeployId::parse("20261121-054812123-000001").unwrap(),
        sink,
        seq: 1,
        repository: RepoName::parse("acme/web").unwrap(),
        commit: CommitSha::parse("ab".repeat(20)).unwrap(),
        target: TargetName::parse("prod").unwrap(),
        forge_id: 1,
        place: 1,
        status: ForgeStatus::new(state, ""),
        at,
        due_at: at,
        attempts: 1,
        failures: 0,
        unsure: false,
        followed: false,
        continues: false,
    }
}

/// Returns a Deployment of a pull request of `acme/web` in that state, forty-two seconds after it began.
pub(super) fn environment_workload(name: &str, state: EnvironmentState) -> EnvironmentWorkload {
    EnvironmentWorkload {
        cluster: TargetName::parse("dev").unwrap(),
        workload: WorkloadName::parse(&format!("Deployment/pr-12/{name}")).unwrap(),
        commit: EnvironmentCommit {
            repository: RepoName::parse("acme/web").unwrap(),
            commit: CommitSha::parse("ab".repeat(20)).unwrap(),
            pull_request: Some(12),
            link: None,
        },
        context: format!("the-deployer/preview/dev/pr-12/deployment/{name}"),
        state,
        sentence: "2 of 2 available".to_owned(),
        announced: true,
        first_at: 1_000_000,
        began_at: 1_000_000,
        ended_at: (state != EnvironmentState::Waiting).then_some(1_042_500),
    }
}
