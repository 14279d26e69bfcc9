//! `bart run` runs the app on the developer's machine as its WAML says for a target.

mod plan; // variables, files and ports
mod sidecar_plan; // the same of sidecars
mod env_file; // files of variables
mod container; // arguments of docker and podman
mod process; // a process to its end
mod engine; // docker or podman, and the dependencies
mod folder; // a private folder that is removed
mod job; // one run

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};

use self::engine::ContainerEngine;
use self::folder::RunFolder;
use self::job::RunJob;
use self::plan::{MissingValue, RunFile, RunPlan, RunPort, RunSources, RunVariable};
use self::sidecar_plan::SidecarPlan;
use crate::api::apps::AppDetail;
use crate::api::secrets::SecretAct;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::output::{self, BOLD, DIM, GOOD};
use crate::cli::repository_apps::RepositoryApps;
use crate::cli::secret_store::target_secrets::{StoreArgs, TargetSettings};
use crate::cli::settings::write_private;
use crate::cli::working_folder;
use crate::model::id::{AppKey, ImageTag, TargetName};
use crate::model::secret_key::SecretKeyName;
use crate::support::clock;
use crate::support::random::random_bytes;
use crate::templates::view;
use crate::waml::section::Section;
use crate::waml::section_processes::WEB;
use crate::waml::section_workload::EnvVar;

/// The file of variables that is read without being named.
const USUAL_FILE: &str = ".env";

/// Runs the app on this machine as the WAML says for a target: with COMMAND that, else the image by docker or podman.
///
/// It gets the variables of the WAML, those of secrets with your own login at the store (as `bart secrets`), the files
/// and the ports. A variable of an env file goes before those, one of the command line before all. bart prints the names
/// and origins of the variables, no values; Ctrl-C ends the app, and the exit code is the app's.
///
/// The image is the one that is live on the target, unless you name its tag or another image.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart run dev -- go run ./cmd/server
  bart run dev
  bart run dev --tag 1.10
  bart run dev --process worker
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
    /// The process to run, where the WAML has several
    #[arg(long, value_name = "NAME", default_value = WEB)]
    process: String,
    /// The tag of the image to run. Default: the one that is live on the target, as the service says
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
    /// Start the WAML's `database`, `redis` and `sidecars` as containers, and remove them at the end
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
        // A wrong name is told before anything is asked or read.
        settings.find_process(&self.process)?;
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
            let section = settings.find_process(&self.process)?;
            let plan = plan::plan(section, &settings.waml.app, &settings.secrets, &sources);
            report(&plan, &[], &self.target);
            write_private(file, env_file::write(&plan.variables).expose_secret().as_bytes())?;
            let count = plan.variables.len();
            return output::print(&format!(
                "{GOOD}ok{GOOD:#} wrote {count} variables to {}\n",
                file.display()
            ));
        }
        let image =
            if self.command.is_empty() { Some(self.find_image(&settings).await?) } else { None };
        let needs_engine = image.is_some() || self.with_dependencies;
        let engine =
            if needs_engine { Some(ContainerEngine::find(self.engine.as_deref())?) } else { None };
        let settings = self.read_secrets(settings, &mut sources).await?;
        let section = settings.find_process(&self.process)?;
        let run_id = clock::random_digits();
        let app = &settings.waml.app;
        // Ids of one moment are alike, and arguments have the run's.
        let password = random_bytes().map(hex::encode).map_err(CliError::failed)?.into();
        let dependencies = if self.with_dependencies {
            container::dependencies(section, app.slug.as_str(), &password)
        } else {
            Vec::new()
        };
        for dependency in &dependencies {
            let host = if image.is_some() { dependency.host } else { "127.0.0.1" };
            sources.dependencies.extend(dependency.app_variables(host));
        }
        let plan = plan::plan(section, app, &settings.secrets, &sources);
        let sidecars = if self.with_dependencies {
            sidecar_plan::sidecars(section, app, &sources, &plan)
        } else {
            Vec::new()
        };
        report(&plan, &sidecars, &self.target);
        let folder = RunFolder::create(&run_id)?;
        let name = format!("bart-{}-{run_id}", app.slug);
        let job =
            RunJob { plan: &plan, section, sidecars: &sidecars, folder: &folder, name: &name };
        let Some(engine) = engine else { return job.run_command(&self.command).await };
        let is_command = image.is_none();
        engine
            .run_beside(&name, &dependencies, &folder, is_command, async |network| match &image {
                Some(image) => job.run_image(&engine, image, network).await,
                None => job.run_command_with_sidecars(&engine, &self.command, network).await,
            })
            .await
    }

    async fn find_image(&self, settings: &TargetSettings) -> Result<String, CliError> {
        if let Some(image) = &self.image {
            return job::check_image(image).map(str::to_owned);
        }
        let tag = match &self.tag {
            Some(tag) => tag.clone(),
            None => self.find_live_tag(&settings.waml.app).await.map_err(|reason| {
                CliError::usage(format!("which image is to be run? {reason}")).hint(
                    "name its tag with --tag (`bart builds` lists them), an image of this machine with --image, or a command after `--`",
                )
            })?,
        };
        let repository = self.store.repository()?;
        let release = local::release(&settings.waml, Some(repository), Some(tag));
        let section = settings.find_process(&self.process)?;
        Ok(view::reference(section.image.as_ref(), &release))
    }

    /// Asks the service which tag is live on the target; the error is the reason why none is known.
    async fn find_live_tag(&self, app: &AppKey) -> Result<ImageTag, String> {
        let server = &self.store.server;
        if !server.is_named() {
            return Err("no service is configured that says what is live".to_owned());
        }
        let target = self.store.cluster_of(&self.target);
        let detail: Result<Option<AppDetail>, _> =
            server.find(&format!("/api/v1/apps/{target}/{app}")).await;
        let live = match detail.map_err(|error| error.whole())? {
            Some(AppDetail { live: Some(live), .. }) => live,
            Some(AppDetail { hand_edited: true, .. }) => {
                return Err(format!("the files of {app} on {target} were edited by hand"));
            }
            Some(_) | None => return Err(format!("{app} is not live on {target}")),
        };
        let tag = live.tag.and_then(|tag| ImageTag::parse(tag).ok());
        let tag = tag.ok_or_else(|| format!("the tag that is live on {target} is not known"))?;
        output::note(&output::note_line(format!("runs {tag}, which is live on {target}")));
        Ok(tag)
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
        let section = settings.find_process(&self.process)?;
        let variables = variables_of(section, self.with_dependencies);
        let needed = plan::needed_secrets(variables, &settings.secrets, sources);
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

/// The variables of the containers that are run.
fn variables_of(section: &Section, with_sidecars: bool) -> impl Iterator<Item = &EnvVar> {
    let sidecars = section.sidecars.iter().flatten().filter(move |_| with_sidecars);
    let of_sidecars = sidecars.flat_map(|sidecar| sidecar.env.iter().flatten());
    section.env.iter().flatten().chain(of_sidecars)
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
fn report(plan: &RunPlan, sidecars: &[SidecarPlan<'_>], target: &TargetName) {
    let RunPlan { variables, missing, files, ports } = plan;
    let mut text = list_values(target.as_str(), variables, files, ports);
    for SidecarPlan { name, variables, files, ports, .. } in sidecars {
        text += &list_values(&format!("sidecar {name}"), variables, files, ports);
    }
    output::note(&text);
    for MissingValue { name, reason } in missing {
        output::warning(&format!("{name} is not set: {reason}"));
    }
    for SidecarPlan { name: sidecar, missing, .. } in sidecars {
        for MissingValue { name, reason } in missing {
            output::warning(&format!("{name} of the sidecar {sidecar} is not set: {reason}"));
        }
    }
    let is_missing = |missing: &[MissingValue]| !missing.is_empty();
    if is_missing(missing) || sidecars.iter().any(|sidecar| is_missing(&sidecar.missing)) {
        output::note(&output::note_line(format!(
            "set variables with --set NAME=VALUE, or in an env file ({USUAL_FILE}, --from-env FILE)"
        )));
    }
}

/// Lists what a container gets, without values.
fn list_values(
    title: &str,
    variables: &[RunVariable],
    files: &[RunFile],
    ports: &BTreeSet<RunPort>,
) -> String {
    let mut text = format!("{BOLD}{title}{BOLD:#}: {} variables\n", variables.len());
    for variable in variables {
        text += &format!("   {} {DIM}({}){DIM:#}\n", variable.name, variable.origin);
    }
    for RunFile { folder, name, is_secret, .. } in files {
        let origin = if *is_secret { "a secret" } else { "the WAML" };
        text += &format!("   {folder}/{name} {DIM}({origin}){DIM:#}\n");
    }
    if !ports.is_empty() {
        let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
        text += &format!("   ports {}\n", ports.join(", "));
    }
    text
}
