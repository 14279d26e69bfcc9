//! A rollout of the WAML becomes a plan; all its faults are reported at once, each at its place.

use jiff::SignedDuration;

use crate::model::id::{RepoName, RolloutName};
use crate::model::violation::Violation;
use crate::pipeline::rollout_plan::gates::{DefinitionFault, compile_gate, gate_keys, parse_wait};
use crate::pipeline::rollout_plan::targets::TargetPool;
use crate::rollout::plan::{
    MAX_STEPS, MAX_TARGETS, RolloutFailurePolicy, RolloutPlan, RolloutStep, VersionWeights,
};
use crate::waml::node::Path;
use crate::waml::rollouts::{
    GateDefinition, OnRolloutFailure, RolloutDefinition, StepDefinition, WrittenRollout,
};
use crate::waml::suggest;

/// The rule that the violations name.
pub const RULE: &str = "rollouts";

/// The time that a target may take where nothing else is said: a deployment's own deadline in a cluster, and the
/// patience after it.
pub const TARGET_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);

/// A rollout of the WAML, checked.
#[derive(Debug, Clone)]
pub struct CompiledRollout {
    /// The plan; `None` where a violation stops it.
    pub plan: Option<RolloutPlan>,
    /// The violations and warnings, each at its place.
    pub violations: Vec<Violation>,
}

/// Compiles a rollout of the WAML for the targets of the pool.
pub fn compile_definition(
    name: &RolloutName,
    rollout: &WrittenRollout,
    pool: TargetPool<'_>,
    repository: &RepoName,
) -> CompiledRollout {
    let mut compiler = Compiler { pool, repository, faults: Vec::new() };
    let plan = compiler.plan(&rollout.definition);
    let is_stopped = compiler.faults.iter().any(|fault| !fault.is_warning);
    let place = |fault: DefinitionFault| {
        let DefinitionFault { path, message, expected, help, is_warning } = fault;
        let (node, position) = rollout.node.nearest(&path);
        let make = if is_warning { Violation::warning } else { Violation::error };
        let violation = make(RULE, message).expected(expected).help(help);
        let text = format!("rollouts.{name}.{path}");
        // A value that cannot be read is reported already.
        (!node.has_broken()).then(|| violation.at(text.trim_end_matches('.'), Some(position)))
    };
    let violations = compiler.faults.into_iter().filter_map(place).collect();
    CompiledRollout { plan: plan.filter(|_| !is_stopped && !rollout.node.has_broken()), violations }
}

/// Compiles the gates of a rollout of the WAML alone.
///
/// # Errors
/// Its violations.
pub fn compile_gates(
    name: &RolloutName,
    rollout: &WrittenRollout,
    pool: TargetPool<'_>,
    repository: &RepoName,
) -> Result<Vec<RolloutStep>, Vec<Violation>> {
    let CompiledRollout { plan, violations } =
        compile_definition(name, rollout, pool.clone(), repository);
    if plan.is_none() {
        return Err(violations.into_iter().filter(Violation::is_error).collect());
    }
    let mut compiler = Compiler { pool, repository, faults: Vec::new() };
    Ok(compiler.gates(rollout.definition.gates.as_deref().unwrap_or_default()))
}

struct Compiler<'a> {
    pool: TargetPool<'a>,
    repository: &'a RepoName,
    faults: Vec<DefinitionFault>,
}

impl Compiler<'_> {
    fn fault(&mut self, path: Path, message: &str, expected: &'static str, help: &str) {
        self.faults.push(DefinitionFault::new(path, message, expected, help));
    }

    fn plan(&mut self, definition: &RolloutDefinition) -> Option<RolloutPlan> {
        let RolloutDefinition { steps, gates, on_failure, max_failures, timeout } = definition;
        let root = Path::root();
        let timeout = match timeout {
            Some(text) => parse_wait(text, root.key("timeout"), &mut self.faults),
            None => Some(TARGET_TIMEOUT),
        };
        let gates = self.gates(gates.as_deref().unwrap_or_default());
        let (mut compiled, mut targets) = (Vec::new(), 0);
        for (index, step) in steps.iter().enumerate() {
            let path = root.key("steps").index(index);
            let step = self.step(step, &path);
            targets += match &step {
                Some(RolloutStep::Deploy { targets, .. }) => targets.len(),
                Some(RolloutStep::Gate { .. }) | None => 0,
            };
            let is_deploy = matches!(step, Some(RolloutStep::Deploy { .. }));
            compiled.extend(step);
            if is_deploy {
                compiled.extend(gates.iter().cloned());
            }
            if targets > MAX_TARGETS || compiled.len() > MAX_STEPS {
                let message = format!(
                    "the rollout has more than {MAX_TARGETS} targets or {MAX_STEPS} steps, gates included"
                );
                self.fault(path, &message, "too many", "make several rollouts of it");
                return None;
            }
        }
        if steps.iter().all(|step| step.targets.is_none()) {
            let help = "add a step with targets: `- targets: [\"prod-*\"]`";
            self.fault(root.key("steps"), "the rollout has no target", "needs targets", help);
        }
        let max_failures = max_failures.map_or(0, |number| number as usize);
        if max_failures >= targets && targets > 0 {
            let message = format!(
                "the rollout goes on whatever fails: it has {targets} target{}, and accepts {max_failures} failures",
                if targets == 1 { "" } else { "s" }
            );
            let help = "write a smaller number, or `on_failure: continue` where that is meant";
            let path = root.key("max_failures");
            let fault = DefinitionFault::new(path, message, "without effect", help);
            self.faults.push(DefinitionFault { is_warning: true, ..fault });
        }
        let on_failure = match on_failure {
            None | Some(OnRolloutFailure::Undo) => RolloutFailurePolicy::Undo,
            Some(OnRolloutFailure::Pause) => RolloutFailurePolicy::Pause,
            Some(OnRolloutFailure::Continue) => RolloutFailurePolicy::Continue,
        };
        Some(RolloutPlan { steps: compiled, on_failure, max_failures, target_timeout: timeout? })
    }

    /// Compiles the gates that follow every step with targets.
    fn gates(&mut self, gates: &[GateDefinition]) -> Vec<RolloutStep> {
        let root = Path::root().key("gates");
        if gates.len() > MAX_STEPS {
            let message = format!("the rollout has more than {MAX_STEPS} gates");
            self.fault(root, &message, "too many", "make several rollouts of it");
            return Vec::new();
        }
        let mut compiled = Vec::new();
        for (index, gate) in gates.iter().enumerate() {
            let path = root.index(index);
            if self.is_one(&gate_keys(gate), &path) {
                compiled.extend(compile_gate(gate, &path, self.repository, &mut self.faults));
            }
        }
        compiled
    }

    fn step(&mut self, step: &StepDefinition, path: &Path) -> Option<RolloutStep> {
        let StepDefinition { targets, parallel, gate } = step;
        let mut keys = gate_keys(gate);
        keys.extend(targets.as_ref().map(|_| "targets"));
        if !self.is_one(&keys, path) {
            return None;
        }
        let Some(patterns) = targets else {
            if parallel.is_some() {
                let message = "only targets are under way at the same time";
                self.fault(path.key("parallel"), message, "without targets", "remove it");
            }
            return compile_gate(gate, path, self.repository, &mut self.faults);
        };
        let path = path.key("targets");
        if patterns.is_empty() || patterns.len() > MAX_TARGETS {
            let message = format!("a step has 1 to {MAX_TARGETS} names and globs of targets");
            self.fault(path, &message, "needs targets", "write `targets: [\"prod-*\"]`");
            return None;
        }
        let mut targets = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            match self.pool.take(pattern) {
                Ok(names) => targets.extend(names),
                Err(fault) => {
                    let (message, help) = (fault.to_string(), fault.help());
                    self.fault(path.index(index), &message, fault.expected(), &help);
                }
            }
        }
        let parallel = parallel.map_or(1, |number| number as usize);
        let weights = VersionWeights::new();
        (!targets.is_empty()).then_some(RolloutStep::Deploy { targets, parallel, weights })
    }

    /// Checks that a step is exactly one thing.
    fn is_one(&mut self, keys: &[&'static str], path: &Path) -> bool {
        match keys {
            [_] => return true,
            [] => {
                let help = "write `targets`, or one of `bake`, `approval`, `http`, `promql`, `no_alert`, `calendar`";
                self.fault(path.clone(), "this step does nothing", "is empty", help);
            }
            [..] => {
                let list = suggest::list(keys.iter().copied());
                let message = format!("a step is one thing, and this has {list}");
                let help =
                    "write each as a step of its own, in the order in which they follow each other";
                self.fault(path.clone(), &message, "more than one", help);
            }
        }
        false
    }
}
