//! What `validate`, `render` and `explain` share: a WAML from a file, templates from the program
//! or a folder, and no service anywhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::diagnostics::{self, Sources};
use super::error::{CliError, Outcome};
use super::output::{self, Format};
use super::platform::KnownTargets;
use crate::model::id::{CommitSha, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::template::TemplateSources;
use crate::model::violation::{Rejection, Violation, Violations};
use crate::pipeline::all_violations;
use crate::templates::set::Templates;
use crate::templates::sources;
use crate::waml::Waml;
use crate::waml::yaml::Budget;

/// The file of a service's repository.
pub(crate) const WAML_FILE: &str = ".weave.yaml";

/// Which file, and with which templates.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// The WAML; `-` reads standard input
    #[arg(default_value = WAML_FILE)]
    pub(crate) file: PathBuf,
    /// A folder of templates with `apps/` in it, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(crate) templates: Option<PathBuf>,
}

/// A command's world: the file as read, and the texts to point into.
pub(crate) struct World {
    pub(crate) waml: Result<Arc<Waml>, Rejection>,
    pub(crate) templates: Arc<Templates>,
    pub(crate) sources: Sources,
}

impl Source {
    /// Reads the WAML and the templates.
    ///
    /// # Errors
    /// When a file cannot be read, or the templates are broken (their violations are printed).
    pub(crate) fn open(&self, format: Format, known: &KnownTargets) -> Result<World, CliError> {
        let bytes = read(&self.file)?;
        let name = self.name();
        let mut sources = Sources::default();
        sources.add(&name, String::from_utf8_lossy(&bytes));
        let templates = templates(self.templates.as_deref(), &mut sources, format)?;
        Ok(World { waml: parse(&name, &bytes, &templates, known), templates, sources })
    }

    /// How violations name the file.
    fn name(&self) -> String {
        if self.file == Path::new("-") {
            "<stdin>".to_owned()
        } else {
            self.file.display().to_string()
        }
    }
}

/// Reads a WAML; where it does not say which app it is, all else that is wrong with it is told too, for all of its
/// targets, by what is known of them.
///
/// # Errors
/// All violations.
pub(crate) fn parse(
    name: &str,
    bytes: &[u8],
    templates: &Templates,
    known: &KnownTargets,
) -> Result<Arc<Waml>, Rejection> {
    Waml::parse(name, bytes).map(Arc::new).map_err(|rejection| {
        let Some(draft) = Waml::parse_draft(name, bytes, &Budget::default()) else {
            return rejection;
        };
        let targets = all_violations::tried_targets(&draft, None, templates).into_iter();
        let of_target = |target| {
            known.judge(target, |clusters| {
                all_violations::of_draft(&draft, target, templates, &clusters)
            })
        };
        all_violations::merged_with(rejection, targets.flat_map(of_target))
    })
}

/// The templates of a folder, or the built-in ones; their texts are added for pointing into.
///
/// # Errors
/// When they cannot be read, or are broken (their violations are printed).
pub(crate) fn templates(
    folder: Option<&Path>,
    sources: &mut Sources,
    format: Format,
) -> Result<Arc<Templates>, CliError> {
    let texts = match folder {
        None => sources::built_in(),
        Some(folder) => sources::folder(folder).map_err(|error| CliError::io(error.to_string()))?,
    };
    add_templates(sources, &texts);
    match Templates::compile(&texts) {
        Ok(templates) => Ok(Arc::new(templates)),
        Err(rejection) => Err(refuse(&rejection.violations, sources, format)?),
    }
}

/// Adds the texts of templates, by the names that violations have for them.
pub(crate) fn add_templates(sources: &mut Sources, texts: &TemplateSources) {
    let folders =
        [("", &texts.files), ("components/", &texts.components), ("policies/", &texts.policies)];
    for (folder, files) in folders {
        for file in files {
            sources.add(&format!("{folder}{}", file.path), file.text.as_str());
        }
    }
}

/// Reads a file whole, but never more than a WAML can be.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    use std::io::Read;
    const MOST: u64 = 16 * 1024 * 1024;
    let mut bytes = Vec::new();
    let opened: std::io::Result<Box<dyn Read>> = if path == Path::new("-") {
        Ok(Box::new(std::io::stdin()))
    } else {
        std::fs::File::open(path).map(|file| Box::new(file) as Box<dyn Read>)
    };
    let done = opened.and_then(|input| input.take(MOST).read_to_end(&mut bytes));
    done.map_err(|error| {
        CliError::io(format!("cannot read {}: {error}", path.display()))
            .hint(format!("name the file, or run the command where `{WAML_FILE}` is"))
    })?;
    Ok(bytes)
}

/// Prints violations in the chosen format; the error to end with.
///
/// # Errors
/// When printing fails.
pub(crate) fn refuse(
    violations: &[Violation],
    sources: &Sources,
    format: Format,
) -> Result<CliError, CliError> {
    tell(violations, sources, format)?;
    Ok(CliError::rejected())
}

/// Prints violations and warnings in the chosen format.
///
/// # Errors
/// When printing fails.
pub(crate) fn tell(violations: &[Violation], sources: &Sources, format: Format) -> Outcome {
    match format {
        data @ (Format::Json | Format::Yaml) => output::data(data, &as_json(violations)),
        Format::Text => {
            output::note(&diagnostics::render(violations, sources));
            Ok(())
        }
    }
}

/// Violations and warnings for programs.
pub(crate) fn as_json(violations: &[Violation]) -> serde_json::Value {
    let listed = Violations::new(violations.to_vec());
    serde_json::json!({
        "valid": listed.errors() == 0,
        "violations": &*listed,
        "violations_left_out": listed.left_out(),
    })
}

/// A release to plan with where nothing is deployed; what is not given cannot be wrong.
pub(crate) fn release(waml: &Waml, repository: Option<RepoName>, tag: Option<ImageTag>) -> Release {
    let local = || RepoName::parse(format!("local/{}", waml.app.slug));
    Release {
        repository: repository
            .unwrap_or_else(|| local().expect("a slug is a legal repository name")),
        commit: CommitSha::parse("0".repeat(40)).expect("forty digits are a commit id"),
        tag: tag.unwrap_or_else(|| ImageTag::parse("validate").expect("a word is a tag")),
    }
}

/// Reads how many of something are wanted, from 1 to `MOST`.
pub(crate) fn count<const MOST: u32>(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("write a number from 1 to {MOST}"))
}

/// Reads a target's name from an argument.
pub(crate) fn target(text: &str) -> Result<TargetName, String> {
    TargetName::parse(text).map_err(|error| error.to_string())
}
