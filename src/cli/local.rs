//! The input of `validate`, `render` and `explain`: a WAML from a file, and templates from the program or a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::client::ServiceEndpoint;
use super::context::RepositorySelector;
use super::diagnostics::{self, SourceTexts};
use super::error::{CliError, CommandOutcome};
use super::extra_files;
use super::output::{self, Format};
use super::platform::KnownTargets;
use super::repository_apps::{AppChoiceArg, RepositoryApps};
use super::working_folder::{self, WAML_FILE};
use crate::model::id::{CommitSha, ImageTag, RepoName};
use crate::model::release::Release;
use crate::model::template::TemplateSources;
use crate::model::violation::{Rejection, Violation, Violations};
use crate::pipeline::all_violations;
use crate::templates::set::TemplateSet;
use crate::templates::sources;
use crate::waml::Waml;
use crate::waml::yaml::Budget;

/// The WAML file and the templates.
#[derive(Debug, Args)]
pub(super) struct WamlSource {
    /// The WAML; `-` reads standard input. Default: `.weave.yaml`, or the file of an app under `.weave/`
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) app: AppChoiceArg,
    /// A folder of templates with `apps/` in it, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(super) templates: Option<PathBuf>,
}

/// The options of a command that plans on this machine.
#[derive(Debug, Args)]
pub(super) struct LocalPlan {
    #[command(flatten)]
    pub(super) source: WamlSource,
    /// The offers of the service's targets, as `the-deployer platform export` writes them. Default: the service's
    /// answer, if a service is named
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    #[command(flatten)]
    pub(super) selector: RepositorySelector,
    #[command(flatten)]
    pub(super) server: ServiceEndpoint,
}

impl LocalPlan {
    /// Returns what is known of the targets: from the file, else from the service, else from the service's last answer.
    pub(super) async fn known_targets(
        &self,
        repository: Option<&RepoName>,
    ) -> Result<KnownTargets, CliError> {
        match (&self.platform, repository) {
            (Some(path), _) => KnownTargets::read(path),
            _ if !self.server.is_named() => Ok(KnownTargets::unknown("no service is named")),
            (None, Some(repository)) => Ok(KnownTargets::fetch(&self.server, repository).await),
            (None, None) => {
                Ok(KnownTargets::unknown("no git remote says which repository this is"))
            }
        }
    }
}

/// The input of a command: the WAML, and the texts that violations point into.
pub(super) struct LocalInput {
    pub(super) waml: Result<Arc<Waml>, Rejection>,
    pub(super) templates: Arc<TemplateSet>,
    pub(super) sources: SourceTexts,
}

impl WamlSource {
    /// Returns the WAMLs: the named one, that of the chosen app, or those of all apps of the working folder.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, CliError> {
        if let Some(file) = &self.file {
            return match self.app.name() {
                None => Ok(vec![file.clone()]),
                Some(_) => Err(CliError::usage("name a file or an app, and not both")),
            };
        }
        let apps = RepositoryApps::read_current();
        if apps.files().apps().is_empty() && self.app.name().is_none() {
            // The error of the reader says what to do.
            return Ok(vec![PathBuf::from(WAML_FILE)]);
        }
        match self.app.name() {
            Some(name) => Ok(vec![apps.choose(Some(name))?.path]),
            None => Ok(apps.list().into_iter().map(|file| file.path).collect()),
        }
    }

    /// Reads the one WAML and the templates; prints the violations of broken templates.
    pub(super) fn open(
        &self,
        format: Format,
        known_targets: &KnownTargets,
    ) -> Result<LocalInput, CliError> {
        let files = self.files()?;
        let [file] = files.as_slice() else {
            let file = RepositoryApps::read_current().choose(None)?;
            return self.open_file(&file.path, format, known_targets);
        };
        self.open_file(file, format, known_targets)
    }

    /// Reads a WAML and the templates; prints the violations of broken templates.
    pub(super) fn open_file(
        &self,
        file: &Path,
        format: Format,
        known_targets: &KnownTargets,
    ) -> Result<LocalInput, CliError> {
        let bytes = working_folder::read(file)?;
        let name = match file.display().to_string().as_str() {
            "-" => "<stdin>".to_owned(),
            name => name.to_owned(),
        };
        let mut sources = SourceTexts::default();
        sources.add(&name, String::from_utf8_lossy(&bytes));
        let templates = templates(self.templates.as_deref(), &mut sources, format)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let waml = parse(&name, &bytes, &templates, known_targets).map(|waml| {
            extra_files::from_folder(Arc::unwrap_or_clone(waml), folder, &mut sources).into()
        });
        Ok(LocalInput { waml, templates, sources })
    }
}

/// Parses a WAML; if it does not name its app, also checks everything else for all of its targets.
pub(super) fn parse(
    name: &str,
    bytes: &[u8],
    templates: &TemplateSet,
    known_targets: &KnownTargets,
) -> Result<Arc<Waml>, Rejection> {
    Waml::parse(name, bytes).map(Arc::new).map_err(|rejection| {
        let Some(draft) = Waml::parse_draft(name, bytes, &Budget::default()) else {
            return rejection;
        };
        let targets = all_violations::tried_targets(&draft, None, templates).into_iter();
        let of_target = |target| {
            known_targets.judge(target, |clusters| {
                all_violations::of_draft(&draft, target, templates, &clusters)
            })
        };
        all_violations::merged_with(rejection, targets.flat_map(of_target))
    })
}

/// Loads the templates of a folder, or the built-in ones, and adds their texts for violations. Prints the violations of
/// broken ones.
pub(super) fn templates(
    folder: Option<&Path>,
    sources: &mut SourceTexts,
    format: Format,
) -> Result<Arc<TemplateSet>, CliError> {
    let texts = match folder {
        None => sources::built_in(),
        Some(folder) => sources::folder(folder).map_err(CliError::failed)?,
    };
    add_templates(sources, &texts);
    match TemplateSet::compile(&texts) {
        Ok(templates) => Ok(Arc::new(templates)),
        Err(rejection) => Err(refuse(&rejection.violations, sources, format)?),
    }
}

/// Adds the texts of templates, under the names that violations have for them.
pub(super) fn add_templates(sources: &mut SourceTexts, texts: &TemplateSources) {
    let folders =
        [("", &texts.files), ("components/", &texts.components), ("policies/", &texts.policies)];
    for (folder, files) in folders {
        for file in files {
            sources.add(&format!("{folder}{}", file.path), file.text.as_str());
        }
    }
}

/// Prints violations in the chosen format, and returns the error to end with.
pub(super) fn refuse(
    violations: &[Violation],
    sources: &SourceTexts,
    format: Format,
) -> Result<CliError, CliError> {
    print_violations(violations, sources, format)?;
    Ok(CliError::rejected())
}

/// Prints violations and warnings in the chosen format.
pub(super) fn print_violations(
    violations: &[Violation],
    sources: &SourceTexts,
    format: Format,
) -> CommandOutcome {
    if format.is_data() {
        return output::data(format, &as_json(violations));
    }
    output::note(&diagnostics::render(violations, sources));
    Ok(())
}

/// Returns violations and warnings for programs.
pub(super) fn as_json(violations: &[Violation]) -> serde_json::Value {
    let listed = Violations::new(violations.to_vec());
    serde_json::json!({
        "valid": listed.errors() == 0,
        "violations": &*listed,
        "violations_left_out": listed.left_out(),
    })
}

/// Returns a release for a plan on this machine; a part that is not given cannot break a rule.
pub(super) fn release(waml: &Waml, repository: Option<RepoName>, tag: Option<ImageTag>) -> Release {
    let local = || RepoName::parse(format!("local/{}", waml.app.slug));
    Release {
        repository: repository
            .unwrap_or_else(|| local().expect("a slug is a legal repository name")),
        app: None,
        commit: CommitSha::parse("0".repeat(40)).expect("forty digits are a commit id"),
        tag: tag.unwrap_or_else(|| ImageTag::parse("validate").expect("a word is a tag")),
    }
}

/// Parses a number of results, from 1 to `MAX`.
pub(super) fn count<const MAX: u32>(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| format!("write a number from 1 to {MAX}"))
}
