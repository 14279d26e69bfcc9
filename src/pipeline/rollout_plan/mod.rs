//! The plan of a rollout: the targets that were selected, in a fixed order, with steps, gates and the policy for
//! failures.
//!
//! Names, globs, labels and a regular expression choose among the targets under `deploy` of the WAML; a rollout that
//! the WAML names has its own steps. The order is that of the patterns as they were written, and within a pattern that
//! of `deploy`. It does not depend on the order of the configuration.

pub mod targets; // the choice among an app's targets
pub mod gates; // gates as written to gates as checked
pub mod definition; // a rollout of the WAML

use std::collections::BTreeMap;

use jiff::SignedDuration;

use crate::model::fleet::FleetCluster;
use crate::model::id::{RepoName, RolloutName, TargetName};
use crate::model::target::Clusters;
use crate::model::violation::{Rejection, Violation};
use crate::pipeline::rollout_plan::definition::{
    TARGET_TIMEOUT, compile_definition, compile_gates,
};
use crate::pipeline::rollout_plan::gates::MAX_WAIT;
use crate::pipeline::rollout_plan::targets::{TargetFault, TargetPool, parse_regex};
use crate::rollout::plan::{
    Gate, PlanFault, RolloutFailurePolicy, RolloutPlan, RolloutStep, VersionWeights,
};
use crate::waml::Waml;
use crate::waml::quote::quote;
use crate::waml::rollouts::WrittenRollout;
use crate::waml::suggest;

/// The targets of a rollout, as a person or a program selects them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutSelection {
    /// A rollout of the WAML, with its own steps and gates.
    Definition(RolloutName),
    /// The app's targets that match.
    Targets(TargetFilter),
}

/// The filter of an app's targets; all parts that are given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetFilter {
    /// Names and globs, in the order of the rollout; without any, every target in the order of the WAML.
    pub patterns: Vec<String>,
    /// A regular expression that the whole name matches.
    pub regex: Option<String>,
    /// Labels that the target's cluster has.
    pub labels: BTreeMap<String, String>,
}

/// The options of a rollout; those of the WAML's rollout count where nothing is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutOptions {
    /// The number of targets that are under way at the same time; not for a rollout of the WAML.
    pub parallel: Option<usize>,
    /// The number of failed targets that are accepted.
    pub max_failures: Option<usize>,
    /// The policy for failures.
    pub on_failure: Option<RolloutFailurePolicy>,
    /// The time that a target may take.
    pub timeout: Option<SignedDuration>,
    /// The time between two targets, or groups of `parallel` targets; not for a rollout of the WAML.
    pub bake: Option<SignedDuration>,
    /// The weights of versions in each step, for every target; not for a rollout of the WAML.
    pub weights: Vec<VersionWeights>,
    /// The rollout of the WAML whose gates stand after each step with weights.
    pub gates: Option<RolloutName>,
}

/// The error of a selection of which no plan can be made; it says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionFault {
    /// The WAML is wrong, or its rollout is.
    #[error("{0}")]
    Waml(Rejection),
    /// The WAML has no rollout of that name.
    #[error("the WAML has no rollout `{name}`: {help}")]
    UnknownRollout {
        /// The name.
        name: RolloutName,
        /// The right names.
        help: String,
    },
    /// Nothing says what to deploy to.
    #[error(
        "no target is selected: name targets or globs, labels, a regular expression, or a rollout of the WAML"
    )]
    Empty,
    /// A target cannot be selected.
    #[error("{0}: {help}", help = .0.help())]
    Target(#[from] TargetFault),
    /// The whole filter matches no target.
    #[error("no target of this app has {filter}: {help}")]
    NoMatch {
        /// The filter, in words.
        filter: String,
        /// The targets, or their labels.
        help: String,
    },
    /// The regular expression cannot be read.
    #[error(
        "{} is no regular expression: {problem}; quote it, and write it like `prod-.*`",
        quote(text)
    )]
    Regex {
        /// The expression.
        text: String,
        /// The problem.
        problem: String,
    },
    /// An option does not go together with a rollout of the WAML.
    #[error(
        "`{option}` does not go with a rollout of the WAML, whose steps say it: change the WAML, or name the targets"
    )]
    Option {
        /// The option.
        option: &'static str,
    },
    /// Gates of another rollout are for steps with weights.
    #[error(
        "`gates` go with `weights`: name a rollout of the WAML, which has its own, or leave them out"
    )]
    GatesWithoutWeights,
    /// A time is none, or too long.
    #[error(
        "`{option}` of {length:#} is no time for a rollout: write more than 0 and at most 30 days"
    )]
    Time {
        /// The option.
        option: &'static str,
        /// The time.
        length: SignedDuration,
    },
    /// The plan cannot be carried out.
    #[error("{0}")]
    Plan(#[from] PlanFault),
}

/// Plans a rollout: the same selection, WAML and clusters give the same plan.
///
/// # Errors
/// The first fault of the selection, or all violations of the WAML.
pub fn plan_rollout(
    selection: &RolloutSelection,
    options: &RolloutOptions,
    waml: &Waml,
    repository: &RepoName,
    clusters: &Clusters,
) -> Result<RolloutPlan, SelectionFault> {
    for (option, length) in [("timeout", options.timeout), ("bake", options.bake)] {
        if let Some(length) = length.filter(|one| !one.is_positive() || *one > MAX_WAIT) {
            return Err(SelectionFault::Time { option, length });
        }
    }
    if waml.is_broken() {
        return Err(SelectionFault::Waml(Rejection { violations: waml.violations.clone() }));
    }
    let pool = TargetPool::new(waml, Some(clusters));
    let plan = match selection {
        RolloutSelection::Definition(name) => plan_definition(name, options, pool, repository)?,
        RolloutSelection::Targets(filter) => {
            plan_targets(filter, options, pool, (repository, clusters))?
        }
    };
    plan.check()?;
    Ok(plan)
}

fn plan_definition(
    name: &RolloutName,
    options: &RolloutOptions,
    pool: TargetPool<'_>,
    repository: &RepoName,
) -> Result<RolloutPlan, SelectionFault> {
    let given = [
        ("parallel", options.parallel.is_some()),
        ("bake", options.bake.is_some()),
        ("weights", !options.weights.is_empty()),
        ("gates", options.gates.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(SelectionFault::Option { option });
    }
    let rollout = find_rollout(pool.waml, name)?;
    let compiled = compile_definition(name, rollout, pool, repository);
    let Some(plan) = compiled.plan else {
        let violations = compiled.violations.into_iter().filter(Violation::is_error).collect();
        return Err(SelectionFault::Waml(Rejection { violations }));
    };
    Ok(RolloutPlan {
        on_failure: options.on_failure.unwrap_or(plan.on_failure),
        max_failures: options.max_failures.unwrap_or(plan.max_failures),
        target_timeout: options.timeout.unwrap_or(plan.target_timeout),
        steps: plan.steps,
    })
}

fn find_rollout<'w>(
    waml: &'w Waml,
    name: &RolloutName,
) -> Result<&'w WrittenRollout, SelectionFault> {
    waml.rollouts.get(name).ok_or_else(|| {
        let names = || waml.rollouts.keys().map(RolloutName::as_str);
        let help = match names().next() {
            Some(_) => suggest::hint(name.as_str(), names().collect::<Vec<_>>()),
            None => "add it under `rollouts`, or name targets".to_owned(),
        };
        SelectionFault::UnknownRollout { name: name.clone(), help }
    })
}

fn plan_targets(
    filter: &TargetFilter,
    options: &RolloutOptions,
    pool: TargetPool<'_>,
    (repository, clusters): (&RepoName, &Clusters),
) -> Result<RolloutPlan, SelectionFault> {
    let gates = match &options.gates {
        None => Vec::new(),
        Some(_) if options.weights.is_empty() => {
            return Err(SelectionFault::GatesWithoutWeights);
        }
        Some(name) => {
            let rollout = find_rollout(pool.waml, name)?;
            compile_gates(name, rollout, pool.clone(), repository)
                .map_err(|violations| SelectionFault::Waml(Rejection { violations }))?
        }
    };
    let targets = filter.select(pool, clusters)?;
    let parallel = options.parallel.unwrap_or(1);
    let weights = VersionWeights::new();
    let steps = match options.bake {
        bake if !options.weights.is_empty() => shift(&targets, parallel, options, (bake, &gates)),
        None => vec![RolloutStep::Deploy { targets, parallel, weights }],
        Some(length) => baked(&targets, parallel, length),
    };
    Ok(RolloutPlan {
        steps,
        on_failure: options.on_failure.unwrap_or(RolloutFailurePolicy::Undo),
        max_failures: options.max_failures.unwrap_or_default(),
        target_timeout: options.timeout.unwrap_or(TARGET_TIMEOUT),
    })
}

/// Makes a step of each group of targets, with a bake time between two.
fn baked(targets: &[TargetName], parallel: usize, length: SignedDuration) -> Vec<RolloutStep> {
    let mut steps = Vec::new();
    for group in targets.chunks(parallel.max(1)) {
        if !steps.is_empty() {
            steps.push(RolloutStep::Gate { gate: Gate::Bake { length }, timeout: None });
        }
        let (targets, weights) = (group.to_vec(), VersionWeights::new());
        steps.push(RolloutStep::Deploy { targets, parallel, weights });
    }
    steps
}

/// Makes a step of each weights, with a bake time between two and the gates after each.
fn shift(
    targets: &[TargetName],
    parallel: usize,
    options: &RolloutOptions,
    (bake, gates): (Option<SignedDuration>, &[RolloutStep]),
) -> Vec<RolloutStep> {
    let mut steps = Vec::new();
    for weights in &options.weights {
        if let Some(length) = bake.filter(|_| !steps.is_empty()) {
            steps.push(RolloutStep::Gate { gate: Gate::Bake { length }, timeout: None });
        }
        let (targets, weights) = (targets.to_vec(), weights.clone());
        steps.push(RolloutStep::Deploy { targets, parallel, weights });
        steps.extend(gates.iter().cloned());
    }
    steps
}

impl TargetFilter {
    /// Selects targets in the order of the patterns.
    fn select(
        &self,
        mut pool: TargetPool<'_>,
        clusters: &Clusters,
    ) -> Result<Vec<TargetName>, SelectionFault> {
        if self == &Self::default() {
            return Err(SelectionFault::Empty);
        }
        let regex = self.regex.as_deref().map(|text| (text, parse_regex(text)));
        let regex = match regex {
            Some((text, Err(problem))) => {
                return Err(SelectionFault::Regex { text: text.to_owned(), problem });
            }
            Some((_, Ok(regex))) => Some(regex),
            None => None,
        };
        let mut targets = Vec::new();
        if self.patterns.is_empty() {
            targets = pool.take_rest();
        }
        for pattern in &self.patterns {
            targets.extend(pool.take(pattern)?);
        }
        targets.retain(|target| {
            regex.as_ref().is_none_or(|regex| regex.is_match(target.as_str()))
                && has_labels(clusters, target, &self.labels)
        });
        if targets.is_empty() {
            return Err(SelectionFault::NoMatch {
                filter: self.sentence(),
                help: self.help(pool.waml, clusters),
            });
        }
        Ok(targets)
    }

    /// Says what the filter asks for.
    fn sentence(&self) -> String {
        let labels: Vec<String> =
            self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let labels = (!labels.is_empty()).then(|| format!("the labels {}", labels.join(", ")));
        let regex = self.regex.as_ref();
        let regex = regex.map(|text| format!("a name that matches {}", quote(text)));
        let patterns = self.patterns.join(", ");
        let patterns = (!patterns.is_empty()).then(|| format!("a name of {}", quote(&patterns)));
        let parts: Vec<String> = [patterns, regex, labels].into_iter().flatten().collect();
        parts.join(" and ")
    }

    /// Lists what the targets have instead.
    fn help(&self, waml: &Waml, clusters: &Clusters) -> String {
        let names = || waml.targets().into_iter().map(TargetName::as_str);
        if self.labels.is_empty() {
            return format!("it is deployed to {}", suggest::list(names()));
        }
        let Clusters::Known(configured) = clusters else {
            return "the service has no configured clusters, and so no labels".to_owned();
        };
        let labels = waml.targets().into_iter().filter_map(|target| configured.get(target));
        let labels = labels.flat_map(|target| FleetCluster::of(target).labels);
        let mut labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        labels.sort();
        labels.dedup();
        format!(
            "it is deployed to {}, whose labels are {}",
            suggest::list(names()),
            suggest::list(labels.iter().map(String::as_str))
        )
    }
}

/// Checks that a target is a configured cluster with these labels.
fn has_labels(clusters: &Clusters, target: &TargetName, labels: &BTreeMap<String, String>) -> bool {
    let cluster = match clusters {
        Clusters::Any(_) => None,
        Clusters::Known(configured) => configured.get(target),
    };
    labels.is_empty() || cluster.is_some_and(|cluster| FleetCluster::of(cluster).has_labels(labels))
}

#[cfg(test)]
mod tests;
