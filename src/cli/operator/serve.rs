//! `the-deployer serve` runs the service.

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::config::ConfigSource;
use crate::app::App;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::Format;
use crate::config::forge::ForgeSettings;
use crate::config::settings::Settings;
use crate::config::webhook::WebhookSecret;
use crate::support::clock::Clock;
use crate::support::telemetry::{self, LogFormat};

/// Runs the service until SIGTERM or SIGINT; then it finishes its work in progress, within a time limit.
///
/// With no configuration it keeps SQLite, a manifest repository and the service repositories
/// (repos/OWNER/NAME.git) under ./.the-deployer, listens on 127.0.0.1:8080, and makes the webhook's
/// secret at its first start.
///
/// The configuration has the parts server, storage, forge, waml, templates, manifests, platform,
/// clusters (each with platform, lookups, policies, argocd), registries, auth and limits.
/// `config schema` describes each key, `config check` finds mistakes.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    source: ConfigSource,
    /// The log filter: `info`, `debug`, `info,the_deployer::git=debug`
    #[arg(long, value_name = "FILTER", env = "THE_DEPLOYER_LOG", default_value = telemetry::DEFAULT_FILTER)]
    log: String,
    /// The format of log lines
    #[arg(long, value_enum, env = "THE_DEPLOYER_LOG_FORMAT", default_value_t)]
    log_format: LogFormat,
}

impl Serve {
    pub(super) async fn run(self) -> CommandOutcome {
        let settings = self.source.load(Format::Text)?.settings;
        telemetry::init(self.log_format, &self.log)
            .map_err(|error| CliError::usage(error.to_string()))?;
        let stop = CancellationToken::new();
        on_signal(stop.clone(), "stopping: work in progress is finished or released")?;
        let logged = settings.clone();
        let start_failure = |error: crate::app::StartError| {
            CliError::io(error.to_string())
                .hint("`the-deployer config check` looks at the configuration alone")
        };
        let app = App::build(settings, Clock::system()).await.map_err(start_failure)?;
        log_locations(&logged);
        tracing::info!(address = %app.address().map_err(start_failure)?, "listening");
        app.run(stop).await.map_err(start_failure)
    }
}

/// Stops the process at a signal: the first one in order, with that line in the log, the second one at once.
pub(super) fn on_signal(stop: CancellationToken, line: &'static str) -> CommandOutcome {
    let unheard =
        |error: std::io::Error| CliError::io(format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(unheard)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unheard)?;
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if first {
                tracing::info!("{line}");
                stop.cancel();
            } else {
                std::process::exit(130);
            }
        }
    });
    Ok(())
}

/// Logs the locations of all data, for an operator who started the service without a configuration.
fn log_locations(settings: &Settings) {
    let folder = settings.storage.folder.display();
    if let WebhookSecret::Kept(path) = &settings.webhook.secret {
        tracing::info!(file = %path.display(), "webhook secret is in a file");
    }
    if let ForgeSettings::Local { root } = &settings.forge {
        tracing::info!(root = %root.display(), "service repositories are local: OWNER/NAME.git");
    }
    for repository in &settings.manifests {
        tracing::info!(
            name = repository.name,
            url = repository.url,
            branch = repository.branch,
            "manifest repository"
        );
    }
    tracing::info!(%folder, "data folder");
}
