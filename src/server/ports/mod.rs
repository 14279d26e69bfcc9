//! What the server needs of the rest of the program, as narrow as it gets. `app` has the adapters.

mod intake; // what comes in from the forge
mod records; // what happened
mod apps; // what is where
mod app; // one app
mod acts; // what people do beside deploying
mod host; // the code host, and builds
mod locks; // what people stop
mod plans; // what a deployment would do
mod condition; // how the program is
mod visitors; // who calls
mod audit; // who did what, and acts that may be repeated

pub use acts::{Acts, Gone, NotRemoved, NotRolledBack, Outcome, Rollbacks, RolledBack, Version};
pub use app::{App, AppNow, History, NotShown, Revision, RevisionFiles, Synced};
pub use apps::{AppLine, AppState, Apps, AppsPage, AppsQuery};
pub use audit::{AuditLog, IdempotencyKeys};
pub use condition::{Check, Condition};
pub use host::{
    AppImage, Build, Builds, BuildsOfWaml, BuildsPage, BuildsQuery, CodeHost, CreatedDeployment,
    Host, NoBuilds, NotAsked, Wanted,
};
pub use intake::{Accepted, Delivery, Inbox, Intake, Noted, PullRequests, Pushes};
pub use locks::{Ends, LockRequest, Locks, NotCancelled, NotLocked, NotUnlocked};
pub use plans::{At, NotPlanned, Plan, PlanRequest, Plans};
pub use records::{Logs, Page, Query, Records, StatusRecord};
pub use visitors::Visitors;

/// Something behind the server does not work now. Its text is for the log; callers are told to
/// come again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(Box<dyn std::error::Error + Send + Sync>);

impl Fault {
    /// A fault for that cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// All of it.
pub trait Backend:
    Inbox
    + Intake
    + Pushes
    + PullRequests
    + Records
    + Apps
    + App
    + Logs
    + Condition
    + Acts
    + Rollbacks
    + Locks
    + Plans
    + Visitors
    + AuditLog
    + IdempotencyKeys
    + Host
{
}

impl<T> Backend for T where
    T: Inbox
        + Intake
        + Pushes
        + PullRequests
        + Records
        + Apps
        + App
        + Logs
        + Condition
        + Acts
        + Rollbacks
        + Locks
        + Plans
        + Visitors
        + AuditLog
        + IdempotencyKeys
        + Host
{
}
