//! `bart render` renders the manifests of a deployment, without a service.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use crate::cli::bart::canary;
use crate::cli::context;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::host::Host;
use crate::cli::local::{self, LocalInput, LocalPlan};
use crate::cli::output::{self, BOLD, Format, GOOD};
use crate::cli::platform::{self, KnownTargets};
use crate::model::fleet::FleetPlace;
use crate::model::id::{ImageTag, RepoName, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::target::Clusters;
use crate::model::violation::Severity;
use crate::pipeline::fact_requests;
use crate::pipeline::render::RenderedManifests;
use crate::pipeline::{Input, plan};
use crate::waml::{Waml, suggest};

/// The longest wait for the service: the command can do without it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Public hosts that are not GitHub: no service has its repositories there.
const NO_GITHUB: [&str; 6] = [
    "gitlab.com",
    "bitbucket.org",
    "codeberg.org",
    "git.sr.ht",
    "dev.azure.com",
    "ssh.dev.azure.com",
];

/// Renders the manifests of a WAML for one target, as a deployment would push them.
///
/// The same WAML, tag, templates, version and platform give the same bytes as the service. What the target offers comes
/// from the service if one is named, from its last answer if it does not answer, or from --platform. The repository
/// names the image if the WAML does not. Prints one YAML stream, or writes one file per object with --out.
#[derive(Debug, Args)]
pub(super) struct Render {
    #[command(flatten)]
    local: LocalPlan,
    /// The target under `deploy`
    #[arg(long, short)]
    target: TargetName,
    /// The cluster, where the target is a fleet: each has manifests of its own
    #[arg(long, value_name = "NAME")]
    cluster: Option<TargetName>,
    /// The image tag
    #[arg(long)]
    tag: ImageTag,
    /// Write the files into this folder, instead of printing them; it must be empty or new
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show the steps and times of the canary, in place of the manifests
    #[arg(long, conflicts_with = "out")]
    explain_canary: bool,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Render {
    pub(super) async fn run(&self) -> CommandOutcome {
        let repository = self.repository().await;
        let known_targets = self.local.known_targets(repository.as_ref().ok()).await?;
        let world = self.local.source.open(self.output, &known_targets)?;
        if self.output == Format::Text {
            output::note(&known_targets.note(std::slice::from_ref(&self.target)));
        }
        let waml = match &world.waml {
            Ok(waml) => waml.clone(),
            Err(rejection) => {
                return Err(local::refuse(&rejection.violations, &world.sources, self.output)?);
            }
        };
        let input = self.input(&waml, repository, &world, &known_targets)?;
        let clusters = known_targets.clusters_for(&self.target).unwrap_or_else(Clusters::any);
        let Ok(rendered) = plan(&input, &platform::facts(clusters)) else {
            return Err(self.refused(&input, &world, &known_targets)?);
        };
        if self.output == Format::Text && !rendered.warnings.is_empty() {
            local::print_violations(&rendered.warnings, &world.sources, self.output)?;
        }
        if self.explain_canary {
            return self.explain_canary(&rendered);
        }
        match &self.out {
            Some(folder) => self.write(folder, &rendered, &known_targets),
            None => self.print(&rendered, &known_targets),
        }
    }

    /// Returns the repository, if the service's code host can have it: another host's image is another, too.
    async fn repository(&self) -> Result<RepoName, CliError> {
        let repository = self.local.selector.repository()?;
        let Some(host) = context::remote_host().filter(|_| !self.local.selector.is_given()) else {
            return Ok(repository);
        };
        let lookup = tokio::time::timeout(PATIENCE, Host::fetch(&self.local.server));
        let of_service = if self.local.server.is_named() { lookup.await.ok() } else { None };
        match of_service.and_then(Result::ok) {
            Some(code_host) if !code_host.may_have(&host) => Err(foreign_host_error(&host)),
            None if NO_GITHUB.contains(&host.as_str()) => Err(foreign_host_error(&host)),
            Some(_) | None => Ok(repository),
        }
    }

    /// Returns the input of the plan. If no repository is known, it must not matter.
    fn input(
        &self,
        waml: &Arc<Waml>,
        repository: Result<RepoName, CliError>,
        world: &LocalInput,
        known_targets: &KnownTargets,
    ) -> Result<Input, CliError> {
        let fleet = self.fleet_place(known_targets)?;
        let input_of = |repository: RepoName| Input {
            waml: waml.clone(),
            target: self.target.clone(),
            fleet: fleet.clone(),
            release: local::release(waml, Some(repository), Some(self.tag.clone())),
            templates: world.templates.clone(),
        };
        let error = match repository {
            Ok(repository) => return Ok(input_of(repository)),
            Err(error) => error,
        };
        let clusters = known_targets.clusters_for(&self.target).unwrap_or_else(Clusters::any);
        let [first, second] = ["one/one", "other/other"].map(|name| {
            let input = input_of(RepoName::parse(name).expect("two words are a repository"));
            let image = fact_requests::collect_questions(&input, &clusters)
                .map(|questions| questions.image);
            (input, image)
        });
        if first.1 == second.1 { Ok(first.0) } else { Err(error) }
    }

    /// Returns the place of the cluster in its fleet; `None` where the target is no fleet.
    fn fleet_place(&self, known_targets: &KnownTargets) -> Result<Option<FleetPlace>, CliError> {
        let mut places: Vec<FleetPlace> =
            known_targets.places_of(&self.target).into_iter().flatten().collect();
        let names: Vec<&str> = places.iter().map(|place| place.cluster.as_str()).collect();
        let hint = format!("its clusters are {}", suggest::list(names.iter().copied()));
        match &self.cluster {
            None if places.is_empty() => Ok(None),
            None => {
                let message = format!("{} is a fleet: name one of its clusters", self.target);
                Err(CliError::usage(format!("{message} with --cluster")).hint(hint))
            }
            Some(cluster) => match places.iter().position(|place| place.cluster == *cluster) {
                Some(n) => Ok(Some(places.swap_remove(n))),
                None if places.is_empty() => {
                    let message = format!("{} is no fleet, as far as is known", self.target);
                    Err(CliError::usage(message).hint(
                        "leave --cluster out; a fleet's clusters are known from the service, or from a file of \
                         `the-deployer platform export`",
                    ))
                }
                None => {
                    let message = format!("{cluster} is no cluster of the fleet {}", self.target);
                    Err(CliError::usage(message).hint(hint))
                }
            },
        }
    }

    /// Returns the reason why it cannot be rendered.
    fn refused(
        &self,
        input: &Input,
        world: &LocalInput,
        known_targets: &KnownTargets,
    ) -> Result<CliError, CliError> {
        let violations = platform::judge(input, known_targets);
        let is_certain = violations.iter().any(|violation| violation.severity == Severity::Error);
        let rejection = local::refuse(&violations, &world.sources, self.output)?;
        if is_certain {
            return Ok(rejection);
        }
        let message = format!("what {} offers is unknown, and the app needs it", self.target);
        Ok(CliError::usage(message)
            .hint("name the service with --server, or a file of `the-deployer platform export` with --platform"))
    }

    /// Prints how a release gets its traffic.
    fn explain_canary(&self, rendered: &RenderedManifests) -> CommandOutcome {
        let Some(forecast) = &rendered.canary else {
            let message = format!("{} has no canary on {}", rendered.app, self.target);
            return Err(CliError::usage(message)
                .hint("a WAML has one where a section says `canary`, see docs/canary.md"));
        };
        self.output.print(&serde_json::json!(forecast), || canary::describe(forecast))
    }

    fn print(&self, rendered: &RenderedManifests, known_targets: &KnownTargets) -> CommandOutcome {
        if self.output.is_data() {
            return output::data(self.output, &as_json(rendered, known_targets));
        }
        let document = |file: &ManifestFile| {
            format!("---\n# {}\n{}", file.name, String::from_utf8_lossy(&file.bytes))
        };
        output::document(&rendered.files.iter().map(document).collect::<String>())
    }

    fn write(
        &self,
        folder: &Path,
        rendered: &RenderedManifests,
        known_targets: &KnownTargets,
    ) -> CommandOutcome {
        let failed = CliError::file("write into", folder);
        std::fs::create_dir_all(folder).map_err(&failed)?;
        if std::fs::read_dir(folder).map_err(&failed)?.next().is_some() {
            return Err(CliError::usage(format!("{} is not empty", folder.display()))
                .hint("name a new folder, so that nothing stale stays beside the manifests"));
        }
        for file in &rendered.files {
            std::fs::write(folder.join(&file.name), &file.bytes).map_err(&failed)?;
        }
        self.output.print(&as_json(rendered, known_targets), || {
            let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
            let (folder, names, digest) = (folder.display(), names.join(", "), &rendered.digest);
            format!("{GOOD}ok{GOOD:#} {BOLD}{folder}{BOLD:#}: {names}\n   {digest}\n")
        })
    }
}

fn foreign_host_error(host: &str) -> CliError {
    CliError::usage(format!(
        "which repository is this? its git remote is at {host}, and the service's repositories are not"
    ))
    .hint("name it with --repository OWNER/NAME, or write `image.repository` into the WAML")
}

fn as_json(rendered: &RenderedManifests, known_targets: &KnownTargets) -> serde_json::Value {
    let files = rendered.files.iter().map(|file| {
        (file.name.clone(), serde_json::Value::from(String::from_utf8_lossy(&file.bytes)))
    });
    serde_json::json!({
        "app": rendered.app, "target": rendered.target.name, "template": rendered.template,
        "digest": rendered.digest, "files": files.collect::<serde_json::Map<_, _>>(),
        "warnings": rendered.warnings, "canary": rendered.canary, "platform": known_targets.as_json(),
    })
}
