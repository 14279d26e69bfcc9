//! `the-deployer templates check`: a set of templates with its own samples.

use std::path::PathBuf;

use clap::Args;

use crate::cli::diagnostics::{self, Sources};
use crate::cli::error::{CliError, Outcome};
use crate::cli::offline;
use crate::cli::output::{self, BAD, BOLD, Format, GOOD};
use crate::pipeline::check;
use crate::pipeline::check::{Checked, Report};
use crate::templates::sources;

/// Checks a folder of templates.
///
/// Compiles every template, renders each version with the WAMLs in its `samples/` for all their
/// targets, and checks the result as a deployment would. Also tells names that nothing gives a value,
/// in branches that no sample reaches too, and defaults that no file reads.
///
/// Exit code 0 when the templates can be used (warnings are shown), 1 when not, 2 when the folder
/// cannot be read.
#[derive(Debug, Args)]
pub(in crate::cli) struct Check {
    /// The folder that has `apps/`
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Check {
    pub(super) fn run(&self) -> Outcome {
        let texts = sources::folder(&self.folder).map_err(|e| CliError::io(e.to_string()))?;
        let mut sources = Sources::default();
        offline::add_templates(&mut sources, &texts);
        let report = check::templates(&texts).unwrap_or_else(|rejection| Report {
            templates: vec![],
            violations: rejection.violations,
        });
        match self.output {
            data @ (Format::Json | Format::Yaml) => output::data(
                data,
                &serde_json::json!({
                    "valid": report.passes(),
                    "templates": report.templates,
                    "violations": report.violations,
                }),
            )?,
            Format::Text => self.tell(&report, &sources)?,
        }
        if report.passes() { Ok(()) } else { Err(CliError::rejected()) }
    }

    fn tell(&self, report: &Report, sources: &Sources) -> Outcome {
        output::print(&report.templates.iter().map(line).collect::<String>())?;
        if !report.violations.is_empty() {
            output::note(&diagnostics::render(&report.violations, sources));
        }
        let folder = self.folder.display();
        output::print(&if report.passes() {
            format!("{GOOD}ok{GOOD:#} the templates in {folder} can be used\n")
        } else {
            format!("{BAD}refused{BAD:#} the templates in {folder} cannot be used as they are\n")
        })
    }
}

fn line(checked: &Checked) -> String {
    let Checked { template, files, samples, targets, objects } = checked;
    let [files, samples, targets, objects] =
        [(*files, "file"), (*samples, "sample"), (*targets, "target"), (*objects, "object")]
            .map(|(n, word)| format!("{n} {word}{}", if n == 1 { "" } else { "s" }));
    format!("{BOLD}{template}{BOLD:#}: {files}; {samples} for {targets} gave {objects}\n")
}
