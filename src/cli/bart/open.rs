//! `bart open` opens a browser: the page of a deployment, the app, or a link of its WAML.

use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;

use super::logs;
use crate::api::deployments::DeploymentDetail;
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::{self, AppSelector};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::Format;
use crate::cli::repository_apps::AppChoiceArg;
use crate::cli::table::{Column, table};
use crate::model::deployment::State;
use crate::model::id::{DeployId, TargetName};
use crate::waml::document::Link;

/// Opens a page in the browser: of a deployment, the app itself, or a link of the WAML.
///
/// WHAT is `page` (of the newest deployment; the default), a deployment's id, `app` (the app's address), `service` (the
/// newest deployments of all apps), or the name of a link in the WAML. Letters may be of either case. The browser is
/// the one of the variable BROWSER, or the system's.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart open                       the page of the newest deployment
  bart open app --target dev      the app
  bart open runbook               the link that the WAML calls so
  bart open --list                all of them
  bart open app --print           only the address")]
pub(super) struct Open {
    /// The page to open
    #[arg(default_value = "page")]
    what: String,
    /// On this target
    #[arg(long, short)]
    target: Option<TargetName>,
    /// Print the address, and open nothing
    #[arg(long)]
    print: bool,
    /// List the pages that can be opened
    #[arg(long, conflicts_with_all = ["print"])]
    list: bool,
    #[command(flatten)]
    about: AppSelector,
    #[command(flatten)]
    server: ServiceEndpoint,
    /// The format of the list or the address
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// A page that can be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Place {
    name: String,
    url: String,
}

impl Open {
    pub(super) async fn run(self) -> CommandOutcome {
        if self.list {
            return self.print_list().await;
        }
        let place = self.place().await?;
        let url = reqwest::Url::parse(&place.url).ok();
        // Another scheme might start a program.
        let Some(url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(CliError::refused(format!(
                "{:?} is not the address of a web page",
                place.url
            )));
        };
        if !self.print {
            open_browser(&url)?;
        }
        self.output.print(&place, || format!("{url}\n"))
    }

    async fn place(&self) -> Result<Place, CliError> {
        let place = self.what.to_lowercase();
        let named_place = |url: String| Place { name: self.what.clone(), url };
        match place.as_str() {
            "page" => self.page(None).await.map(named_place),
            "app" => self.address().await.map(named_place),
            "service" => Ok(named_place(self.server.url().to_owned())),
            _ => match DeployId::parse(place.as_str()) {
                Ok(id) => self.page(Some(id)).await.map(named_place),
                Err(_) => self.link(&place),
            },
        }
    }

    async fn page(&self, id: Option<DeployId>) -> Result<String, CliError> {
        let id = match id {
            Some(id) => id,
            None => logs::newest_id(&self.server, &self.about, self.target.as_ref()).await?,
        };
        let detail: DeploymentDetail =
            self.server.get(&format!("/api/v1/deployments/{id}"), &[]).await?;
        // An older service does not send it.
        let fallback = || format!("{}/deployments/{id}", self.server.url().trim_end_matches('/'));
        Ok(detail.log_url.unwrap_or_else(fallback))
    }

    /// Returns the address of the newest release that succeeded.
    async fn address(&self) -> Result<String, CliError> {
        let (about, target) = (&self.about, self.target.as_ref());
        let newest = logs::newest(&self.server, about, target, Some(State::Succeeded)).await?;
        let address = newest.and_then(|deployment| deployment.address);
        let address = address.ok_or_else(|| {
            CliError::refused(
                "the app has no address there: it has no ingress, or was not deployed",
            )
            .hint("`bart status` shows where it is")
        });
        self.server.suggest(address, &about.names(target)).await
    }

    fn link(&self, name: &str) -> Result<Place, CliError> {
        let links = links(&self.about).unwrap_or_default();
        let link = links.iter().find(|link| link.name.to_lowercase() == name);
        link.cloned().ok_or_else(|| {
            let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let hint = format!(
                "use page, app, service, a deployment's id, or a link of the WAML: {names}"
            );
            CliError::usage(format!("there is nothing called {:?} to open", self.what)).hint(hint)
        })
    }

    async fn print_list(&self) -> CommandOutcome {
        let mut places =
            vec![Place { name: "service".to_owned(), url: self.server.url().to_owned() }];
        // A page that does not exist is left out.
        let urls = [("page", self.page(None).await.ok()), ("app", self.address().await.ok())];
        if urls.iter().all(|(_, url)| url.is_none()) {
            self.server.check_names(&self.about.names(self.target.as_ref())).await?;
        }
        let urls = urls.into_iter();
        places.extend(
            urls.filter_map(|(name, url)| Some(Place { name: name.to_owned(), url: url? })),
        );
        places.extend(links(&self.about).unwrap_or_default());
        self.output.print(&places, || {
            let rows = places.iter().map(|place| [place.name.clone(), place.url.clone()]);
            table([Column::whole("WHAT"), Column::whole("ADDRESS")], rows.collect())
        })
    }
}

fn links(about: &AppSelector) -> Result<Vec<Place>, CliError> {
    let waml = match about.app() {
        Ok(app) => context::waml_of(&AppChoiceArg::of_key(&app))?,
        Err(_) => context::waml()?,
    };
    let place = |Link { name, url }: &Link| Place { name: name.clone(), url: url.clone() };
    Ok(waml.links.iter().map(place).collect())
}

/// Opens a page in the browser of the variable BROWSER, or the system's.
#[expect(clippy::disallowed_methods, reason = "people name their browser by a variable")]
pub(in crate::cli) fn open_browser(url: &reqwest::Url) -> CommandOutcome {
    let system = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let browser = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
    let browser = browser.unwrap_or_else(|| system.into());
    let mut command = Command::new(&browser);
    command.arg(url.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let failed = |reason: String| {
        CliError::io(format!("{} did not open it: {reason}", browser.to_string_lossy()))
            .hint(format!("open it by hand: {url}"))
    };
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}
