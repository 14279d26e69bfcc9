//! `bart validate` checks every rule that needs no service.

use std::path::Path;
use std::sync::Arc;

use clap::Args;

use crate::cli::diagnostics::SourceTexts;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::local::{LocalInput, LocalPlan};
use crate::cli::output::{self, Format, GOOD};
use crate::cli::platform::{self, KnownTargets};
use crate::cli::repository_apps::RepositoryApps;
use crate::model::id::TargetName;
use crate::model::violation::{Severity, Violation, distinct, sort};
use crate::pipeline::Input;
use crate::waml::Waml;
use crate::waml::app_files::{find_duplicates, place_of};

/// Checks a WAML: its form, and the rules on what it gives for each target. Of a repository with several apps all are
/// checked, unless a file or an app is named.
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
        let files = self.local.source.files()?;
        let mut worlds = Vec::new();
        for file in &files {
            worlds.push(self.local.source.open_file(file, self.output, &known_targets)?);
        }
        let wamls: Vec<&Arc<Waml>> =
            worlds.iter().filter_map(|one| one.waml.as_ref().ok()).collect();
        let mut violations = self.find_set_violations(&wamls);
        for world in &worlds {
            let mut of_file = self.find_violations(world, &known_targets, files.len());
            sort(&mut of_file);
            violations.extend(of_file);
        }
        let has_errors = violations.iter().any(|v| v.severity == Severity::Error);
        if self.output.is_data() {
            let mut data = local::as_json(&violations);
            if let Some(map) = data.as_object_mut() {
                map.insert("platform".to_owned(), known_targets.as_json());
            }
            output::data(self.output, &data)?;
        } else {
            // Before the violations, which may depend on it.
            let mut targets: Vec<TargetName> =
                wamls.iter().flat_map(|waml| self.targets(waml, wamls.len())).collect();
            targets.sort();
            targets.dedup();
            output::note(&known_targets.note(&targets));
            if !violations.is_empty() {
                let mut sources = SourceTexts::default();
                for world in &worlds {
                    sources.extend(&world.sources);
                }
                local::print_violations(&violations, &sources, self.output)?;
            }
        }
        if has_errors || wamls.len() < files.len() {
            return Err(CliError::rejected());
        }
        if self.output.is_data() {
            return Ok(());
        }
        files.iter().zip(wamls).try_for_each(|(file, waml)| {
            Self::print_success(file, &self.targets(waml, files.len()))
        })
    }

    fn find_violations(
        &self,
        world: &LocalInput,
        known_targets: &KnownTargets,
        count: usize,
    ) -> Vec<Violation> {
        match &world.waml {
            Err(rejection) => rejection.violations.clone(),
            Ok(waml) => {
                // A section under a name that no target can have is checked too.
                let full_waml = Arc::new((**waml).clone().with_misnamed_targets());
                let targets = self.targets(&full_waml, count);
                let of_targets = targets
                    .iter()
                    .flat_map(|target| of_target(&full_waml, target, world, known_targets));
                distinct(of_targets.chain(waml.violations.clone()))
            }
        }
    }

    /// Finds what is wrong with the WAMLs of a repository as a set, where all are checked.
    fn find_set_violations(&self, wamls: &[&Arc<Waml>]) -> Vec<Violation> {
        let source = &self.local.source;
        if source.file.is_some() || source.app.name().is_some() {
            return Vec::new();
        }
        let places = wamls.iter().map(|waml| (waml.app.clone(), place_of(waml)));
        let problems = RepositoryApps::read_current().files().problems().to_vec();
        problems.into_iter().chain(find_duplicates(places)).collect()
    }

    /// Returns the targets to check; of one among several apps the named target only if it has that.
    fn targets(&self, waml: &Waml, count: usize) -> Vec<TargetName> {
        match &self.target {
            Some(target) if count > 1 && waml.lacks(target) => Vec::new(),
            Some(target) => vec![target.clone()],
            None => waml.targets().into_iter().cloned().collect(),
        }
    }

    fn print_success(file: &Path, targets: &[TargetName]) -> CommandOutcome {
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let file = file.display();
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
