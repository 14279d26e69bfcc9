//! `bart schema`: the JSON Schema of the WAML.

use clap::Args;

use super::error::Outcome;
use super::output;
use crate::waml::document;

/// Prints the JSON Schema of the WAML, which editors complete and check with.
///
/// Save it and name it in the first line of `.weave.yaml`:
/// `# yaml-language-server: $schema=./waml.schema.json`
#[derive(Debug, Args)]
pub(super) struct Schema {}

impl Schema {
    /// Runs the command.
    ///
    /// # Errors
    /// When standard output is closed.
    #[expect(clippy::unused_self, reason = "every command is run the same way")]
    pub(super) fn run(&self) -> Outcome {
        output::json(&document::json_schema())
    }
}
