//! Requests to deploy, as short as a test wants them.

use jiff::Timestamp;
use the_deployer::model::audit::{AuditRecord, AuthMethod, Principal};
use the_deployer::model::event::{DeploymentRequest, PullRequest, Recipient};
use the_deployer::model::id::{CommitSha, DeliveryId, DeployId, ImageTag, RepoName, TargetName};
use the_deployer::model::release::Release;

/// The forge's deployment `forge_id` of `acme/<repository>` to a target, tag `v<forge_id>`.
pub(crate) fn request(repository: &str, target: &str, forge_id: i64) -> DeploymentRequest {
    DeploymentRequest {
        forge_id,
        release: Release {
            repository: RepoName::parse(format!("acme/{repository}")).unwrap(),
            app: None,
            commit: CommitSha::parse(format!("{forge_id:040x}")).unwrap(),
            tag: ImageTag::parse(format!("v{forge_id}")).unwrap(),
        },
        target: TargetName::parse(target).unwrap(),
        git_ref: "main".to_owned(),
        actor: "jo".to_owned(),
        description: String::new(),
        production: false,
        automatic: false,
        recipient: Recipient::Actor,
        identity: None,
        requested_at: None,
    }
}

/// Pull request `number` of `acme/web`, when its head was pushed for the `n`th time.
pub(crate) fn pull_request(number: i64, n: i64) -> PullRequest {
    let repository = RepoName::parse("acme/web").unwrap();
    PullRequest {
        head_repository: Some(repository.clone()),
        repository,
        number,
        head: CommitSha::parse(format!("{n:040x}")).unwrap(),
        base: "main".to_owned(),
        base_commit: CommitSha::parse("b".repeat(40)).unwrap(),
        draft: false,
        author: "jo".to_owned(),
        open: true,
        updated_at: at(n),
    }
}

/// Seconds after some time in 2026.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_240_000 + seconds).unwrap()
}

/// The deploy id of a number; greater numbers sort later.
pub(crate) fn id(n: i64) -> DeployId {
    DeployId::parse(format!("20261121-054812123-{n:06x}")).unwrap()
}

/// The delivery id of a number.
pub(crate) fn delivery(n: i64) -> DeliveryId {
    DeliveryId::parse(format!("delivery-{n}")).unwrap()
}

/// Who acts, where it does not matter.
pub(crate) fn somebody() -> Principal {
    Principal { name: "octocat".to_owned(), via: AuthMethod::Loopback, from: None, request: None }
}

/// What the audit log gets of somebody's act `n`.
pub(crate) fn entry(
    act: &'static str,
    n: i64,
    by: &str,
    reason: &str,
    at: Timestamp,
) -> AuditRecord {
    AuditRecord {
        id: id(n),
        at,
        by: Principal { name: by.to_owned(), via: AuthMethod::Operator, from: None, request: None },
        act: act.into(),
        target: None,
        app: None,
        subject: String::new(),
        reason: reason.to_owned(),
        outcome: "done".to_owned(),
    }
}
