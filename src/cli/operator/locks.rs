//! `the-deployer lock`, `unlock` and `locks` change locks in the database of the configuration.

use clap::{ArgGroup, Args};
use jiff::{SignedDuration, Timestamp};

use super::config::ConfigSource;
use super::ledger::{OperatorIdentity, app, open, open_for, unusable};
use crate::api::locks::{LockPage, LockSummary};
use crate::cli::bart::lock::{self, ends};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, Format, GOOD};
use crate::cli::times::{self, TimeFormatter};
use crate::deployments::locks::{LockError, LockExpiry, NewLock, UnlockError};
use crate::model::id::{AppKey, LockId, TargetName};
use crate::model::lock::{Lock as InstanceState, LockFilter, LockScope};
use crate::store::Reply;

/// Stops deployments until the lock ends or is removed.
///
/// The scope is everything, a target, an app on a target, or all apps of an owner (the WAML's `owner`). A locked
/// deployment is refused with the reason. Prints the lock's id.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("scope").required(true).args(["everything", "target", "owner"])))]
pub(super) struct OperatorLockArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// Every deployment
    #[arg(long)]
    everything: bool,
    /// Every deployment to this target
    #[arg(long)]
    target: Option<TargetName>,
    /// Only this app on that target
    #[arg(long, value_name = "NAMESPACE/APP", value_parser = app, requires = "target")]
    app: Option<AppKey>,
    /// Every app of this owner
    #[arg(long, value_name = "EMAIL")]
    owner: Option<String>,
    /// The end: 2026-11-22 (its beginning, UTC), 2026-11-22T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "lasting", value_parser = times::end)]
    until: Option<Timestamp>,
    /// The duration: `90m`, `2h`, `2d`
    #[arg(long = "for", value_name = "DURATION", value_parser = times::duration)]
    lasting: Option<SignedDuration>,
    #[command(flatten)]
    who: OperatorIdentity,
}

/// Removes a lock.
///
/// Exit codes: 0 removed, 1 there is no active lock with that id, 2 wrong usage or a database that cannot be used.
#[derive(Debug, Args)]
pub(super) struct OperatorUnlockArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// The lock's id, as `lock` and `locks` print it
    #[arg(value_name = "ID")]
    id: LockId,
    #[command(flatten)]
    who: OperatorIdentity,
}

/// Lists the active locks.
#[derive(Debug, Args)]
pub(super) struct OperatorLocksArgs {
    #[command(flatten)]
    source: ConfigSource,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl OperatorLockArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let (by, reason) = self.who.act()?;
        let ledger = open_for(&self.source, self.target.as_ref()).await?;
        let ends_by = self.lasting.map(LockExpiry::After).or(self.until.map(LockExpiry::At));
        let request = NewLock { scope: self.scope()?, reason, ends: ends_by };
        let lock = ledger.lock(request, by, &Reply::without_key()).await.map_err(not_locked)?;
        ledger.close().await;
        let (id, InstanceState { scope, until, .. }) = lock;
        output::print(&format!("{GOOD}locked{GOOD:#} {scope}{}: {id}\n", ends(until)))
    }

    fn scope(&self) -> Result<LockScope, CliError> {
        let Self { target, app, owner, .. } = self;
        Ok(match (target.clone(), app.clone(), owner.as_deref().map(str::trim)) {
            (Some(target), Some(app), _) => LockScope::App(target, app),
            (Some(target), None, _) => LockScope::Target(target),
            (None, _, Some("")) => return Err(CliError::usage("--owner must not be empty")),
            (None, _, Some(owner)) => LockScope::Owner(owner.to_owned()),
            (None, _, None) => LockScope::Everything,
        })
    }
}

fn not_locked(error: LockError) -> CliError {
    match error {
        LockError::Unmeant(_) => CliError::usage(error.to_string()),
        LockError::TooLong => {
            CliError::usage("--for is too long; a lock without it stays until `unlock`")
        }
        LockError::TooMany => CliError::io(format!("cannot place another lock: {error}")),
        LockError::Fault(fault) => unusable(fault),
    }
}

impl OperatorUnlockArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let (by, reason) = self.who.act()?;
        let ledger = open(&self.source).await?;
        let result = ledger.unlock(&self.id, reason, by, &Reply::without_key()).await;
        ledger.close().await;
        match result {
            Ok(InstanceState { scope, .. }) => {
                output::print(&format!("{GOOD}unlocked{GOOD:#} {scope}\n"))
            }
            Err(UnlockError::Fault(fault)) => Err(unusable(fault)),
            Err(error) => Err(CliError::refused(explain_missing(&error))
                .hint("`the-deployer locks` lists the active ones")),
        }
    }
}

/// Explains why a lock cannot be removed.
fn explain_missing(error: &UnlockError) -> String {
    match error {
        UnlockError::Gone { id, by, at, why: reason } => {
            let ago = TimeFormatter::system().ago(*at);
            format!("there is no lock {id} any more: {by} removed it, {ago}: {reason}")
        }
        UnlockError::RanOut(id) => {
            format!("there is no lock {id} any more: it expired")
        }
        UnlockError::Unknown(_) | UnlockError::Fault(_) => error.to_string(),
    }
}

impl OperatorLocksArgs {
    pub(super) async fn run(&self) -> CommandOutcome {
        let ledger = open(&self.source).await?;
        let locks = ledger.locks(&LockFilter::default()).await.map_err(unusable)?;
        ledger.close().await;
        let locks = locks.into_iter().map(LockSummary::from).collect();
        let page = LockPage { locks };
        self.output.print(&page, || lock::list(&page.locks))
    }
}
