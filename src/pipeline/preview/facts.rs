//! The facts that a preview uses: those about the WAML, not those about the commit or the moment.

use crate::model::facts::{Fact, FactRequests, Facts};
use crate::model::id::TargetName;
use crate::model::target::Clusters;
use crate::model::violation::Violation;
use crate::pipeline::{Input, plan};
use crate::support::globs::Globs;

/// The rules that only a deployment meets: their violations are notes.
const MET_BY_DEPLOYMENTS: [&str; 3] = ["owner", "locks", "windows"];

/// Collects what to ask for a preview: not for the image, nor where the commit is.
pub fn questions(input: &Input, clusters: &Clusters) -> Option<FactRequests> {
    let mut questions = crate::pipeline::fact_requests::collect_questions(input, clusters)?;
    questions.image.clear();
    questions.other_images.clear();
    questions.target.policies.branches = None;
    Some(questions)
}

/// Selects the facts that may refuse a preview, and lists the failed lookups of them. A failed lookup is not the
/// author's mistake: a deployment will repeat it.
pub(super) fn own(facts: &Facts, target: &TargetName) -> (Facts, Vec<String>) {
    let mut notes = Vec::new();
    let own_facts = Facts {
        routes: note_missing_fact(&facts.routes, "whether other apps have these hosts", &mut notes),
        // It is missing with the routes of others.
        own_routes: facts.own_routes.clone(),
        secrets: note_missing_fact(&facts.secrets, "whether the secrets exist", &mut notes),
        live: note_missing_fact(&facts.live, "what a deployment would remove", &mut notes),
        // It is missing with what is live.
        namespace: facts.namespace.clone(),
        ..Facts::without_lookups(facts.taken_at, facts.clusters.clone().without_windows(target))
    };
    notes.dedup();
    (own_facts, notes)
}

fn note_missing_fact<T: Clone>(fact: &Fact<T>, what: &str, notes: &mut Vec<String>) -> Fact<T> {
    if let Fact::Missing { why } = fact {
        notes.push(format!("it is not known {what}: {why}"));
        return Fact::NotAsked;
    }
    fact.clone()
}

/// Lists the violations that a deployment would meet now beside those of the WAML.
pub(super) fn current_violations(input: &Input, facts: &Facts, base: &str) -> Vec<String> {
    let only = Facts {
        owner: facts.owner.clone(),
        locks: facts.locks.clone(),
        ..Facts::without_lookups(facts.taken_at, facts.clusters.clone())
    };
    let violations = match plan(input, &only) {
        Ok(rendered) => rendered.warnings,
        Err(rejection) => rejection.violations,
    };
    let warnings =
        violations.iter().filter(|violation| MET_BY_DEPLOYMENTS.contains(&&*violation.rule));
    warnings.map(sentence).chain(branch(input, facts, base)).collect()
}

fn sentence(violation: &Violation) -> String {
    format!("{} [{}]", violation.message, violation.rule)
}

/// Returns the fact about the branch after the merge: the commit is on the base, and on no other branch because of it.
fn branch(input: &Input, facts: &Facts, base: &str) -> Option<String> {
    let target = facts.clusters.find(input.cluster())?;
    let globs = target.policies.branches?;
    if Globs::parse_readable(&globs).is_match(base) {
        return None;
    }
    Some(format!(
        "commits on `{base}` alone are not deployed there: it takes `{}` [branch]",
        globs.join("`, `")
    ))
}
