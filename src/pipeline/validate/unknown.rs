//! Failed lookups: the one place that decides what they mean.
//!
//! A fact is missing when its service did not answer. The target's policy `policies.unknown` decides: `fail`, the
//! default in production, or `warn`, the default elsewhere.

use jiff::SignedDuration;

use super::{RuleReport, Subject};
use crate::model::facts::Fact;
use crate::model::lock::OnUnknown;
use crate::model::target::{Environment, Target};
use crate::model::violation::Violation;
use crate::waml::node::Path;

/// A fact older than this says so in whatever is made of it.
const FRESH: SignedDuration = SignedDuration::from_secs(60);

/// A fact that a rule needs, and the path for the violation if its lookup failed.
pub(super) struct NeededFact<'a> {
    /// The rule.
    pub(super) rule: &'static str,
    /// The fact, after "it is not known": `whether the image exists`.
    pub(super) what: &'a str,
    /// The path in the settings that it is about, if it is about one.
    pub(super) path: Option<&'a Path>,
}

impl NeededFact<'_> {
    /// Returns the value of a fact; nothing where no lookup was made. Reports a violation where the lookup failed.
    pub(super) fn require_fact<'f, T>(
        &self,
        fact: &'f Fact<T>,
        subject: &Subject<'_>,
        report: &mut RuleReport<'_>,
    ) -> Option<&'f T> {
        match fact {
            Fact::NotAsked => None,
            Fact::Known { value, .. } => Some(value),
            Fact::Missing { why } => {
                let violation = unknown_fact(self.rule, self.what, why, subject.cluster);
                report.add_or_say(self.path, violation);
                None
            }
        }
    }
}

/// Makes the violation for a fact that could not be had.
pub(super) fn unknown_fact(
    rule: &'static str,
    what: &str,
    why: &str,
    cluster: Option<&Target>,
) -> Violation {
    let message = format!("it is not known {what}: {why}");
    let retry_help = "deploy again once the lookup works";
    let by_environment = |target: &Target| match target.environment {
        Environment::Production => OnUnknown::Fail,
        Environment::Development => OnUnknown::Warn,
    };
    let policy = |target: &Target| target.policies.unknown.unwrap_or(by_environment(target));
    match cluster.map_or(OnUnknown::Warn, policy) {
        OnUnknown::Fail => Violation::error(rule, message).help(format!(
            "{retry_help}, or let an operator set the target's `policies.unknown: warn`"
        )),
        OnUnknown::Warn => Violation::warning(rule, message).help(
            "check it yourself: the target's policy lets the deployment pass without the lookup",
        ),
    }
    .expected("could not be checked")
}

/// Writes ` (as of 5m ago)`; nothing while a fact is fresh.
pub(super) fn age<T>(fact: &Fact<T>, subject: &Subject<'_>) -> String {
    let Fact::Known { at, .. } = fact else { return String::new() };
    let age = subject.facts.taken_at.duration_since(*at);
    if age <= FRESH {
        return String::new();
    }
    let rounded = SignedDuration::from_secs(age.as_secs() / 60 * 60);
    format!(" (as of {rounded:#} ago)")
}
