//! A world for the tests of rollouts: targets with what is live on them, deployments that go on when the test says
//! so, people, locks and a clock. Decisions are stored as the service stores them, by the version that was read.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::model::id::{AppKey, CommitSha, DeployId, ImageTag, RepoName, RolloutId, TargetName};
use crate::model::release::Release;
use crate::rollout::acts::{ActRefusal, RolloutAct};
use crate::rollout::advance::{Decision, Order, advance};
use crate::rollout::facts::{
    DeploymentFact, GateAnswer, GateOutcome, LiveFact, RolloutFacts, TargetFacts,
};
use crate::rollout::plan::{RolloutFailurePolicy, RolloutPlan, RolloutStep, VersionWeights};
use crate::rollout::record::{FormerRevision, RolloutRecord, RolloutTarget, RolloutTargetStatus};

/// The kind of a simulated deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SimKind {
    Deploy,
    RollBack { from: DeployId, to: DeployId },
    Remove { from: DeployId },
}

/// A simulated deployment.
#[derive(Debug, Clone)]
pub(super) struct SimDeployment {
    pub(super) target: TargetName,
    pub(super) kind: SimKind,
    pub(super) fact: DeploymentFact,
}

/// What is live on a target: the revision, none where it is absent, and who made it so.
type Live = Option<(DeployId, DeployId)>;

/// The world.
pub(super) struct Simulation {
    pub(super) now: Timestamp,
    pub(super) record: RolloutRecord,
    pub(super) live: BTreeMap<TargetName, Live>,
    pub(super) deployments: BTreeMap<DeployId, SimDeployment>,
    pub(super) locked: BTreeSet<TargetName>,
    /// Targets with a deployment of others that waits or runs there.
    pub(super) busy: BTreeMap<TargetName, DeployId>,
    pub(super) gone: BTreeSet<TargetName>,
    pub(super) unreadable: BTreeSet<TargetName>,
    /// Targets whose former revision is not kept any more.
    pub(super) pruned: BTreeSet<TargetName>,
    /// The manifest repository cannot be read: what is live is not known anywhere.
    pub(super) is_git_away: bool,
    /// Gates cannot be asked.
    pub(super) are_gates_away: bool,
    pub(super) withdrawn: Option<String>,
    pub(super) gate: GateOutcome,
    /// The orders that were carried out, as sentences.
    pub(super) orders: Vec<String>,
    /// The targets whose undo was ordered, since the way back began.
    undone: Vec<TargetName>,
    /// The order of the way back, as it was when that began.
    way_back: Vec<TargetName>,
    next: u32,
}

pub(super) fn target(name: &str) -> TargetName {
    TargetName::parse(name).unwrap()
}

pub(super) fn deploy(targets: &[&str], parallel: usize) -> RolloutStep {
    RolloutStep::Deploy {
        targets: targets.iter().map(|name| target(name)).collect(),
        parallel,
        weights: VersionWeights::new(),
    }
}

/// These targets, where version `v2` gets that percent.
pub(super) fn shift(targets: &[&str], parallel: usize, percent: u32) -> RolloutStep {
    let weights = [("v1".to_owned(), 100 - percent), ("v2".to_owned(), percent)].into();
    let targets = targets.iter().map(|name| target(name)).collect();
    RolloutStep::Deploy { targets, parallel, weights }
}

pub(super) fn plan(steps: Vec<RolloutStep>, on_failure: RolloutFailurePolicy) -> RolloutPlan {
    let target_timeout = SignedDuration::from_mins(15);
    RolloutPlan { steps, on_failure, max_failures: 0, target_timeout }
}

impl Simulation {
    /// Begins a rollout; each target has a revision, but those whose names begin with `new`.
    pub(super) fn new(plan: RolloutPlan) -> Self {
        plan.check().unwrap();
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let release = Release {
            repository: RepoName::parse("example/shop").unwrap(),
            app: None,
            commit: CommitSha::parse("a".repeat(40)).unwrap(),
            tag: ImageTag::parse("v2").unwrap(),
        };
        let app = AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() };
        let rollout_id = |text: &str| RolloutId::parse(text).unwrap();
        let ids =
            (rollout_id("r-20261121-100000000-000001"), rollout_id("r-20261121-100000000-000002"));
        let record = RolloutRecord::new(ids, (release, app), plan, now);
        let mut simulation = Self {
            now,
            record,
            live: BTreeMap::new(),
            deployments: BTreeMap::new(),
            locked: BTreeSet::new(),
            gone: BTreeSet::new(),
            busy: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            pruned: BTreeSet::new(),
            is_git_away: false,
            are_gates_away: false,
            withdrawn: None,
            gate: GateOutcome::NotPassed,
            orders: Vec::new(),
            undone: Vec::new(),
            way_back: Vec::new(),
            next: 0,
        };
        let targets: Vec<TargetName> =
            simulation.record.targets.iter().map(|one| one.target.clone()).collect();
        for one in targets {
            let id = simulation.draw();
            let is_new = one.as_str().starts_with("new");
            simulation.live.insert(one, (!is_new).then(|| (id.clone(), id)));
        }
        simulation
    }

    fn draw(&mut self) -> DeployId {
        self.next += 1;
        draw_id(self.next)
    }

    /// The facts as they are now.
    pub(super) fn facts(&self) -> RolloutFacts {
        let fact = |id: &Option<DeployId>| {
            let id = id.as_ref()?;
            Some(self.deployments.get(id).map_or(DeploymentFact::Missing, |one| one.fact.clone()))
        };
        let targets = self.record.targets.iter().enumerate();
        let targets = targets.filter(|(_, one)| !self.unreadable.contains(&one.target));
        let targets = targets.map(|(number, one)| {
            let live = match &self.live[&one.target] {
                _ if self.is_git_away => LiveFact::Unknown("the repository to answer".to_owned()),
                None => LiveFact::Absent,
                Some((revision, by)) => {
                    let is_ours = self.deployments.contains_key(by);
                    LiveFact::Revision { revision: revision.clone(), by: by.clone(), is_ours }
                }
            };
            let facts = TargetFacts {
                is_configured: !self.gone.contains(&one.target),
                live,
                blocked: self
                    .locked
                    .contains(&one.target)
                    .then(|| "locked by ann: freeze".to_owned()),
                busy: self.busy.get(&one.target).cloned(),
                deployment: fact(&one.deployment),
                undo: fact(&one.undo),
                unrestorable: self
                    .pruned
                    .contains(&one.target)
                    .then(|| "its revision is not kept any more".to_owned()),
            };
            (number, facts)
        });
        let (step, at) = (self.record.index, self.now);
        let gate = GateAnswer { step, at, result: self.gate, value: "2.5".to_owned() };
        RolloutFacts {
            targets: targets.collect(),
            gate: (!self.are_gates_away).then_some(gate),
            ref_commit: None,
            withdrawn: self.withdrawn.clone(),
        }
    }

    /// Decides by a record and facts that may be old by now.
    pub(super) fn decide(&mut self, record: &RolloutRecord, facts: &RolloutFacts) -> Decision {
        let mut next = self.next;
        let decision = advance(record, facts, self.now, &mut || {
            next += 1;
            draw_id(next)
        });
        self.next = next;
        decision
    }

    /// Stores a decision that was made by the record of that version; false where another one was first.
    pub(super) fn store(&mut self, version: i64, decision: Decision) -> bool {
        if self.record.version != version {
            return false;
        }
        self.check(&decision);
        for order in decision.orders {
            self.carry_out(order);
        }
        self.record = decision.record;
        true
    }

    /// Advances and stores until nothing changes.
    pub(super) fn advance(&mut self) {
        for _ in 0..1000 {
            let (record, facts) = (self.record.clone(), self.facts());
            let decision = self.decide(&record, &facts);
            let is_change = decision.record != record;
            assert!(self.store(record.version, decision));
            if !is_change {
                return;
            }
        }
        panic!("it changes for ever: {:?}", self.record);
    }

    pub(super) fn act(&mut self, act: RolloutAct) -> Result<(), ActRefusal> {
        self.record = self.record.apply(act, self.now)?;
        self.note_way_back();
        Ok(())
    }

    fn note_way_back(&mut self) {
        let is_open = |state| {
            matches!(state, RolloutTargetStatus::UndoPending | RolloutTargetStatus::Undoing)
        };
        let open = self.record.targets.iter().rev().filter(|one| is_open(one.state));
        let (failed, others): (Vec<_>, Vec<_>) = open.partition(|one| one.failure.is_some());
        self.way_back = failed.into_iter().chain(others).map(|one| one.target.clone()).collect();
        self.undone.clear();
    }

    /// What must hold of every decision.
    fn check(&mut self, decision: &Decision) {
        let (old, new) = (&self.record, &decision.record);
        assert!(new.index == old.index || new.index == old.index + 1, "the index moves one by one");
        assert_eq!(new.version, old.version + i64::from(new != old), "each change is counted");
        let turns_back = new.state.as_str() == "undoing" && old.state.as_str() != "undoing";
        for order in &decision.orders {
            match order {
                Order::Deploy { target, id } => {
                    let complete = self.deployments.values().filter(|one| {
                        one.target == *target
                            && one.kind == SimKind::Deploy
                            && matches!(one.fact, DeploymentFact::Complete { .. })
                    });
                    let is_this = |one: &RolloutTarget| one.deployment.as_ref() == Some(id);
                    let earlier = new.targets.iter().take_while(|one| !is_this(one));
                    let earlier = earlier.filter(|one| one.target == *target);
                    assert!(complete.count() <= earlier.count(), "{target} is deployed twice");
                    assert!(!self.deployments.contains_key(id));
                }
                Order::RollBack { target, .. } | Order::Remove { target, .. } => {
                    let place =
                        |one: &TargetName| self.way_back.iter().position(|other| other == one);
                    let last = self.undone.iter().filter_map(place).max();
                    let this = place(target).expect("only what has changed is undone");
                    assert!(
                        last.is_none_or(|last| last < this) || self.undone.last() == Some(target),
                        "{target} is out of order: {:?} of {:?}",
                        self.undone,
                        self.way_back
                    );
                    self.undone.push(target.clone());
                }
                Order::Cancel { .. } | Order::AskGate => {}
            }
        }
        if turns_back {
            let record = std::mem::replace(&mut self.record, new.clone());
            self.note_way_back();
            self.record = record;
        }
    }

    fn carry_out(&mut self, order: Order) {
        let waiting =
            || DeploymentFact::Open { is_pushed: false, sentence: "it is queued".to_owned() };
        let (words, id, target, kind) = match order {
            Order::Deploy { target, id } => {
                (format!("deploy {target}"), id, target, SimKind::Deploy)
            }
            Order::RollBack { target, id, from, to } => {
                let kind = SimKind::RollBack { from, to };
                (format!("roll back {target}"), id, target, kind)
            }
            Order::Remove { target, id, from } => {
                (format!("remove {target}"), id, target, SimKind::Remove { from })
            }
            Order::Cancel { deployment, .. } => {
                let one = self.deployments.get_mut(&deployment).unwrap();
                if let DeploymentFact::Open { is_pushed: false, .. } = one.fact {
                    one.fact = DeploymentFact::Cancelled;
                }
                return;
            }
            Order::AskGate => return,
        };
        self.orders.push(words);
        self.deployments.insert(id, SimDeployment { target, kind, fact: waiting() });
    }

    /// The rollout's newest deployment or undo to a target that has not ended.
    pub(super) fn open(&self, name: &TargetName) -> Option<DeployId> {
        let open = self.deployments.iter().rev().find(|(_, one)| {
            one.target == *name && matches!(one.fact, DeploymentFact::Open { .. })
        });
        open.map(|(id, _)| id.clone())
    }

    /// The writer pushes it, unless a newer one was there before, or what it undoes is not live any more.
    pub(super) fn push(&mut self, id: &DeployId) {
        let newer = self.newer_than(id);
        let one = self.deployments.get_mut(id).unwrap();
        let DeploymentFact::Open { is_pushed: false, .. } = one.fact else { return };
        if newer.is_some() && one.kind == SimKind::Deploy {
            one.fact = DeploymentFact::Superseded { by: newer };
            return;
        }
        let live = self.live.get_mut(&one.target).unwrap();
        let by = live.as_ref().map(|(_, by)| by.clone());
        let is_stale = |from: &DeployId| by.as_ref() != Some(from);
        match &one.kind {
            SimKind::Deploy => *live = Some((id.clone(), id.clone())),
            SimKind::RollBack { from, .. } | SimKind::Remove { from } if is_stale(from) => {
                one.fact = DeploymentFact::Superseded { by };
                return;
            }
            SimKind::RollBack { to, .. } => *live = Some((to.clone(), id.clone())),
            SimKind::Remove { .. } => *live = None,
        }
        one.fact = DeploymentFact::Open { is_pushed: true, sentence: "1 of 2 updated".to_owned() };
    }

    /// The newest deployment or undo to the same target that waits or was pushed, if it is newer: of each target the newest
    /// wins.
    fn newer_than(&self, id: &DeployId) -> Option<DeployId> {
        let target = &self.deployments.get(id)?.target;
        let counts = |one: &SimDeployment| {
            let is_alive = matches!(
                one.fact,
                DeploymentFact::Open { .. }
                    | DeploymentFact::Complete { .. }
                    | DeploymentFact::Failed { is_pushed: true, .. }
            );
            one.target == *target && is_alive
        };
        let (newest, _) = self.deployments.iter().rev().find(|(_, one)| counts(one))?;
        (newest > id).then(|| newest.clone())
    }

    pub(super) fn complete(&mut self, id: &DeployId) {
        self.push(id);
        let at = self.now;
        let one = self.deployments.get_mut(id).unwrap();
        if let DeploymentFact::Open { .. } = one.fact {
            one.fact = DeploymentFact::Complete { at };
        }
    }

    pub(super) fn fail(&mut self, id: &DeployId, reason: &str) {
        let one = self.deployments.get_mut(id).unwrap();
        if let DeploymentFact::Open { is_pushed, .. } = one.fact {
            one.fact = DeploymentFact::Failed { reason: reason.to_owned(), is_pushed };
        }
    }

    pub(super) fn refuse(&mut self, id: &DeployId) {
        let one = self.deployments.get_mut(id).unwrap();
        if let DeploymentFact::Open { is_pushed: false, .. } = one.fact {
            one.fact = DeploymentFact::Blocked { reason: "locked by ann: freeze".to_owned() };
        }
    }

    /// A person deploys something else to a target.
    pub(super) fn take_over(&mut self, name: &TargetName) -> DeployId {
        let id = self.draw();
        for one in self.deployments.values_mut().filter(|one| one.target == *name) {
            if let DeploymentFact::Open { .. } = one.fact {
                one.fact = DeploymentFact::Superseded { by: Some(id.clone()) };
            }
        }
        self.live.insert(name.clone(), Some((id.clone(), id.clone())));
        id
    }

    pub(super) fn pass(&mut self, time: SignedDuration) {
        self.now += time;
    }

    pub(super) fn state(&self, name: &str) -> RolloutTargetStatus {
        self.record.targets.iter().find(|one| one.target.as_str() == name).unwrap().state
    }

    pub(super) fn note(&self, name: &str) -> &str {
        let one = self.record.targets.iter().find(|one| one.target.as_str() == name).unwrap();
        one.note.as_deref().unwrap_or_default()
    }

    /// Deploys to a target as the rollout wants it, and lets it end well.
    pub(super) fn succeeds(&mut self, name: &str) {
        let id = self.open(&target(name)).unwrap_or_else(|| panic!("nothing is open on {name}"));
        self.complete(&id);
        self.advance();
    }

    pub(super) fn fails(&mut self, name: &str, reason: &str) {
        let id = self.open(&target(name)).unwrap_or_else(|| panic!("nothing is open on {name}"));
        self.push(&id);
        self.fail(&id, reason);
        self.advance();
    }

    /// A deployment fails before anything of it was pushed.
    pub(super) fn refuses(&mut self, name: &str, reason: &str) {
        let id = self.open(&target(name)).unwrap_or_else(|| panic!("nothing is open on {name}"));
        self.fail(&id, reason);
        self.advance();
    }

    /// Each target is where the record says.
    pub(super) fn matches_record(&self) {
        for (number, one) in self.record.targets.iter().enumerate() {
            // A step whose deployment a lock has refused waits to begin.
            let has_begun = |other: &RolloutTarget| {
                other.deployment.is_some() && other.state != RolloutTargetStatus::Pending
            };
            let is_begun = |other: &&RolloutTarget| other.target == one.target && has_begun(other);
            // What is live is of the last step that was begun.
            let is_earlier = self.record.targets.iter().skip(number + 1).any(|it| is_begun(&it));
            let is_changed = self.record.targets.iter().any(|it| is_begun(&it));
            if is_earlier || !has_begun(one) && is_changed {
                continue;
            }
            let live = &self.live[&one.target];
            let by = live.as_ref().map(|(_, by)| by);
            let last = one.undo.as_ref().or(one.deployment.as_ref());
            if by.is_some_and(|by| !self.deployments.contains_key(by) && Some(by) > last) {
                // A person's by now, which nobody has looked at since.
                continue;
            }
            match one.state {
                RolloutTargetStatus::Complete => {
                    assert_eq!(by, one.deployment.as_ref(), "{one:?}");
                }
                RolloutTargetStatus::Undone => match one.before.as_ref().unwrap() {
                    FormerRevision::Absent => assert_eq!(*live, None, "{one:?}"),
                    FormerRevision::Revision(id) => {
                        assert_eq!(
                            live.as_ref().map(|(revision, _)| revision),
                            Some(id),
                            "{one:?}"
                        );
                    }
                },
                RolloutTargetStatus::Pending
                | RolloutTargetStatus::Unchanged
                | RolloutTargetStatus::Skipped => {
                    let is_ours = by.is_some_and(|by| self.deployments.contains_key(by));
                    assert!(!is_ours, "the rollout has changed it: {one:?}");
                }
                RolloutTargetStatus::Superseded
                | RolloutTargetStatus::Failed
                | RolloutTargetStatus::UndoFailed
                | RolloutTargetStatus::Deploying
                | RolloutTargetStatus::UndoPending
                | RolloutTargetStatus::Undoing => {}
            }
        }
    }
}

fn draw_id(number: u32) -> DeployId {
    DeployId::parse(format!("20261121-100000000-{number:06x}")).unwrap()
}
