//! Docker or podman: runs the app's image, and its dependencies and sidecars beside it.

use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::process::Command;

use super::container::{DependencyContainer, env_file_text};
use super::folder::RunFolder;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output;
use crate::config;

/// The programs that are looked for, in order.
const PROGRAMS: [&str; 2] = ["docker", "podman"];

/// The pause between two looks whether the app's container runs, whose image may have to be pulled first.
const PAUSE: Duration = Duration::from_millis(100);

/// A sidecar that is ready to be started.
pub(super) struct SidecarContainer {
    /// The name of its container.
    pub(super) container: String,
    /// The arguments that start it.
    pub(super) arguments: Vec<String>,
    /// The variables that the arguments only name.
    pub(super) environment: Vec<(String, SecretString)>,
}

/// A program that runs containers.
pub(super) struct ContainerEngine(PathBuf);

impl ContainerEngine {
    /// Finds the program: the named one, else the first in PATH.
    pub(super) fn find(name: Option<&str>) -> Result<Self, CliError> {
        if let Some(name) = name {
            return Ok(Self(name.into()));
        }
        let environment = config::environment();
        let path = environment.get("PATH").cloned().unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&path).collect();
        let in_path = |program: &&str| folders.iter().any(|folder| folder.join(program).is_file());
        let program = PROGRAMS.into_iter().find(|program| in_path(program));
        program.map(|program| Self(program.into())).ok_or_else(|| {
            CliError::usage("there is neither docker nor podman in PATH")
                .hint("install one, name another with --engine, or run a command: `bart run TARGET -- COMMAND`")
        })
    }

    /// Returns the command with these arguments.
    pub(super) fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(arguments);
        command
    }

    /// Starts the dependencies in a network of their own, runs the app, and removes them, whatever happened.
    pub(super) async fn run_beside(
        &self,
        name: &str,
        dependencies: &[DependencyContainer],
        folder: &RunFolder,
        publish: bool,
        app: impl AsyncFnOnce(Option<&str>) -> CommandOutcome,
    ) -> CommandOutcome {
        if dependencies.is_empty() {
            return app(None).await;
        }
        let started = tokio::select! {
            started = self.start(name, dependencies, folder, publish) => started,
            _ = tokio::signal::ctrl_c() => Err(CliError::interrupted("the dependencies are removed")),
        };
        let outcome = match started {
            Ok(()) => app(Some(name)).await,
            Err(error) => Err(error),
        };
        for dependency in dependencies {
            self.finish(&["rm", "--force", "--volumes", &container_name(name, dependency)]).await;
        }
        self.finish(&["network", "rm", name]).await;
        outcome
    }

    /// Runs the app with its sidecars, and removes them when it has ended, whatever happened. They begin once the app's
    /// container runs, whose network they share; beside a command, which has no container, they begin before it.
    pub(super) async fn run_with_sidecars(
        &self,
        app_container: Option<&str>,
        sidecars: &[SidecarContainer],
        app: impl Future<Output = CommandOutcome>,
    ) -> CommandOutcome {
        if sidecars.is_empty() {
            return app.await;
        }
        if let Some(name) = app_container {
            return self.start_after_app(name, sidecars, app).await;
        }
        let started = tokio::select! {
            started = self.start_sidecars(sidecars) => started,
            _ = tokio::signal::ctrl_c() => Err(CliError::interrupted("the sidecars are removed")),
        };
        let outcome = match started {
            Ok(()) => app.await,
            Err(error) => Err(error),
        };
        self.remove_sidecars(sidecars).await;
        outcome
    }

    async fn remove_sidecars(&self, sidecars: &[SidecarContainer]) {
        for sidecar in sidecars {
            self.finish(&["rm", "--force", "--volumes", &sidecar.container]).await;
        }
    }

    async fn start_after_app(
        &self,
        name: &str,
        sidecars: &[SidecarContainer],
        app: impl Future<Output = CommandOutcome>,
    ) -> CommandOutcome {
        let mut app = pin!(app);
        let starting = async {
            self.wait_until_running(name).await;
            self.start_sidecars(sidecars).await
        };
        // The app's own outcome, or the reason why a sidecar did not start.
        let ended = tokio::select! {
            outcome = &mut app => Ok(outcome),
            started = starting => match started {
                Ok(()) => Ok((&mut app).await),
                Err(error) => Err(error),
            },
        };
        // Podman removes no container whose network others share, also not when it ends.
        self.remove_sidecars(sidecars).await;
        self.finish(&["rm", "--force", "--volumes", name]).await;
        match ended {
            Ok(outcome) => outcome,
            Err(error) => {
                // The app ends because it was removed.
                let _removed = app.await;
                Err(error)
            }
        }
    }

    /// Waits for ever if it never runs: the caller hears of its end.
    async fn wait_until_running(&self, name: &str) {
        let arguments = ["container", "inspect", "--format", "{{.State.Running}}", name];
        loop {
            let mut command = Command::new(&self.0);
            command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            let output = command.output().await;
            if output.is_ok_and(|output| output.stdout.trim_ascii() == b"true") {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn start_sidecars(&self, sidecars: &[SidecarContainer]) -> CommandOutcome {
        for SidecarContainer { container: _, arguments, environment } in sidecars {
            self.succeed(arguments, environment).await?;
        }
        Ok(())
    }

    async fn start(
        &self,
        name: &str,
        dependencies: &[DependencyContainer],
        folder: &RunFolder,
        publish: bool,
    ) -> CommandOutcome {
        self.succeed(&["network".to_owned(), "create".to_owned(), name.to_owned()], &[]).await?;
        for dependency in dependencies {
            let file = folder.path().join(format!("env-{}", dependency.host));
            let variables = dependency.variables.iter().map(|(name, value)| (name.as_str(), value));
            folder.write(&file, env_file_text(variables).expose_secret().as_bytes())?;
            let own_name = container_name(name, dependency);
            self.succeed(&dependency.run_arguments(&own_name, name, &file, publish), &[]).await?;
            output::note(&output::note_line(format!(
                "{} runs as {}",
                dependency.host, dependency.image
            )));
        }
        Ok(())
    }

    async fn succeed(
        &self,
        arguments: &[String],
        environment: &[(String, SecretString)],
    ) -> CommandOutcome {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        for (name, value) in environment {
            command.env(name, value.expose_secret());
        }
        let program = self.0.display();
        let status = command.status().await;
        let status =
            status.map_err(|error| CliError::io(format!("cannot start {program}: {error}")))?;
        if status.success() {
            return Ok(());
        }
        let act = arguments.first().map_or("", String::as_str);
        Err(CliError::io(format!("{program} {act} failed ({status})"))
            .hint("its own words are above"))
    }

    /// Removes something that may be gone already.
    async fn finish(&self, arguments: &[&str]) {
        let mut command = Command::new(&self.0);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _is_gone = command.status().await;
    }
}

fn container_name(name: &str, dependency: &DependencyContainer) -> String {
    format!("{name}-{}", dependency.host)
}
