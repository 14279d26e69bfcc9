//! Rollbacks, as short as a test wants them.

use the_deployer::model::audit::{AuditRecord, AuthMethod, Principal};
use the_deployer::model::event::DeploymentRequest;
use the_deployer::model::id::AppKey;
use the_deployer::model::rollback::{Rollback, TreeId, provisional_number};
use the_deployer::store::NewRollback;

use crate::harness::requests::{at, id, request};

/// The app of `acme/web`.
pub(crate) fn app() -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: "web".parse().unwrap() }
}

/// What the audit log has of an act of Alice's.
pub(crate) fn entry(n: i64, act: &'static str, reason: &str) -> AuditRecord {
    let by = Principal { name: "alice".into(), via: AuthMethod::Token, from: None, request: None };
    AuditRecord {
        id: id(n),
        at: at(n),
        by,
        act: act.into(),
        target: Some("prod".parse().unwrap()),
        app: Some(app()),
        subject: String::new(),
        reason: reason.into(),
        outcome: "asked for".into(),
    }
}

/// A rollback of `acme/web` on `prod` to what deployment `to` deployed.
pub(crate) fn new(n: i64, to: i64) -> NewRollback {
    let asked = request("web", "prod", to);
    let rollback = Rollback {
        with_data: false,
        with_fewer_pods: false,
        undoes: None,
        replaces: None,
        only_from: false,
        to: id(to),
        from: Some(id(to + 1)),
        away: Some(request("web", "prod", to + 1).release),
        tree: TreeId("ab".repeat(20)),
        reason: "broken".into(),
        hold: true,
    };
    NewRollback {
        id: id(n),
        request: DeploymentRequest { forge_id: provisional_number(&id(n)), ..asked },
        app: app(),
        rollback,
        template: Some("backend-default@latest".into()),
        contact: None,
        address: None,
        rollout: None,
    }
}
