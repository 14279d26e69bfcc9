//! `bart render`: the manifests that a deployment would push, without any service.

use std::path::{Path, PathBuf};

use clap::Args;

use super::error::{CliError, Outcome};
use super::offline::{self, Source};
use super::output::{self, BOLD, Format, GOOD};
use crate::model::id::{ImageTag, RepoName, TargetName};
use crate::model::revision::ManifestFile;
use crate::pipeline::render::Rendered;
use crate::pipeline::{Input, plan};

/// Renders the manifests of a WAML for one target, as a deployment would push them.
///
/// The same WAML, tag, templates and version give the same bytes as the service. Prints one YAML
/// stream, or writes one file per object with --out.
#[derive(Debug, Args)]
pub(super) struct Render {
    #[command(flatten)]
    source: Source,
    /// The target under `deploy`
    #[arg(long, short, value_parser = offline::target)]
    target: TargetName,
    /// The image tag
    #[arg(long, value_parser = |text: &str| ImageTag::parse(text).map_err(|e| e.to_string()))]
    tag: ImageTag,
    /// The service's repository, OWNER/NAME; names the image where the WAML does not
    #[arg(long, value_parser = |text: &str| RepoName::parse(text).map_err(|e| e.to_string()))]
    repository: Option<RepoName>,
    /// Write the files into this folder, instead of printing them; it must be empty or new
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Render {
    /// Runs the command.
    ///
    /// # Errors
    /// Violations, or a file that cannot be read or written.
    pub(super) fn run(&self) -> Outcome {
        let world = self.source.open(self.output)?;
        let planned = world.waml.clone().and_then(|waml| {
            let release = offline::release(&waml, self.repository.clone(), Some(self.tag.clone()));
            let templates = world.templates.clone();
            plan(
                &Input { waml, target: self.target.clone(), release, templates },
                &offline::facts(),
            )
        });
        let rendered = match planned {
            Ok(rendered) => rendered,
            Err(rejection) => {
                return Err(offline::refuse(&rejection.violations, &world.sources, self.output)?);
            }
        };
        if self.output == Format::Text && !rendered.warnings.is_empty() {
            offline::tell(&rendered.warnings, &world.sources, self.output)?;
        }
        match &self.out {
            Some(folder) => self.write(folder, &rendered),
            None => self.print(&rendered),
        }
    }

    fn print(&self, rendered: &Rendered) -> Outcome {
        if self.output.is_data() {
            return output::data(self.output, &as_json(rendered));
        }
        let document = |file: &ManifestFile| {
            format!("---\n# {}\n{}", file.name, String::from_utf8_lossy(&file.bytes))
        };
        output::document(&rendered.files.iter().map(document).collect::<String>())
    }

    fn write(&self, folder: &Path, rendered: &Rendered) -> Outcome {
        let failed = |error: std::io::Error| {
            CliError::io(format!("cannot write into {}: {error}", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        if std::fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Err(CliError::usage(format!("{} is not empty", folder.display()))
                .hint("name a new folder, so that nothing stale stays beside the manifests"));
        }
        for file in &rendered.files {
            std::fs::write(folder.join(&file.name), &file.bytes).map_err(failed)?;
        }
        if self.output.is_data() {
            return output::data(self.output, &as_json(rendered));
        }
        let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
        output::print(&format!(
            "{GOOD}ok{GOOD:#} {BOLD}{}{BOLD:#}: {}\n   {}\n",
            folder.display(),
            names.join(", "),
            rendered.digest
        ))
    }
}

fn as_json(rendered: &Rendered) -> serde_json::Value {
    let files = rendered.files.iter().map(|file| {
        (file.name.clone(), serde_json::Value::from(String::from_utf8_lossy(&file.bytes)))
    });
    serde_json::json!({
        "app": rendered.app, "target": rendered.target.name, "template": rendered.template,
        "digest": rendered.digest, "files": files.collect::<serde_json::Map<_, _>>(),
        "warnings": rendered.warnings,
    })
}
