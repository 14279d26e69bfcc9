//! `bart validate` checks every rule that needs no service.

use std::sync::Arc;

use clap::Args;

use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::local::{LocalInput, LocalPlan};
use crate::cli::output::{self, Format, GOOD};
use crate::cli::platform::{self, KnownTargets};
use crate::model::id::TargetName;
use crate::model::violation::{Severity, Violation, distinct, sort};
use crate::pipeline::Input;
use crate::waml::Waml;

/// Checks a WAML: its form, and the rules on what it gives for each target.
///
/// All violations are printed at once, each with its line and what to do. Exit code 0 when nothing is wrong, 1 when
/// there are violations, 2 when the file cannot be read.
///
/// What the targets offer comes from the service if one is named, from its last answer if it does not answer, or from
/// --platform. If it is unknown, violations that depend on it are warnings.
#[derive(Debug, Args)]
pub(super) struct Validate {
    #[command(flatten)]
    local: LocalPlan,
    /// Only this target; without it, every target under `deploy`
    #[arg(long, short)]
    target: Option<TargetName>,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Validate {
    pub(super) async fn run(&self) -> CommandOutcome {
        let repository = self.local.selector.repository().ok();
        let known_targets = self.local.known_targets(repository.as_ref()).await?;
        let world = self.local.source.open(self.output, &known_targets)?;
        let mut violations = match &world.waml {
            Err(rejection) => rejection.violations.clone(),
            Ok(waml) => {
                // A section under a name that no target can have is checked too.
                let full_waml = Arc::new((**waml).clone().with_misnamed_targets());
                let targets = self.targets(&full_waml);
                let of_targets = targets
                    .iter()
                    .flat_map(|target| of_target(&full_waml, target, &world, &known_targets));
                distinct(of_targets.chain(waml.violations.clone()))
            }
        };
        sort(&mut violations);
        let has_errors = violations.iter().any(|v| v.severity == Severity::Error);
        if self.output.is_data() {
            let mut data = local::as_json(&violations);
            if let Some(map) = data.as_object_mut() {
                map.insert("platform".to_owned(), known_targets.as_json());
            }
            output::data(self.output, &data)?;
        } else {
            // Before the violations, which may depend on it.
            let targets =
                world.waml.as_ref().map_or_else(|_| Vec::new(), |waml| self.targets(waml));
            output::note(&known_targets.note(&targets));
            if !violations.is_empty() {
                local::print_violations(&violations, &world.sources, self.output)?;
            }
        }
        match &world.waml {
            Ok(_) if !has_errors && self.output.is_data() => Ok(()),
            Ok(waml) if !has_errors => self.print_success(waml),
            _ => Err(CliError::rejected()),
        }
    }

    fn targets(&self, waml: &Waml) -> Vec<TargetName> {
        match &self.target {
            Some(target) => vec![target.clone()],
            None => waml.targets().into_iter().cloned().collect(),
        }
    }

    fn print_success(&self, waml: &Waml) -> CommandOutcome {
        let targets: Vec<String> = self.targets(waml).iter().map(ToString::to_string).collect();
        let file = self.local.source.file.display();
        let for_targets = if targets.is_empty() {
            ", but has no target under `deploy`".to_owned()
        } else {
            format!(" for {}", targets.join(", "))
        };
        output::print(&format!("{GOOD}ok{GOOD:#} {file} is valid{for_targets}\n"))
    }
}

/// Returns the violations and warnings of one target.
pub(super) fn of_target(
    waml: &Arc<Waml>,
    target: &TargetName,
    world: &LocalInput,
    known_targets: &KnownTargets,
) -> Vec<Violation> {
    let of_place = |fleet| {
        let input = Input {
            waml: waml.clone(),
            target: target.clone(),
            fleet,
            release: local::release(waml, None, None),
            templates: world.templates.clone(),
        };
        platform::judge(&input, known_targets)
    };
    distinct(known_targets.places_of(target).into_iter().flat_map(of_place))
}
