//! What `bart validate` would refuse is refused before anybody is asked to deploy it.

use std::path::Path;
use std::sync::Arc;

use super::super::diagnostics::Sources;
use super::super::error::{CliError, Outcome};
use super::super::offline::{self, WAML_FILE, World};
use super::super::output::{self, Format};
use super::super::validate;
use crate::model::id::TargetName;
use crate::model::violation::{Rejection, Severity, Violation, sort};
use crate::waml::Waml;

/// The rule that a template exists.
const TEMPLATE: &str = "template";

/// Checks the WAML for each target, with the templates of that folder, or those that are built in.
///
/// Without a folder the templates may be the company's own, which are not on this machine: then a WAML that
/// names another template is checked only as far as it goes without one.
///
/// # Errors
/// When it would be refused; then all violations are printed.
pub(super) fn check(
    bytes: &[u8],
    targets: &[TargetName],
    templates: Option<&Path>,
    format: Format,
) -> Outcome {
    let mut sources = Sources::default();
    sources.add(WAML_FILE, String::from_utf8_lossy(bytes));
    let known = offline::templates(templates, &mut sources, format)?;
    let waml = Waml::parse(WAML_FILE, bytes).map(Arc::new);
    let world = World { waml, templates: known, sources };
    let mut violations = found(&world, targets, templates.is_some());
    sort(&mut violations);
    if violations.iter().any(|violation| violation.severity == Severity::Error) {
        return Err(refused(&violations, &world.sources, format)?);
    }
    Ok(())
}

fn found(world: &World, targets: &[TargetName], all_templates: bool) -> Vec<Violation> {
    let waml = match &world.waml {
        Err(Rejection { violations }) => return violations.clone(),
        Ok(waml) => waml,
    };
    let of_targets = targets.iter().flat_map(|target| {
        let found = validate::of_target(waml, target, world);
        let strange = found.iter().any(|violation| violation.rule == TEMPLATE);
        if strange && !all_templates { Vec::new() } else { found }
    });
    validate::once(of_targets.chain(waml.violations.clone()))
}

fn refused(
    violations: &[Violation],
    sources: &Sources,
    format: Format,
) -> Result<CliError, CliError> {
    let error = offline::refuse(violations, sources, format)?;
    if !format.is_data() {
        output::note("nothing was deployed: mend these first, commit and push\n");
    }
    Ok(error)
}
