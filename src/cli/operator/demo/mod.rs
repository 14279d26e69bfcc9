//! `the-deployer demo` shows three deployments on the embedded default, over real HTTP with a signed event.
//!
//! ```text
//! service repository ─ signed event ─▶ server ─▶ merge … push ─▶ manifest repository
//! ```

mod story; // the deployments of the demo
mod watch; // stages, read from the log
mod week; // a week of several apps, for the pages

use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};

use clap::Args;
use story::Story;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, DIM};
use crate::config::SettingsSources;
use crate::config::forge::ForgeSettings;
use crate::config::settings::Settings;
use crate::support::clock::Clock;

/// Shows the main job: a signed event becomes manifests in a git repository.
///
/// It makes an example service repository, starts the service on the embedded default, sends it a deployment event over
/// HTTP, and prints each stage with its time; then a second deployment with a changed WAML, and a broken one with its
/// violations. Before that the service lives through a sample week of five apps in the namespace `sample`, so that its
/// pages have something to show. Everything stays in the folder for a look around.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// End after the three deployments, instead of leaving the service running
    #[arg(long)]
    exit: bool,
    /// Leave out the sample week, which fills the pages
    #[arg(long)]
    no_week: bool,
    /// The folder for everything; one of an earlier demo is replaced
    #[arg(long, value_name = "DIR", default_value = "demo")]
    dir: PathBuf,
}

/// The file that marks a demo's folder, which a later demo may replace.
const MARKER: &str = ".the-deployer-demo";

impl Demo {
    pub(super) async fn run(self) -> CommandOutcome {
        let mut stages = watch::install()?;
        prepare_folder(&self.dir)?;
        let settings = settings(&self.dir)?;
        crate::support::http::install_tls_provider();
        if !self.no_week {
            Box::pin(live_through_week(&settings)).await?;
            // Those of the week fill the queue.
            while stages.try_recv().is_ok() {}
        }
        let app = App::build(settings.clone(), Clock::system()).await.map_err(CliError::failed)?;
        let address = app.address().map_err(CliError::failed)?;
        let manifests = app.manifests.values().next().cloned();
        let stop = CancellationToken::new();
        let running = tokio::spawn(app.run(stop.clone()));
        let story = Story { dir: self.dir.clone(), address, settings, manifests, stages };
        let result = story.run_chapters().await;
        if result.is_ok() && !self.exit {
            output::print(&format!(
                "\n{BOLD}The service is still running.{BOLD:#} {}\n{DIM}Ctrl-C ends it.{DIM:#}\n",
                next_step(bart().as_deref(), &format!("http://{address}"))
            ))?;
            let _ = tokio::signal::ctrl_c().await;
        }
        stop.cancel();
        let result_of_run = running.await;
        result_of_run
            .map_err(|fault| CliError::io(format!("the service ended by a fault: {fault}")))?
            .map_err(CliError::failed)?;
        result
    }
}

/// Lets the service live through a sample week, with the stages of its deployments unseen.
async fn live_through_week(settings: &Settings) -> CommandOutcome {
    let ForgeSettings::Local { root } = &settings.forge else {
        return Err(CliError::io("the demo needs the local forge"));
    };
    output::print("A sample week of five apps, for the pages …\n\n")?;
    Box::pin(week::live_through(settings.clone(), root.clone(), story::read_secret(settings)?))
        .await
}

/// Finds `bart`, if it lies beside this program. Cargo builds it only when asked to.
fn bart() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(format!("bart{EXE_SUFFIX}"));
    let current = std::env::current_dir().ok();
    let relative = current.and_then(|current| Some(path.strip_prefix(current).ok()?.to_owned()));
    path.is_file().then(|| relative.unwrap_or(path))
}

/// Returns the commands that a person can try now: only those that exist.
fn next_step(bart: Option<&Path>, server: &str) -> String {
    match bart {
        Some(bart) => format!("Ask it: {} status --all --server {server}", bart.display()),
        None => format!("Look at it: {server}/"),
    }
}

/// Makes the folder, and replaces one of an earlier demo; never touches another folder.
fn prepare_folder(dir: &Path) -> CommandOutcome {
    let unusable = CliError::file("use", dir);
    if dir.join(MARKER).is_file() {
        return clear(dir).map_err(unusable);
    }
    std::fs::create_dir_all(dir).map_err(&unusable)?;
    if std::fs::read_dir(dir).map_err(&unusable)?.next().is_some() {
        return Err(CliError::usage(format!(
            "{} is not empty, and no demo made it",
            dir.display()
        ))
        .hint("name another folder with --dir"));
    }
    std::fs::write(dir.join(MARKER), "made by `the-deployer demo`; it is made anew each time\n")
        .map_err(unusable)
}

/// Removes everything but the marker, so that a demo that is killed in the middle can be replaced as well.
fn clear(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir_all(path)?;
        } else if path != dir.join(MARKER) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The configuration with what the demo's clusters offer: all that the small example uses.
const CONFIG: &str = include_str!("the-deployer.yaml");

/// Returns the built-in settings and the demo's platform, with the folder as home and any free port.
fn settings(dir: &Path) -> Result<Settings, CliError> {
    let file = dir.join("the-deployer.yaml");
    std::fs::write(&file, CONFIG).map_err(CliError::file("write", &file))?;
    let listen = ("THE_DEPLOYER_SERVER_LISTEN".to_owned(), "127.0.0.1:0".to_owned());
    let sources = SettingsSources {
        file: Some((file.display().to_string(), CONFIG.to_owned())),
        variables: [listen].into(),
        home: dir.to_owned(),
    };
    Ok(sources.load().map_err(CliError::failed)?.settings)
}
