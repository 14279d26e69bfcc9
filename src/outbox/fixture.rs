//! A message of the outbox, a workload of a preview environment and a rollout, for unit tests.

use jiff::Timestamp;

use crate::model::deployment::ForgeState;
use crate::model::environment::{
    EnvironmentCommit, EnvironmentState, EnvironmentWorkload, WorkloadName,
};
use crate::model::id::{AppKey, CommitSha, DeployId, ImageTag, RepoName, RolloutId, TargetName};
use crate::model::notice::Sink;
use crate::model::rollout_news::{RolloutNews, RolloutPhase, RolloutTargetNews, TargetProgress};
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
        app_name: String::new(),
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
        address: None,
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

/// Returns a rollout of `devx/web` in that phase. Each character is a target, `prod-1` and so on: `.` pending, `>` under
/// way, `c` complete, `f` failed, `u` undone, `x` not undone, `-` left out.
pub(super) fn rollout_news(phase: RolloutPhase, targets: &str) -> RolloutNews {
    let progress = |letter| match letter {
        '>' => TargetProgress::UnderWay,
        'c' => TargetProgress::Complete,
        'f' => TargetProgress::Failed,
        'u' => TargetProgress::Undone,
        'x' => TargetProgress::UndoFailed,
        '-' => TargetProgress::Dropped,
        _ => TargetProgress::Pending,
    };
    let target = |(number, letter): (usize, char)| RolloutTargetNews {
        target: TargetName::parse(format!("prod-{}", number + 1)).unwrap(),
        progress: progress(letter),
        reason: None,
    };
    RolloutNews {
        id: RolloutId::parse("r-20261121-054812123-0a1b2c").unwrap(),
        name: None,
        app: AppKey { namespace: "devx".parse().unwrap(), slug: "web".parse().unwrap() },
        repository: RepoName::parse("acme/web").unwrap(),
        commit: CommitSha::parse("ab".repeat(20)).unwrap(),
        tag: ImageTag::parse("v42").unwrap(),
        starter: "octocat".to_owned(),
        phase,
        since: "2026-11-21T05:50:00Z".parse().unwrap(),
        index: 1,
        steps: 3,
        next_targets: Vec::new(),
        wait: None,
        targets: targets.chars().enumerate().map(target).collect(),
    }
}
