//! `bart lock`, `unlock` and `locks` stop deployments for a while, with a reason.

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::api::locks::{LockPage, LockRequest, LockScope, LockSummary, UnlockRequest};
use crate::cli::context::{AppSelector, Context, ServiceArgs};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, DIM, GOOD};
use crate::cli::table::{Column, table};
use crate::cli::times::{self, SINCE, TimeFormatter, UNTIL};
use crate::cli::verbatim::Verbatim;
use crate::model::id::{LockId, TargetName};
use crate::model::removal;

/// Stops deployments until the lock ends or is removed.
///
/// A locked deployment is refused with the reason and your name. Once the lock exists, no push in its scope begins;
/// what is live stays live.
///
/// Without options it locks the app of the working folder on a target. Wider locks (a whole target, everything) need
/// the rights of an operator.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart lock prod-cluster-1 --reason 'the database moves' --for 2h
  bart lock prod-cluster-1 --app devx/my-app --reason 'under investigation'
  bart lock prod-cluster-1 --all --reason 'the cluster is upgraded' --until 2026-11-22
  bart lock --owner squad@example.com --reason 'nobody is on call'
  bart lock --everything --reason 'an incident'

Exit codes: 0 locked, 1 refused, 2 wrong usage or no answer.")]
pub(super) struct LockArgs {
    /// The target
    #[arg(required_unless_present_any = ["everything", "owner"])]
    target: Option<TargetName>,
    /// Lock every app on the target
    #[arg(long, requires = "target", conflicts_with_all = ["app", "everything", "owner"])]
    all: bool,
    /// Lock everything on all targets
    #[arg(long, conflicts_with_all = ["target", "app", "owner"])]
    everything: bool,
    /// Lock every app of this owner (the WAML's `owner`) on all targets
    #[arg(long, value_name = "EMAIL", conflicts_with_all = ["target", "app"])]
    owner: Option<String>,
    #[command(flatten)]
    about: AppSelector,
    /// The reason; refused deployments show it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    /// The end: 2026-11-22 (its beginning, UTC), 2026-11-22T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "lasting", value_parser = times::end)]
    until: Option<Timestamp>,
    /// The duration: `90m`, `2h`, `2d`
    #[arg(long = "for", value_name = "DURATION", value_parser = times::duration)]
    lasting: Option<SignedDuration>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Removes a lock by its id, or those of the app of the working folder on a target.
///
/// Remove locks of a whole target, an owner or everything by their ids, which `bart locks` shows.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart unlock 3f9a2c41 --reason 'it is over'
  bart unlock prod-cluster-1 --reason 'the database has moved'

Exit codes: 0 unlocked, 1 refused, 2 wrong usage or no answer.")]
pub(super) struct UnlockArgs {
    /// The lock's id, or the target
    #[arg(value_name = "ID|TARGET")]
    what: String,
    #[command(flatten)]
    about: AppSelector,
    /// The reason; it is stored with the lock
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Lists the active locks: the scope of each, who placed it, its end, and the reason.
///
/// Without options it lists all locks; with a target those that can stop a deployment to it, including locks on
/// everything and on owners.
#[derive(Debug, Args)]
pub(super) struct LocksArgs {
    /// Only locks that can stop a deployment to this target
    target: Option<TargetName>,
    /// Only locks that can stop apps of this owner
    #[arg(long, value_name = "EMAIL")]
    owner: Option<String>,
    #[command(flatten)]
    context: Context,
}

impl LockArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let request = LockRequest {
            scope: self.scope().await?,
            reason: self.reason.clone(),
            until: self.until,
            lasting: self.lasting,
        };
        let ServiceArgs { server, output } = &self.service;
        let lock = server.post("/api/v1/locks", &request).await;
        let names = self.about.names(self.target.as_ref());
        let lock: Verbatim<LockSummary> = server.suggest(lock, &names).await?;
        output.print(&lock, || {
            let LockSummary { id, scope, until, .. } = &*lock;
            let until = ends(*until);
            format!(
                "{GOOD}locked{GOOD:#} {BOLD}{scope}{BOLD:#}{until}: {id}\n{DIM}`bart unlock {id} \
                 --reason TEXT` removes it{DIM:#}\n"
            )
        })
    }

    async fn scope(&self) -> Result<LockScope, CliError> {
        if self.everything {
            return Ok(LockScope { everything: Some(true), ..LockScope::default() });
        }
        if let Some(owner) = &self.owner {
            return Ok(LockScope { owner: Some(owner.clone()), ..LockScope::default() });
        }
        let target = self.target.as_ref().map(ToString::to_string);
        let mut app = None;
        if !self.all {
            app = Some(self.service.server.find_app(&self.about).await?.to_string());
        }
        Ok(LockScope { target, app, ..LockScope::default() })
    }
}

impl UnlockArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let ids = match LockId::parse(self.what.as_str()) {
            Ok(id) => vec![id.to_string()],
            Err(_) => self.of_app().await?,
        };
        let request = UnlockRequest { reason: self.reason.clone() };
        let mut locks = Vec::new();
        for id in ids {
            let path = format!("/api/v1/locks/{id}/remove");
            let lock: Verbatim<LockSummary> = self.service.server.post(&path, &request).await?;
            if !self.service.output.is_data() {
                output::print(&format!("{GOOD}unlocked{GOOD:#} {}\n", lock.scope))?;
            }
            locks.push(lock);
        }
        self.service.output.print(&json!({"locks": locks}), String::new)
    }

    /// Returns the ids of the locks on the app itself on that target.
    async fn of_app(&self) -> Result<Vec<String>, CliError> {
        let target = TargetName::parse(self.what.as_str()).map_err(|error| {
            CliError::usage(format!("{} is neither a lock's id nor a target: {error}", self.what))
                .hint("`bart locks` shows the ids")
        })?;
        let server = &self.service.server;
        let app = server.find_app(&self.about).await?.to_string();
        let query = [("target", target.to_string()), ("app", app.clone())];
        let list: LockPage = server.get("/api/v1/locks", &query).await?;
        let app_locks = list.locks.into_iter().filter(|lock| lock.scope.app.is_some());
        let ids: Vec<String> = app_locks.map(|lock| lock.id).collect();
        if ids.is_empty() {
            let message = format!("{app} on {target} has no lock of its own");
            let hint = format!("`bart locks {target}` shows what else stops it");
            let none = CliError::refused(message).hint(hint);
            return server.suggest(Err(none), &self.about.names(Some(&target))).await;
        }
        Ok(ids)
    }
}

impl LocksArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let Context { about, server, output } = &self.context;
        let mut query = Vec::new();
        query.extend(self.target.iter().map(|target| ("target", target.to_string())));
        query.extend(self.owner.iter().map(|owner| ("owner", owner.clone())));
        if about.is_given() {
            query.push(("app", server.find_app(about).await?.to_string()));
        }
        let list: Verbatim<LockPage> = server.get("/api/v1/locks", &query).await?;
        // A lock on everything also stops a target that does not exist: it does not show that a name is right.
        let is_named = |lock: &LockSummary| lock.scope.target.is_some() || lock.scope.app.is_some();
        if !list.locks.iter().any(is_named) {
            server.check_names(&about.names(self.target.as_ref())).await?;
        }
        output.print(&list, || self::list(&list.locks))
    }
}

/// Formats the end of a lock, if it has one.
pub(in crate::cli) fn ends(until: Option<Timestamp>) -> String {
    until.map_or_else(String::new, |at| format!(", ends {}", TimeFormatter::system().ahead(at)))
}

/// Formats the locks as a table.
pub(in crate::cli) fn list(locks: &[LockSummary]) -> String {
    if locks.is_empty() {
        return "nothing is locked\n".to_owned();
    }
    let times = TimeFormatter::system();
    let row = |LockSummary { id, scope, reason, by, since, until }: &LockSummary| {
        let (since, until) = (times.past_cell(Some(*since)), times.future_cell(*until));
        [id.clone(), scope.to_string(), by.clone(), since, until, reason.clone()]
    };
    let columns = [
        Column::whole("LOCK"),
        Column::middle("STOPS", 16),
        Column::cut("BY", 6).drop(2),
        times.column(SINCE).drop(1),
        times.column(UNTIL),
        Column::fold("REASON", 16),
    ];
    table(columns, locks.iter().map(row).collect())
}
