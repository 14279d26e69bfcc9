//! Policies, the own rules of a company: CEL expressions beside its templates.
//!
//! ```text
//! policies/*.yaml ─read─▶ expression compiled and checked ─▶ Policy ─evaluate─▶ violations
//! ```
//!
//! [`PolicySet`] has the policies of a set of templates. `read` reads the files, `expression` compiles and checks one
//! expression, `watch` and `cost` limit what it may use, and `evaluate` applies it to a plan.
//!
//! A broken policy is refused with the templates it came with. A policy that cannot be evaluated for an app is a
//! violation of that app: a rule that cannot be applied must not pass silently.

mod read; // files to policies
mod expression; // CEL, compiled and checked
mod watch; // CEL, instrumented to count its cost
mod cost; // the limits of cost
mod evaluate; // CEL, applied within limits

use std::borrow::Cow;

use evaluate::Evaluation;
use expression::Expression;
use serde_json::{Map, Value as Json};

use crate::manifests::object::Object;
use crate::model::id::TargetName;
use crate::model::template::TemplateFile;
use crate::model::violation::{Severity, Violation};
use crate::support::globs::Globs;
use crate::waml::node::Path;

/// The policies of a set of templates, in the order of files and of entries in them.
#[derive(Debug, Default)]
pub struct PolicySet(Vec<Policy>);

/// One policy: a condition, the apps it applies to, and the message if it fails.
#[derive(Debug)]
pub struct Policy {
    /// The name, unique in the set; violations call it `policy/<name>`.
    pub name: String,
    /// The message if it does not hold.
    pub message: String,
    /// The help text beside the message.
    pub help: Option<String>,
    /// The severity: an error stops the deployment.
    pub severity: Severity,
    /// Globs over the targets that it is for, as they are written; none: all.
    pub targets: Vec<String>,
    /// The place of the policy: `policies/images.yaml:3:5`.
    pub place: String,
    matcher: Globs,
    path: Option<Path>,
    expression: Expression,
}

/// The values that the expressions can use.
pub(crate) struct PolicyInput<'a> {
    /// The values that templates get.
    pub(crate) view: Map<String, Json>,
    /// The settings as the WAML writes them.
    pub(crate) settings: Json,
    pub(crate) objects: &'a [Object],
}

impl PolicySet {
    /// Reads and checks the policies of a set.
    ///
    /// # Errors
    /// Everything that is wrong with any of them, at its place.
    pub fn load(files: &[TemplateFile]) -> Result<Self, Vec<Violation>> {
        read::read_policies(files).map(Self)
    }

    /// Lists all policies.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.0.iter()
    }

    /// Lists what those policies say that are for the target, each with the path in the WAML that
    /// it is about. `plan` is called only where there are any.
    pub(crate) fn violations<'a>(
        &self,
        target: &TargetName,
        plan: impl FnOnce() -> PolicyInput<'a>,
    ) -> Vec<(Option<&Path>, Violation)> {
        let mut applied = self.0.iter().filter(|policy| policy.is_for(target)).peekable();
        if applied.peek().is_none() {
            return Vec::new();
        }
        let world = evaluate::PolicyContext::of(&plan());
        applied
            .filter_map(|policy| Some((policy.path.as_ref(), policy.violation_in(&world)?)))
            .collect()
    }
}

impl Policy {
    fn is_for(&self, target: &TargetName) -> bool {
        self.matcher.is_match(target.as_str())
    }

    fn violation_in(&self, world: &evaluate::PolicyContext) -> Option<Violation> {
        Some(match world.ask(&self.expression) {
            Evaluation::Holds => return None,
            Evaluation::DoesNot => self.violation(self.message.clone(), self.help.clone()),
            Evaluation::Failed { why, help } => {
                let message = format!("the policy `{}` cannot be applied: {why}", self.name);
                let help = format!("{help}; it is in {}: tell the operator", self.place);
                self.violation(message, Some(help))
            }
        })
    }

    fn violation(&self, message: String, help: Option<String>) -> Violation {
        let violation = Violation::error("policy", message);
        let violation = Violation {
            rule: Cow::Owned(format!("policy/{}", self.name)),
            severity: self.severity,
            ..violation
        };
        match help {
            Some(help) => violation.help(help),
            None => violation,
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
