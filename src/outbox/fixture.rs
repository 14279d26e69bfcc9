//! A message of the outbox, for unit tests.

use jiff::Timestamp;

use crate::model::deployment::ForgeState;
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
