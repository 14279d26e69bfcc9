//! MERGE → DEFAULT → VALIDATE → RENDER → PUSH
//!
//! ```text
//! Waml ─merge─▶ Merged ─default─▶ Complete ─validate─▶ Valid ─render─▶ Rendered ─push─▶ commit
//! ```
//!
//! Each stage's output type is the next one's input. All but the last are pure: no clock, no
//! network, no environment. The command line, the dry run and the service call [`plan`].

pub mod merge;
pub mod default;
pub mod questions; // what there is to find out before the rules run
pub mod validate;
pub mod render;
pub mod push; // the only stage with effects
pub mod templates; // templates made ready
pub mod policies; // the rules of a company
pub(crate) mod engine; // the template engine, and how values are kept in their place
pub(crate) mod view; // what templates see
pub mod application; // the Argo CD Application of an app
pub mod reading; // manifests in the repository, read back

use std::sync::Arc;

use crate::model::deployment::Stage;
use crate::model::facts::Facts;
use crate::model::id::TargetName;
use crate::model::release::Release;
use crate::model::violation::Rejection;
use crate::pipeline::render::Rendered;
use crate::pipeline::templates::Templates;
use crate::waml::Waml;

/// What our own labels and annotations begin with.
pub const OUR_PREFIX: &str = "the-deployer.dev/";

/// Everything that a plan is made of, but for the state of the world.
#[derive(Debug, Clone)]
pub struct Input {
    /// The developer's file.
    pub waml: Arc<Waml>,
    /// Where to.
    pub target: TargetName,
    /// What.
    pub release: Release,
    /// With which templates.
    pub templates: Arc<Templates>,
}

/// What would be deployed, or every reason why not. No effects.
///
/// # Errors
/// All violations at once.
pub fn plan(input: &Input, facts: &Facts) -> Result<Rendered, Rejection> {
    plan_observed(input, facts, &mut |_| {})
}

/// The same; `finished` is called after each stage, for who measures.
///
/// # Errors
/// As [`plan`].
pub fn plan_observed(
    input: &Input,
    facts: &Facts,
    finished: &mut dyn FnMut(Stage),
) -> Result<Rendered, Rejection> {
    let merged = merge::layers(&input.waml, &input.target)?;
    let template = input.templates.choose(&merged)?;
    finished(Stage::Merge);
    let complete = default::fill(merged, &template.defaults);
    finished(Stage::Default);
    let valid = validate::all(complete, &template, &input.release, facts)?;
    finished(Stage::Validate);
    let rendered = render::manifests(&valid, &template)?;
    finished(Stage::Render);
    Ok(rendered)
}
