//! `bart import` turns documents of other systems into sections of a WAML.

mod application_deployment;

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::diagnostics::{self, SourceTexts};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::output::{self, Format};
use crate::model::id::{Slug, TargetName};
use crate::waml::emit;

/// Turns a document of another system into sections of a WAML.
#[derive(Debug, Subcommand)]
pub(super) enum Import {
    ApplicationDeployment(ApplicationDeploymentArgs),
}

/// Turns an `ApplicationDeployment`, as the design of `kubevela` has it, into `versions`, `traffic` and what they need.
///
/// The result is a section under `deploy`, to be put into `.weave.yaml`. What does not map, or means something else
/// there, is a warning with its line. A document of the kind `Cluster` in the same file becomes a warning with what the service's
/// configuration needs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart import application-deployment deployment.yaml --target prod
  bart import application-deployment - --target prod --slug example-app < deployment.yaml

Exit codes: 0 it was turned, perhaps with warnings; 1 it is no ApplicationDeployment; 2 it cannot be read.")]
pub(super) struct ApplicationDeploymentArgs {
    /// The file; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The fleet or the cluster that the section is for
    #[arg(long, value_name = "TARGET")]
    target: TargetName,
    /// The app's slug: what the revisions' names begin with; without it, what they have in common
    #[arg(long, value_name = "SLUG")]
    slug: Option<Slug>,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// More than this is no document of a person's.
const MAX_BYTES: u64 = 256 * 1024;

impl Import {
    pub(super) fn run(&self) -> CommandOutcome {
        let Self::ApplicationDeployment(args) = self;
        let name = args.file.display().to_string();
        let text = args
            .read()
            .map_err(|error| CliError::usage(format!("{name} cannot be read: {error}")))?;
        let mut sources = SourceTexts::default();
        sources.add(&name, text.as_str());
        let imported =
            application_deployment::convert(&name, &text, args.slug.as_ref().map(Slug::as_str));
        let imported = match imported {
            Ok(imported) => imported,
            Err(violation) => {
                output::note(&diagnostics::render(&[*violation], &sources));
                return Err(CliError::rejected());
            }
        };
        let section = json!({"deploy": {args.target.as_str(): imported.section}});
        if args.output.is_data() {
            let warnings = local::as_json(&imported.warnings);
            let data = json!({"waml": section, "warnings": warnings.get("violations")});
            return output::data(args.output, &data);
        }
        if !imported.warnings.is_empty() {
            output::note(&diagnostics::render(&imported.warnings, &sources));
        }
        output::document(&emit::document(&section))
    }
}

impl ApplicationDeploymentArgs {
    fn read(&self) -> std::io::Result<String> {
        let mut text = String::new();
        if self.file.as_os_str() == "-" {
            std::io::stdin().take(MAX_BYTES + 1).read_to_string(&mut text)?;
        } else {
            std::fs::File::open(&self.file)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        }
        if text.len() as u64 > MAX_BYTES {
            return Err(std::io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
        }
        Ok(text)
    }
}
