//! `bart status`: what is live where, what goes on, what is locked, and what the service waits for.

mod shown; // as text

use std::collections::BTreeSet;

use clap::Args;
use futures::StreamExt as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::client::{Detail, List, Overview, Server};
use super::deployment;
use super::error::{CliError, Outcome};
use super::follow::Readiness;
use super::here::{self, About};
use super::offline;
use super::output::{self, Format};
use crate::clock::Clock;
use crate::model::deployment::State;
use crate::model::id::{AppKey, DeployId, TargetName};

/// So many targets are asked for at once.
const AT_ONCE: usize = 8;
/// A longer list is not for people.
const MOST_APPS: usize = 2_000;

/// Shows where an app is: what is live, what is under way, what is locked, and what the service waits
/// for; or one deployment with all that is known of it.
///
/// Where no app is named and the working folder is no service's, it shows all apps.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart status                             the app in this folder, on all its targets
  bart status --app devx/my-app -t dev    another one, on one target
  bart status --all                       every app
  bart status 20261121-054812123-3f9a2c   one deployment")]
pub(super) struct Status {
    /// A deployment's id
    #[arg(value_parser = |text: &str| DeployId::parse(text).map_err(|e| e.to_string()), conflicts_with_all = ["target", "all"])]
    deployment: Option<DeployId>,
    /// Only on this target
    #[arg(long, short, value_parser = offline::target)]
    target: Option<TargetName>,
    /// Every app
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// An app on all its targets.
#[derive(Debug, Serialize)]
struct OneApp {
    app: String,
    /// Where it is, or may be: what its WAML names and it was never deployed to is there without more.
    targets: Vec<Target>,
    service: Readiness,
}

#[derive(Debug, Serialize)]
struct Target {
    target: String,
    /// As the service has it; null where it was never deployed to.
    state: Option<App>,
}

/// An app on a target. Unknown fields are from a newer service, and left out.
#[derive(Debug, Serialize, Deserialize)]
struct App {
    repository: Option<String>,
    owner: Option<String>,
    hosts: Vec<String>,
    live: Option<Live>,
    hand_edited: bool,
    under_way: Vec<Overview>,
    last: Option<Overview>,
    locks: Vec<Lock>,
    #[serde(default)]
    hold: Option<Hold>,
    sync: Sync,
}

#[derive(Debug, Serialize, Deserialize)]
struct Live {
    revision: String,
    tag: Option<String>,
    commit: Option<String>,
    at: Option<Timestamp>,
    actor: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lock {
    id: String,
    scope: serde_json::Value,
    reason: String,
    by: String,
    since: Timestamp,
    until: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Hold {
    by: String,
    reason: String,
    since: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sync {
    state: String,
    why: Option<String>,
    told_at: Option<Timestamp>,
}

/// All apps.
#[derive(Debug, Serialize)]
struct Everything {
    apps: Vec<Placed>,
    missing: Vec<serde_json::Value>,
    under_way: Vec<Overview>,
    service: Readiness,
}

#[derive(Debug, Deserialize)]
struct Page {
    apps: Vec<Placed>,
    next: Option<String>,
    missing: Vec<serde_json::Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Placed {
    target: String,
    namespace: String,
    app: String,
    live_revision: Option<String>,
    hosts: Vec<String>,
    owner: Option<String>,
    repository: Option<String>,
    #[serde(default)]
    locked: bool,
    #[serde(default)]
    held: bool,
}

impl Status {
    pub(super) async fn run(self) -> Outcome {
        if let Some(id) = &self.deployment {
            return self.one(id).await;
        }
        if self.all {
            return self.everything().await;
        }
        match self.about.app() {
            Ok(app) => self.app(app).await,
            Err(_) if !self.about.is_said() && here::waml_file().is_none() => {
                self.everything().await
            }
            Err(error) => Err(error),
        }
    }

    async fn one(&self, id: &DeployId) -> Outcome {
        let detail: Detail = self.server.get(&format!("/api/v1/deployments/{id}"), &[]).await?;
        if self.output.is_data() {
            return output::data(self.output, &detail);
        }
        output::print(&deployment::page(&detail))
    }

    async fn app(&self, app: AppKey) -> Outcome {
        let service = self.server.ready().await?;
        let targets = self.targets(&app).await?;
        let (server, key) = (&self.server, &app);
        let asking = targets.into_iter().map(|target| async move {
            let AppKey { namespace, slug } = key;
            let path = format!("/api/v1/apps/{target}/{namespace}/{slug}");
            Ok(Target { state: server.find(&path).await?, target })
        });
        let asked: Vec<_> = futures::stream::iter(asking).buffered(AT_ONCE).collect().await;
        let targets = asked.into_iter().collect::<Result<Vec<_>, CliError>>()?;
        let found = OneApp { app: app.to_string(), targets, service };
        if self.output.is_data() {
            return output::data(self.output, &found);
        }
        output::print(&shown::of_app(&found, Clock::system().now()))
    }

    /// Where the app is, and where its WAML says that it may be.
    async fn targets(&self, app: &AppKey) -> Result<BTreeSet<String>, CliError> {
        if let Some(target) = &self.target {
            return Ok([target.to_string()].into());
        }
        let page: Page = self
            .server
            .get("/api/v1/apps", &[("app", app.to_string()), ("limit", "200".to_owned())])
            .await?;
        let mut targets: BTreeSet<_> = page.apps.into_iter().map(|one| one.target).collect();
        if let Ok(found) = here::waml()
            && found.waml.app == *app
        {
            targets.extend(found.waml.deploy.keys().map(ToString::to_string));
        }
        Ok(targets)
    }

    async fn everything(&self) -> Outcome {
        let service = self.server.ready().await?;
        let (apps, missing) = self.placed().await?;
        let mut under_way = Vec::new();
        for state in [State::Pushing, State::Running, State::Queued] {
            let mut query = vec![("limit", "50".to_owned()), ("state", state.as_str().to_owned())];
            query.extend(self.target.iter().map(|target| ("target", target.to_string())));
            let list: List = self.server.get("/api/v1/deployments", &query).await?;
            under_way.extend(list.deployments);
        }
        let found = Everything { apps, missing, under_way, service };
        if self.output.is_data() {
            return output::data(self.output, &found);
        }
        output::print(&shown::of_all(&found))
    }

    async fn placed(&self) -> Result<(Vec<Placed>, Vec<serde_json::Value>), CliError> {
        let (mut apps, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut query = vec![("limit", "200".to_owned())];
            query.extend(self.target.iter().map(|target| ("target", target.to_string())));
            query.extend(cursor.iter().map(|cursor| ("cursor", cursor.clone())));
            let page: Page = self.server.get("/api/v1/apps", &query).await?;
            apps.extend(page.apps);
            cursor = page.next;
            if cursor.is_none() || apps.len() >= MOST_APPS {
                return Ok((apps, page.missing));
            }
        }
    }
}
