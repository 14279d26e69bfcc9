//! `bart status` shows apps, their deployments in progress and locks, and what the service waits for.

mod live; // workloads and pods as text
mod view; // the result as text

use std::collections::BTreeSet;

use super::watch::WatchArgs;

use clap::{Args, ValueEnum};
use futures::StreamExt as _;
use serde::Serialize;

use crate::api::apps::{AppDetail, AppSummary, MissingRepository};
use crate::api::deployments::{DeploymentDetail, DeploymentPage, DeploymentSummary};
use crate::api::pods::LiveStateAnswer;
use crate::api::service::Readiness;
use crate::cli::context::{self, Context, Names};
use crate::cli::deployment;
use crate::cli::error::{CliError, CliErrorKind, CommandOutcome};
use crate::cli::names::AppPages;
use crate::cli::output::{self, word};
use crate::cli::repository_apps::{AppChoiceArg, RepositoryApps};
use crate::cli::times::TimeFormatter;
use crate::cli::verbatim::Verbatim;
use crate::model::deployment::State;
use crate::model::id::{AppKey, DeployId, TargetName};

/// The number of targets that are read at the same time.
const AT_ONCE: usize = 8;
/// The largest number of deployments in each state that are listed.
const MAX_UNDER_WAY: usize = 50;

/// Shows the state of an app: what is live, in progress and locked, and what the service waits for; or one deployment
/// with all its details.
///
/// If no app is named and the working folder has no WAML, it shows all apps.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart status                             the app in this folder, on all its targets
  bart status --app devx/my-app -t dev    another one, on one target
  bart status --all                       every app
  bart status --watch                     again and again, until Ctrl-C
  bart status --owner squad@example.com   the apps of a team
  bart status --state locked              those that a lock stops
  bart status 20261121-054812123-3f9a2c   one deployment

Exit codes: 0 shown, 1 there is no such deployment, 2 wrong usage or no answer; also where a target could not be
looked at: what is known of the others is shown all the same.")]
pub(super) struct StatusArgs {
    /// A deployment's id
    #[arg(conflicts_with_all = ["target", "all"])]
    deployment: Option<DeployId>,
    /// Only on this target
    #[arg(long, short)]
    target: Option<TargetName>,
    /// Every app
    #[arg(long)]
    all: bool,
    /// Every app of this owner (the WAML's `owner`)
    #[arg(long, value_name = "EMAIL", conflicts_with_all = ["deployment", "app", "repository"])]
    owner: Option<String>,
    /// Every app in this state: live, edited (by hand), locked or held
    #[arg(long, value_enum, conflicts_with_all = ["deployment", "app", "repository"])]
    state: Option<AppState>,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    context: Context,
}

/// The state of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AppState {
    /// A revision is live, as it was pushed.
    Live,
    /// The live files were edited by hand.
    Edited,
    /// A lock stops deployments of it.
    Locked,
    /// Automation is held off it.
    Held,
}

/// An app on all its targets.
#[derive(Debug, Serialize)]
struct OneApp {
    app: String,
    /// The targets of the app, and those that its WAML names; one without a deployment has no state.
    targets: Vec<Target>,
    /// The repositories whose targets could not be read.
    missing: Vec<Verbatim<MissingRepository>>,
    service: Readiness,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the word that programs read")]
struct Target {
    target: String,
    /// The service's answer; null if the app was never deployed there, or nothing is known.
    state: Option<Verbatim<AppDetail>>,
    /// The reason why nothing is known.
    error: Option<String>,
    /// True if the caller may not see it.
    hidden: bool,
    /// The workloads and pods; null if the service does not watch the cluster, or they are not known.
    live: Option<Verbatim<LiveStateAnswer>>,
    /// The reason why they are not known.
    live_error: Option<String>,
}

/// All apps.
#[derive(Debug, Serialize)]
struct AllApps {
    apps: Vec<Verbatim<AppSummary>>,
    missing: Vec<Verbatim<MissingRepository>>,
    under_way: Vec<Verbatim<DeploymentSummary>>,
    /// Notes on what the list leaves out.
    notes: Vec<String>,
    service: Readiness,
}

/// Returns whether a deployment is of the app.
fn is_of(app: &AppSummary, deployment: &DeploymentSummary) -> bool {
    app.target == deployment.target
        && match &deployment.app {
            Some(name) => *name == format!("{}/{}", app.namespace, app.app),
            None => app.repository.as_ref() == Some(&deployment.repository),
        }
}

impl StatusArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        self.watch.show(async || self.show().await).await
    }

    async fn show(&self) -> CommandOutcome {
        if let Some(id) = &self.deployment {
            return self.show_deployment(id).await;
        }
        if self.all || self.owner.is_some() || self.state.is_some() {
            return self.show_all().await;
        }
        let Context { about, server, .. } = &self.context;
        match server.find_app(about).await {
            Ok(app) => self.app(app).await,
            Err(_) if !about.is_given() && RepositoryApps::find().is_none() => {
                self.show_all().await
            }
            Err(error) => Err(error),
        }
    }

    async fn show_deployment(&self, id: &DeployId) -> CommandOutcome {
        let Context { server, output, .. } = &self.context;
        let detail: Verbatim<DeploymentDetail> =
            server.get(&format!("/api/v1/deployments/{id}"), &[]).await?;
        output.print(&detail, || deployment::page(&detail, TimeFormatter::system()))
    }

    async fn app(&self, app: AppKey) -> CommandOutcome {
        let Context { about, server, output } = &self.context;
        let service = server.ready().await?;
        let (targets, missing) = self.or_readiness(self.targets(&app).await, &service)?;
        let key = &app;
        let asking = targets.into_iter().map(|target| async move {
            let path = format!("/api/v1/apps/{target}/{key}");
            let state: Result<Option<Verbatim<AppDetail>>, _> = server.find(&path).await;
            // A service that knows nothing of pods answers as one that does not watch the cluster.
            let live = match state {
                Ok(Some(_)) => server.find(&format!("{path}/pods")).await,
                Ok(None) | Err(_) => Ok(None),
            };
            (state, live, target)
        });
        let answers: Vec<_> = futures::stream::iter(asking).buffered(AT_ONCE).collect().await;
        let (mut targets, mut unknown, mut forbidden) = (Vec::new(), None, None);
        for (result, live, target) in answers {
            let (live, live_error) = match live {
                Ok(live) => (live, None),
                Err(error) => (None, Some(CliError::to_string(&error))),
            };
            targets.push(match result {
                Ok(state) => Target { target, state, error: None, hidden: false, live, live_error },
                Err(error) => {
                    let (message, hidden) =
                        (error.to_string(), error.kind == CliErrorKind::Forbidden);
                    let first = if hidden { &mut forbidden } else { &mut unknown };
                    first.get_or_insert(error);
                    Target { target, state: None, error: Some(message), hidden, live, live_error }
                }
            });
        }
        // A hidden target is no failure beside visible ones.
        if targets.iter().all(|target| target.hidden) {
            unknown = unknown.or(forbidden);
        }
        let is_known = targets.iter().any(|target| target.state.is_some()) || !missing.is_empty();
        if !is_known {
            server.check_names(&about.names(self.target.as_ref())).await?;
        }
        let overview = OneApp { app: app.to_string(), targets, missing, service };
        output.print(&overview, || view::of_app(&overview, TimeFormatter::system()))?;
        unknown.map_or(Ok(()), Err)
    }

    /// Returns the answer; after a failure people see at least what the service waits for.
    fn or_readiness<T>(
        &self,
        result: Result<T, CliError>,
        service: &Readiness,
    ) -> Result<T, CliError> {
        if result.is_err() && !self.context.output.is_data() {
            output::note(&view::waits(service));
        }
        result
    }

    /// Returns the app's targets, those that its WAML names, and the repositories that could not be read.
    async fn targets(
        &self,
        app: &AppKey,
    ) -> Result<(BTreeSet<String>, Vec<Verbatim<MissingRepository>>), CliError> {
        if let Some(target) = &self.target {
            return Ok(([target.to_string()].into(), Vec::new()));
        }
        let AppPages { apps, missing, all: _ } =
            self.context.server.apps(&[("app", app.to_string())], usize::MAX).await?;
        let mut targets: BTreeSet<_> = apps.into_iter().map(|app| app.value.target).collect();
        if let Ok(waml) = context::waml_of(&AppChoiceArg::of_key(app))
            && waml.app == *app
        {
            targets.extend(waml.deploy.keys().map(ToString::to_string));
        }
        Ok((targets, missing))
    }

    async fn show_all(&self) -> CommandOutcome {
        let Context { server, output, .. } = &self.context;
        let service = server.ready().await?;
        let on: Vec<_> = self.target.iter().map(|target| ("target", target.to_string())).collect();
        let mut filter = on.clone();
        filter.extend(self.owner.iter().map(|owner| ("owner", owner.clone())));
        filter.extend(self.state.iter().map(|state| ("state", word(state))));
        let pages = server.apps(&filter, usize::MAX).await;
        if pages.as_ref().map_or(true, |pages| pages.apps.is_empty()) {
            let (target, owner) = (self.target.clone(), self.owner.clone());
            server.check_names(&Names { target, owner, ..Names::default() }).await?;
        }
        let AppPages { apps, missing, all } = self.or_readiness(pages, &service)?;
        let mut notes = Vec::new();
        if !all {
            notes.push(format!("there are more than {} apps: add --target or --owner", apps.len()));
        }
        let mut under_way = Vec::new();
        for state in [State::Pushing, State::Running, State::Queued] {
            let mut query = vec![("limit", MAX_UNDER_WAY.to_string())];
            query.push(("state", state.as_str().to_owned()));
            query.extend(on.iter().cloned());
            let list: Result<DeploymentPage<Verbatim<DeploymentSummary>>, CliError> =
                server.get("/api/v1/deployments", &query).await;
            let list = self.or_readiness(list, &service)?;
            if list.next.is_some() {
                notes.push(format!(
                    "more than {MAX_UNDER_WAY} are {0}: `bart history --all --state {0}` lists them",
                    state.as_str()
                ));
            }
            under_way.extend(list.deployments);
        }
        if self.owner.is_some() || self.state.is_some() {
            under_way.retain(|deployment| apps.iter().any(|app| is_of(app, deployment)));
        }
        let overview = AllApps { apps, missing, under_way, notes, service };
        output.print(&overview, || view::of_all(&overview, TimeFormatter::system()))
    }
}
