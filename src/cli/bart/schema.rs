//! `bart schema` prints the JSON Schema of the WAML.

use std::path::PathBuf;

use clap::Args;

use crate::cli::diagnostics::SourceTexts;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::output::{self, Format};
use crate::waml::document;

/// Prints the JSON Schema of the WAML, for completion and checks in editors.
///
/// Save it and name it in the first line of `.weave.yaml`: `# yaml-language-server: $schema=./waml.schema.json`
///
/// With a template it has the template's own parameters, too: `bart schema --templates DIR --template web`.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The template whose parameters are in it, NAME or NAME@VERSION
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// A folder of templates with `apps/` in it, instead of the built-in ones
    #[arg(long, value_name = "DIR", requires = "template")]
    templates: Option<PathBuf>,
}

impl SchemaArgs {
    pub(super) fn run(&self) -> CommandOutcome {
        let Some(name) = &self.template else { return output::json(&document::json_schema()) };
        let mut sources = SourceTexts::default();
        let templates =
            local::templates(self.templates.as_deref(), &mut sources, Format::default())?;
        let template = templates.find(name).map_err(|violation| {
            let help = violation.help.clone().unwrap_or_default();
            CliError::usage(violation.message).hint(help)
        })?;
        output::json(&document::json_schema_with_parameters(template.parameters.properties()))
    }
}
