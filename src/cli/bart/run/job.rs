//! One run: the app as a command or as a container, and the sidecars beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use super::container::{self, ContainerMode, LocalContainer};
use super::engine::{ContainerEngine, SidecarContainer};
use super::folder::RunFolder;
use super::plan::{RunFile, RunPlan, RunPort, RunVariable};
use super::process;
use super::sidecar_plan::SidecarPlan;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output;
use crate::model::id::is_rfc1123_label;
use crate::model::secret_key::is_secret_key;
use crate::waml::section::Section;

/// One run.
pub(super) struct RunJob<'a> {
    pub(super) plan: &'a RunPlan,
    /// The settings of the process.
    pub(super) section: &'a Section,
    pub(super) sidecars: &'a [SidecarPlan<'a>],
    pub(super) folder: &'a RunFolder,
    /// The name of the app's container, with which those of the others begin.
    pub(super) name: &'a str,
}

impl RunJob<'_> {
    /// Runs a command of this machine.
    pub(super) async fn run_command(&self, command: &[String]) -> CommandOutcome {
        let Some((program, arguments)) = command.split_first() else {
            return Err(CliError::usage("there is no command"));
        };
        let mut process = tokio::process::Command::new(program);
        process.args(arguments);
        for variable in &self.plan.variables {
            process.env(&variable.name, variable.value.expose_secret());
        }
        if !self.plan.files.is_empty() {
            let root = self.folder.path().join("root");
            for file in &self.plan.files {
                self.write_file(&root.join(file.folder.trim_start_matches('/')), file)?;
            }
            let root = root.display();
            output::note(&output::note_line(format!(
                "the files are below {root}, which BART_FILES has"
            )));
            process.env("BART_FILES", root.to_string());
        }
        process::run(process).await
    }

    /// Runs a command of this machine with the sidecars, whose ports are published.
    pub(super) async fn run_command_with_sidecars(
        &self,
        engine: &ContainerEngine,
        command: &[String],
        network: Option<&str>,
    ) -> CommandOutcome {
        let mut sidecars = Vec::new();
        for sidecar in self.sidecars {
            let SidecarPlan { name, image, ports, .. } = sidecar;
            match image {
                Some(image) => sidecars.push(self.prepare_sidecar(sidecar, image, network, ports)?),
                None => output::warning(&format!(
                    "the sidecar {name} does not run: it has the app's image, and the app runs by a command"
                )),
            }
        }
        engine.run_with_sidecars(None, &sidecars, self.run_command(command)).await
    }

    /// Runs the image with the sidecars, which share the network of its container.
    pub(super) async fn run_image(
        &self,
        engine: &ContainerEngine,
        image: &str,
        network: Option<&str>,
    ) -> CommandOutcome {
        let RunPlan { variables, files, .. } = self.plan;
        let mut ports = self.plan.ports.clone();
        let shared_network = format!("container:{}", self.name);
        let mut sidecars = Vec::new();
        for sidecar in self.sidecars {
            ports.extend(&sidecar.ports);
            let image = sidecar.image.unwrap_or(image);
            let none = BTreeSet::new();
            sidecars.push(self.prepare_sidecar(sidecar, image, Some(&shared_network), &none)?);
        }
        let is_interactive = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let container = LocalContainer {
            name: self.name,
            image,
            mode: ContainerMode::Attached { is_interactive },
            network,
            ports: &ports,
            variables,
            env_file: &self.write_env_file("env", variables)?,
            mounts: &self.write_mounts("files", files)?,
            command: self.section.command.as_deref().unwrap_or_default(),
            args: self.section.args.as_deref().unwrap_or_default(),
        };
        let mut process = engine.command(&container::run_arguments(&container));
        process
            .envs(long_values(variables).iter().map(|(name, value)| (name, value.expose_secret())));
        engine.run_with_sidecars(Some(self.name), &sidecars, process::run(process)).await
    }

    /// Writes the files of a sidecar, and says how it is started and where its log is.
    fn prepare_sidecar(
        &self,
        sidecar: &SidecarPlan<'_>,
        image: &str,
        network: Option<&str>,
        ports: &BTreeSet<RunPort>,
    ) -> Result<SidecarContainer, CliError> {
        let SidecarPlan { name, command, args, variables, files, .. } = sidecar;
        // Files are called after it.
        if !is_rfc1123_label(name) {
            return Err(CliError::usage(format!("{name:?} is not a legal name of a sidecar"))
                .hint("use up to 63 lower-case letters, digits and `-`"));
        }
        let own_name = format!("{}-sidecar-{name}", self.name);
        let container = LocalContainer {
            name: &own_name,
            image: check_image(image)?,
            mode: ContainerMode::Detached,
            network,
            ports,
            variables,
            env_file: &self.write_env_file(&format!("env-sidecar-{name}"), variables)?,
            mounts: &self.write_mounts(&format!("files-sidecar-{name}"), files)?,
            command,
            args,
        };
        let arguments = container::run_arguments(&container);
        output::note(&output::note_line(format!(
            "the sidecar {name} runs as {image}, in the container {own_name}"
        )));
        Ok(SidecarContainer { container: own_name, arguments, environment: long_values(variables) })
    }

    /// Writes the variables of one line, and returns the file.
    fn write_env_file(&self, name: &str, variables: &[RunVariable]) -> Result<PathBuf, CliError> {
        let one_line = variables.iter().filter(|variable| container::is_one_line(variable));
        let text = container::env_file_text(one_line.map(|one| (one.name.as_str(), &one.value)));
        let file = self.folder.path().join(name);
        self.folder.write(&file, text.expose_secret().as_bytes())?;
        Ok(file)
    }

    fn write_file(&self, folder: &Path, file: &RunFile) -> CommandOutcome {
        if !is_secret_key(&file.name) {
            return Err(CliError::usage(format!("{:?} is no name of a file", file.name))
                .hint("use letters, digits, `-`, `_` and `.`, without folders"));
        }
        self.folder.write(&folder.join(&file.name), &file.content)
    }

    /// Writes the files of a container below a folder of that name, a folder of this machine for each in the container.
    fn write_mounts(
        &self,
        name: &str,
        files: &[RunFile],
    ) -> Result<Vec<(PathBuf, String)>, CliError> {
        let mut by_folder: BTreeMap<&str, Vec<&RunFile>> = BTreeMap::new();
        for file in files {
            by_folder.entry(&file.folder).or_default().push(file);
        }
        let mut mounts = Vec::new();
        for (n, (folder, files)) in by_folder.into_iter().enumerate() {
            let own = self.folder.path().join(name).join(n.to_string());
            for file in files {
                self.write_file(&own, file)?;
            }
            self.folder.open_to_container(&own)?;
            mounts.push((own, folder.to_owned()));
        }
        Ok(mounts)
    }
}

/// Checks an image's name: a program of containers reads one that begins with `-` as an option.
pub(super) fn check_image(image: &str) -> Result<&str, CliError> {
    let is_image = !image.is_empty() && !image.starts_with('-');
    is_image.then_some(image).ok_or_else(|| CliError::usage(format!("`{image}` is no image")))
}

/// Returns the variables that no env file can have; the program of containers takes them from its own environment.
fn long_values(variables: &[RunVariable]) -> Vec<(String, SecretString)> {
    let long = variables.iter().filter(|variable| !container::is_one_line(variable));
    long.map(|variable| (variable.name.clone(), variable.value.clone())).collect()
}
