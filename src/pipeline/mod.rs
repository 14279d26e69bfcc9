//! The pipeline from a WAML to manifests: merge, default, validate, render.
//!
//! ```text
//! Waml ─merge─▶ Merged ─default─▶ Complete ─validate─▶ Valid ─render─▶ Rendered
//! ```
//!
//! Each stage's output type is the next one's input. All stages are pure: no clock, no network, no environment. The
//! command line, the dry run and the service call [`plan`].
//!
//! In reading order: [`merge`], [`default`], [`validate`] and [`render`] are the stages, and [`fact_requests`] lists
//! the lookups that the rules need. [`dry_run`], [`preview`], [`impact`] and [`check`] use a plan: they compare it with
//! the live revision, show it on a pull request, compare two sets of templates, or try a set with its samples.
//! [`rollout_plan`] chooses the targets of a rollout, and [`weights`] edits the shares of versions in a WAML.
//! [`all_violations`] and [`effect`] serve `bart validate` and `bart explain`.

pub mod merge;
pub mod default;
pub mod fact_requests; // the lookups that the rules need
pub mod all_violations; // all violations, also beside a wrong name
pub mod effect; // values without effect
pub mod processes; // the settings of processes of one image
pub mod validate;
mod patches; // changes of rendered objects
mod extra_objects; // objects from files beside the WAML
pub mod render;
pub mod impact; // the changes by other templates
pub mod preview; // the changes of a pull request
pub mod dry_run; // the changes of a deployment
pub mod rollout_plan; // the sequence of a rollout
pub mod weights; // the shares of versions, edited in a WAML
pub mod import_edit; // a manual edit, as a change of the WAML
pub mod check; // a set of templates with its samples

use std::sync::Arc;

use crate::model::deployment::Stage;
use crate::model::facts::Facts;
use crate::model::fleet::FleetPlace;
use crate::model::id::TargetName;
use crate::model::release::Release;
use crate::model::violation::Rejection;
use crate::pipeline::merge::Merged;
use crate::pipeline::render::RenderedManifests;
use crate::templates::set::{Template, TemplateSet};
use crate::waml::Waml;

/// Everything that a plan is made of, but for the state of the world.
#[derive(Debug, Clone)]
pub struct Input {
    /// The developer's file.
    pub waml: Arc<Waml>,
    /// The target: a key of `deploy`.
    pub target: TargetName,
    /// The cluster that is rendered and the others of its fleet, where the target is a fleet; `None` for a target that is
    /// one cluster.
    pub fleet: Option<FleetPlace>,
    /// The release.
    pub release: Release,
    /// The templates.
    pub templates: Arc<TemplateSet>,
}

impl Input {
    /// Returns the cluster that the manifests are for.
    pub fn cluster(&self) -> &TargetName {
        self.fleet.as_ref().map_or(&self.target, |fleet| &fleet.cluster)
    }
}

/// Plans what would be deployed, or lists every reason why not. No effects.
///
/// # Errors
/// All violations at once.
pub fn plan(input: &Input, facts: &Facts) -> Result<RenderedManifests, Rejection> {
    plan_observed(input, facts, &mut |_| {})
}

/// Plans as `plan` does; `finished` is called after each stage, for who measures.
///
/// # Errors
/// As [`plan`].
pub fn plan_observed(
    input: &Input,
    facts: &Facts,
    finished: &mut dyn FnMut(Stage),
) -> Result<RenderedManifests, Rejection> {
    let (waml, templates, clusters) = (&input.waml, &input.templates, &facts.clusters);
    let merged = merge::layers(waml, &input.target)
        .map_err(|rejection| all_violations::beside_target(rejection, waml, templates, clusters))?;
    let template = merged.choose_template(templates).map_err(|rejection| {
        all_violations::beside_template(rejection, &merged, templates, clusters)
    })?;
    finished(Stage::Merge);
    planned(merged, input.fleet.as_ref(), &template, &input.release, facts, finished)
}

/// Runs the stages after the template has been chosen.
fn planned(
    merged: Merged<'_>,
    fleet: Option<&FleetPlace>,
    template: &Template,
    release: &Release,
    facts: &Facts,
    finished: &mut dyn FnMut(Stage),
) -> Result<RenderedManifests, Rejection> {
    let mut complete = default::fill(merged, &template.defaults);
    if let Some(fleet) = fleet {
        complete.place_in(fleet);
    }
    finished(Stage::Default);
    let valid = validate::run_rules(complete, template, release, facts)?;
    finished(Stage::Validate);
    let rendered = render::manifests(&valid, template)?;
    finished(Stage::Render);
    Ok(rendered)
}
