//! `the-deployer templates` checks templates before they are deployed.

mod impact;
mod wamls; // the WAMLs of a comparison

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::diagnostics::{self, SourceTexts};
use crate::cli::error::{CliError, CommandOutcome, on_runtime};
use crate::cli::local;
use crate::cli::output::{self, BAD, BOLD, Format, GOOD};
use crate::pipeline::check::{self, CheckReport, CheckedTemplate};
use crate::templates::sources;

/// Checks and compares templates before they are deployed.
#[derive(Debug, Subcommand)]
pub(super) enum TemplatesCommand {
    Check(TemplatesCheckArgs),
    Impact(impact::ImpactArgs),
}

impl TemplatesCommand {
    pub(super) fn run(self) -> CommandOutcome {
        match self {
            Self::Check(command) => command.run(),
            Self::Impact(command) => on_runtime(command.run()),
        }
    }
}

/// Checks a folder of templates.
///
/// Compiles every template, renders each version with the WAMLs in its `samples/` for all their targets, and checks the
/// result as a deployment would. Also reports names that have no value, including those in branches that no sample
/// reaches, and defaults and parameters that no file reads.
///
/// Exit code 0 when the templates can be used (warnings are shown), 1 when not, 2 when the folder cannot be read.
#[derive(Debug, Args)]
pub(super) struct TemplatesCheckArgs {
    /// The folder that has `apps/`
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl TemplatesCheckArgs {
    fn run(&self) -> CommandOutcome {
        let texts = sources::folder(&self.folder).map_err(CliError::failed)?;
        let mut sources = SourceTexts::default();
        local::add_templates(&mut sources, &texts);
        let report = check::templates(&texts).unwrap_or_else(|rejection| CheckReport {
            templates: vec![],
            violations: rejection.violations,
        });
        if self.output.is_data() {
            let CheckReport { templates, violations } = &report;
            let valid = report.passes();
            let data = json!({"valid": valid, "templates": templates, "violations": violations});
            output::data(self.output, &data)?;
        } else {
            self.print_report(&report, &sources)?;
        }
        if report.passes() { Ok(()) } else { Err(CliError::rejected()) }
    }

    fn print_report(&self, report: &CheckReport, sources: &SourceTexts) -> CommandOutcome {
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

fn line(report: &CheckedTemplate) -> String {
    let CheckedTemplate { template, files, samples, targets, objects, parameters } = report;
    let parameters = if parameters.is_empty() {
        String::new()
    } else {
        format!("; parameters: {}", parameters.join(", "))
    };
    let [files, samples, targets, objects] =
        [(*files, "file"), (*samples, "sample"), (*targets, "target"), (*objects, "object")]
            .map(|(n, word)| format!("{n} {word}{}", if n == 1 { "" } else { "s" }));
    format!(
        "{BOLD}{template}{BOLD:#}: {files}; {samples} for {targets} gave {objects}{parameters}\n"
    )
}
