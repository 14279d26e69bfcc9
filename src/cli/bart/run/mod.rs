//! `bart run` runs the app on the developer's machine as its WAML says for a target.

mod plan; // variables, files and ports
mod env_file; // files of variables
mod container; // arguments of docker and podman
mod process; // a process to its end
mod engine; // docker or podman, and the dependencies
mod folder; // a private folder that is removed

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};

use self::container::AppContainer;
use self::engine::ContainerEngine;
use self::folder::RunFolder;
use self::plan::{RunFile, RunPlan, RunSources};
use crate::api::secrets::SecretAct;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::output::{self, BOLD, DIM, GOOD};
use crate::cli::repository_apps::RepositoryApps;
use crate::cli::secret_store::target_secrets::{StoreArgs, TargetSettings};
use crate::cli::settings::write_private;
use crate::cli::working_folder;
use crate::model::id::{ImageTag, TargetName};
use crate::model::secret_key::SecretKeyName;
use crate::support::clock;
use crate::support::random::random_bytes;
use crate::templates::view;

/// The file of variables that is read without being named.
const USUAL_FILE: &str = ".env";

/// Runs the app on this machine as the WAML says for a target: with COMMAND that, else the image by docker or podman.
///
/// It gets the variables of the WAML, those of secrets with your own login at the store (as `bart secrets`), the files
/// and the ports. A variable of an env file goes before those, one of the command line before all. bart prints the names
/// and origins of the variables, no values; Ctrl-C ends the app, and the exit code is the app's.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart run dev -- go run ./cmd/server
  bart run dev --tag 1.10
  bart run dev --no-secrets --with-dependencies -- npm start
  bart run dev --set LOG_LEVEL=debug --set API_TOKEN -- ./server
  bart run dev --env-file .env.dev

Exit codes: that of the app (128 and the signal, if one ended it; 127 if the command is not there); 1 refused, 2 wrong
usage or no answer.")]
pub(super) struct RunArgs {
    /// The target whose settings count
    #[arg(index = 1)]
    target: TargetName,
    /// The command to run instead of the image
    #[arg(index = 2, last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The tag of the image to run
    #[arg(long, value_name = "TAG", conflicts_with_all = ["image", "command"])]
    tag: Option<ImageTag>,
    /// The image to run, such as one that was built here
    #[arg(long, value_name = "IMAGE", conflicts_with = "command")]
    image: Option<String>,
    /// The program that runs containers. Default: docker, else podman, whichever is in PATH
    #[arg(long, value_name = "PROGRAM")]
    engine: Option<String>,
    /// Set a variable: NAME=VALUE, or NAME for the value that it has here; for a secret write NAME, as others see
    /// arguments
    #[arg(long = "set", short = 'e', value_name = "VARIABLE")]
    set: Vec<String>,
    /// Read variables from this file. Default: `.env` at the root, if there is one
    #[arg(long, value_name = "FILE")]
    from_env: Vec<PathBuf>,
    /// Ask no store for secrets
    #[arg(long)]
    no_secrets: bool,
    /// Start the WAML's `database` and `redis` as containers, and remove them at the end
    #[arg(long)]
    with_dependencies: bool,
    /// Only write the variables to this file, which only you can read, and run nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "tag", "image", "with_dependencies"])]
    env_file: Option<PathBuf>,
    /// Replace the file of --env-file if there is one
    #[arg(long, requires = "env_file")]
    overwrite: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl RunArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let StoreArgs { app, templates, .. } = &self.store;
        let settings = TargetSettings::read(&self.target, app, templates.as_deref())?;
        let mut sources = RunSources {
            env_files: self.read_env_files()?,
            overrides: self.set.iter().map(|text| read_override(text)).collect::<Result<_, _>>()?,
            ..RunSources::default()
        };
        if let Some(file) = &self.env_file {
            if file.exists() && !self.overwrite {
                return Err(CliError::usage(format!("{} is there already", file.display()))
                    .hint("replace it with --overwrite"));
            }
            let settings = self.read_secrets(settings, &mut sources).await?;
            let plan =
                plan::plan(&settings.section, &settings.waml.app, &settings.secrets, sources);
            report(&plan, &self.target);
            write_private(file, env_file::write(&plan.variables).expose_secret().as_bytes())?;
            let count = plan.variables.len();
            return output::print(&format!(
                "{GOOD}ok{GOOD:#} wrote {count} variables to {}\n",
                file.display()
            ));
        }
        let image = if self.command.is_empty() { Some(self.find_image(&settings)?) } else { None };
        let needs_engine = image.is_some() || self.with_dependencies;
        let engine =
            if needs_engine { Some(ContainerEngine::find(self.engine.as_deref())?) } else { None };
        let settings = self.read_secrets(settings, &mut sources).await?;
        let run_id = clock::random_digits();
        let slug = settings.waml.app.slug.clone();
        // Ids of one moment are alike, and arguments have the run's.
        let password = random_bytes().map(hex::encode).map_err(CliError::failed)?.into();
        let dependencies = if self.with_dependencies {
            container::dependencies(&settings.section, slug.as_str(), &password)
        } else {
            Vec::new()
        };
        for dependency in &dependencies {
            let host = if image.is_some() { dependency.host } else { "127.0.0.1" };
            sources.dependencies.extend(dependency.app_variables(host));
        }
        let plan = plan::plan(&settings.section, &settings.waml.app, &settings.secrets, sources);
        report(&plan, &self.target);
        let folder = RunFolder::create(&run_id)?;
        let name = format!("bart-{slug}-{run_id}");
        let job = RunJob { plan: &plan, settings: &settings, folder: &folder, name: &name };
        match (engine, image) {
            (Some(engine), image) => {
                engine
                    .run_beside(&name, &dependencies, &folder, image.is_none(), async |network| {
                        match &image {
                            Some(image) => job.run_image(&engine, image, network).await,
                            None => job.run_command(&self.command).await,
                        }
                    })
                    .await
            }
            (None, _) => job.run_command(&self.command).await,
        }
    }

    fn find_image(&self, settings: &TargetSettings) -> Result<String, CliError> {
        if let Some(image) = &self.image {
            // A program of containers would read it as an option.
            let is_image = !image.is_empty() && !image.starts_with('-');
            return is_image
                .then(|| image.clone())
                .ok_or_else(|| CliError::usage("this is no image"));
        }
        let tag = self.tag.clone().ok_or_else(|| {
            CliError::usage("which image is to be run?").hint(
                "name its tag with --tag (`bart builds` lists them), an image of this machine with --image, or a command after `--`",
            )
        })?;
        let repository = self.store.repository()?;
        let release = local::release(&settings.waml, Some(repository), Some(tag));
        Ok(view::reference(settings.section.image.as_ref(), &release))
    }

    fn read_env_files(&self) -> Result<Vec<(String, SecretString, String)>, CliError> {
        let mut files = self.from_env.clone();
        if files.is_empty() {
            let usual = RepositoryApps::find().map(|apps| apps.root().join(USUAL_FILE));
            files.extend(usual.filter(|file| file.is_file()));
        }
        let mut variables = Vec::new();
        for file in files {
            let name = file.display().to_string();
            let bytes = working_folder::read(&file)?;
            let text = std::str::from_utf8(&bytes);
            let text = text.map_err(|_| CliError::usage(format!("{name} is no text (UTF-8)")))?;
            let parsed = env_file::parse(text)
                .map_err(|(line, message)| CliError::usage(format!("{name}:{line}: {message}")))?;
            variables.extend(parsed.into_iter().map(|(key, value)| (key, value, name.clone())));
        }
        Ok(variables)
    }

    /// Reads the secrets that nothing else has, with the person's login, and tells the service which.
    async fn read_secrets(
        &self,
        settings: TargetSettings,
        sources: &mut RunSources,
    ) -> Result<TargetSettings, CliError> {
        let needed = plan::needed_secrets(&settings.section, &settings.secrets, sources);
        let needed: Vec<_> = needed.into_iter().cloned().collect();
        if self.no_secrets || needed.is_empty() {
            return Ok(settings);
        }
        let opened = self.store.open_store(settings).await.map_err(|error| {
            let way =
                CliError::usage("or run without them: --no-secrets, with values in an env file");
            error.explained_by(&way)
        })?;
        let mut names = Vec::new();
        for secret in needed {
            let stored = opened.store.read(&secret).await?;
            let is_used = |key: &&String| secret.whole || secret.keys.contains_key(*key);
            let keys = stored.values.keys().filter(is_used);
            names.extend(keys.filter_map(|key| SecretKeyName::join(&secret.name, key).ok()));
            sources.secrets.insert(secret.name, stored);
        }
        if !names.is_empty() {
            opened.tell_act(SecretAct::Run, &names, None).await?;
        }
        Ok(opened.settings)
    }
}

/// One run.
struct RunJob<'a> {
    plan: &'a RunPlan,
    settings: &'a TargetSettings,
    folder: &'a RunFolder,
    name: &'a str,
}

impl RunJob<'_> {
    /// Runs a command of this machine.
    async fn run_command(&self, command: &[String]) -> CommandOutcome {
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
                let folder = root.join(file.folder.trim_start_matches('/'));
                self.folder.write(&folder.join(&file.name), &file.content)?;
            }
            let root = root.display();
            output::note(&output::note_line(format!(
                "the files are below {root}, which BART_FILES has"
            )));
            process.env("BART_FILES", root.to_string());
        }
        process::run(process).await
    }

    /// Runs the image.
    async fn run_image(
        &self,
        engine: &ContainerEngine,
        image: &str,
        network: Option<&str>,
    ) -> CommandOutcome {
        use std::io::IsTerminal as _;
        let variables = &self.plan.variables;
        let one_line = variables.iter().filter(|variable| container::is_one_line(variable));
        let text = container::env_file_text(one_line.map(|one| (one.name.as_str(), &one.value)));
        let env_file = self.folder.path().join("env");
        self.folder.write(&env_file, text.expose_secret().as_bytes())?;
        let mounts = self.mounts()?;
        let section = &self.settings.section;
        let container = AppContainer {
            name: self.name,
            image,
            network,
            ports: &self.plan.ports,
            variables,
            env_file: &env_file,
            mounts: &mounts,
            command: section.command.as_deref().unwrap_or_default(),
            args: section.args.as_deref().unwrap_or_default(),
            is_interactive: std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        };
        let mut process = engine.command(&container::run_arguments(&container));
        for variable in variables.iter().filter(|variable| !container::is_one_line(variable)) {
            process.env(&variable.name, variable.value.expose_secret());
        }
        process::run(process).await
    }

    /// Writes the files, a folder of this machine for each in the container.
    fn mounts(&self) -> Result<Vec<(PathBuf, String)>, CliError> {
        let mut by_folder: BTreeMap<&str, Vec<&RunFile>> = BTreeMap::new();
        for file in &self.plan.files {
            by_folder.entry(&file.folder).or_default().push(file);
        }
        let mut mounts = Vec::new();
        for (n, (folder, files)) in by_folder.into_iter().enumerate() {
            let own = self.folder.path().join("files").join(n.to_string());
            for file in files {
                self.folder.write(&own.join(&file.name), &file.content)?;
            }
            self.folder.open_to_container(&own)?;
            mounts.push((own, folder.to_owned()));
        }
        Ok(mounts)
    }
}

/// Reads `NAME=VALUE`, or `NAME` for the value of this process.
fn read_override(text: &str) -> Result<(String, SecretString), CliError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, crate::config::environment().remove(text)),
    };
    if !env_file::is_variable(name) {
        return Err(CliError::usage("--set: write NAME=VALUE, or NAME: letters, digits and `_`"));
    }
    let value = value
        .ok_or_else(|| CliError::usage(format!("--set: the variable {name} is not set here")))?;
    Ok((name.to_owned(), value.into()))
}

/// Prints the names of the variables with their origins, the files, the ports, and what is missing.
fn report(plan: &RunPlan, target: &TargetName) {
    let mut text = format!("{BOLD}{target}{BOLD:#}: {} variables\n", plan.variables.len());
    for variable in &plan.variables {
        text += &format!("   {} {DIM}({}){DIM:#}\n", variable.name, variable.origin);
    }
    for RunFile { folder, name, is_secret, .. } in &plan.files {
        let origin = if *is_secret { "a secret" } else { "the WAML" };
        text += &format!("   {folder}/{name} {DIM}({origin}){DIM:#}\n");
    }
    if !plan.ports.is_empty() {
        let ports: Vec<_> = plan.ports.iter().map(ToString::to_string).collect();
        text += &format!("   ports {}\n", ports.join(", "));
    }
    output::note(&text);
    for missing in &plan.missing {
        output::warning(&format!("{} is not set: {}", missing.name, missing.reason));
    }
}
