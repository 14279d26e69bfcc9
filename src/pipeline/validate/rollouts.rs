//! Rollouts that the WAML names: their steps have targets of the app, each once, and gates that can be asked.

use super::{RuleReport, Subject};
use crate::model::id::RepoName;
use crate::model::violation::Violation;
use crate::pipeline::rollout_plan::definition::{RULE, compile_definition};
use crate::pipeline::rollout_plan::targets::TargetPool;
use crate::waml::Waml;
use crate::waml::collect;

/// The most rollouts of one WAML.
const MAX_ROLLOUTS: usize = 20;

/// Reports the violations of all rollouts; they are the same for every target.
pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let repository = &subject.release.repository;
    for violation in subject.waml.rollout_violations(|waml| violations(waml, repository)) {
        report.say(violation.clone());
    }
}

fn violations(waml: &Waml, repository: &RepoName) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, (name, rollout)) in waml.rollouts.iter().enumerate() {
        if index == MAX_ROLLOUTS {
            let message = format!("the file has more than {MAX_ROLLOUTS} rollouts");
            let violation = Violation::error(RULE, message).expected("too many");
            let violation = violation.help("remove those that are not used");
            let place = rollout.node.origin.position.clone();
            collect::add(&mut violations, violation.at(format!("rollouts.{name}"), Some(place)));
            break;
        }
        let pool = TargetPool::new(waml, None);
        for violation in compile_definition(name, rollout, pool, repository).violations {
            collect::add(&mut violations, violation);
        }
    }
    violations
}
