//! A stand-in for Flagger's controller: its state machine, pure, with the clock in the test's hands.
//!
//! Written from Flagger's documentation and from `pkg/controller/scheduler.go` and `pkg/canary/status.go`: it looks once in
//! each interval, and takes at most one step a look. What it sees comes in, what it changes comes out as the objects
//! that a cluster would show: the Canary with its status, its events, and the number of the target's pods.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};

/// The measurements of an interval; `None` without traffic.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Percent of answers without an error of the server.
    pub(crate) success_rate: Option<f64>,
    /// Milliseconds within which 99 of 100 answers came.
    pub(crate) duration: Option<f64>,
}

/// What Flagger looks at.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    /// The digest of the target's pod template.
    pub(crate) template: String,
    /// The target's pods serve.
    pub(crate) target_ready: bool,
    /// The pods of Flagger's copy serve.
    pub(crate) primary_ready: bool,
    /// What was measured since the look before.
    pub(crate) measured: Measured,
}

/// One Canary, and what Flagger knows of it.
#[derive(Debug, Clone)]
pub(crate) struct Flagger {
    name: String,
    namespace: String,
    /// The Canary as it was applied.
    object: Json,
    pub(crate) phase: String,
    pub(crate) weight: u64,
    pub(crate) failed_checks: u64,
    applied: String,
    promoted: String,
    /// When the condition `Promoted` was last another one, and its word.
    condition: (Timestamp, String),
    /// The target's pods, as Flagger has scaled it.
    pub(crate) target_pods: u32,
    /// By reason and message: how often, and when last.
    events: Vec<(String, &'static str, u32, Timestamp)>,
    /// The next look.
    next: Timestamp,
}

impl Flagger {
    /// Begins with a Canary that was applied at that time.
    pub(crate) fn new(object: Json, now: Timestamp) -> Self {
        let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
        Self {
            name: text("name"),
            namespace: text("namespace"),
            phase: String::new(),
            weight: 0,
            failed_checks: 0,
            applied: String::new(),
            promoted: String::new(),
            condition: (now, String::new()),
            target_pods: 2,
            events: Vec::new(),
            next: now,
            object,
        }
    }

    fn interval(&self) -> SignedDuration {
        self.object["spec"]["analysis"]["interval"].as_str().unwrap().parse().unwrap()
    }

    fn number(&self, key: &str) -> u64 {
        self.object["spec"]["analysis"][key].as_u64().unwrap_or_default()
    }

    /// Looks, if it is time to; returns the states of the status in between, the last one too.
    pub(crate) fn look(&mut self, sight: &Sight, now: Timestamp) -> Vec<Json> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + self.interval();
        let mut states = Vec::new();
        self.step(sight, now, &mut states);
        states.push(self.canary());
        states
    }

    fn step(&mut self, sight: &Sight, now: Timestamp, states: &mut Vec<Json>) {
        if matches!(self.phase.as_str(), "" | "Initializing") {
            self.set_phase("Initializing", now);
            if sight.primary_ready {
                self.applied.clone_from(&sight.template);
                self.promoted.clone_from(&sight.template);
                self.target_pods = 0;
                self.set_phase("Initialized", now);
                self.tell("Normal", format!("Initialization done! {}", self.full_name()), now);
            }
            return;
        }
        let is_under_way = matches!(
            self.phase.as_str(),
            "Progressing" | "Waiting" | "WaitingPromotion" | "Promoting" | "Finalising"
        );
        // What was promoted once is not analysed again: it says nothing about a rollback.
        let is_new = sight.template != self.applied && sight.template != self.promoted;
        if self.phase == "Failed" && sight.template != self.applied {
            // The status of the failed run has the new template for a moment.
            self.applied.clone_from(&sight.template);
            states.push(self.canary());
        }
        if !is_under_way {
            if is_new {
                self.tell(
                    "Normal",
                    format!("New revision detected! Scaling up {}", self.full_name()),
                    now,
                );
                self.begin(sight, now);
            }
            return;
        }
        if self.phase == "Progressing" && sight.template != self.applied {
            self.tell(
                "Normal",
                format!("New revision detected! Restarting analysis for {}", self.full_name()),
                now,
            );
            self.begin(sight, now);
            return;
        }
        match self.phase.as_str() {
            "Promoting" if sight.primary_ready => {
                self.tell("Normal", "Routing all traffic to primary".to_owned(), now);
                self.set_phase("Finalising", now);
            }
            "Promoting" => {}
            "Finalising" => {
                self.target_pods = 0;
                self.promoted.clone_from(&self.applied);
                self.set_phase("Succeeded", now);
                self.tell(
                    "Normal",
                    format!("Promotion completed! Scaling down {}", self.full_name()),
                    now,
                );
            }
            _ => self.analyse(sight, now),
        }
    }

    fn begin(&mut self, sight: &Sight, now: Timestamp) {
        self.applied.clone_from(&sight.template);
        self.target_pods = 2;
        (self.weight, self.failed_checks) = (0, 0);
        self.set_phase("Progressing", now);
    }

    fn analyse(&mut self, sight: &Sight, now: Timestamp) {
        if !sight.target_ready {
            let text = format!(
                "canary deployment {} not ready: waiting for rollout to finish: 0 of 2 (readyThreshold 100%) updated replicas are available",
                self.full_name()
            );
            self.tell("Warning", text, now);
            return;
        }
        if self.failed_checks >= self.number("threshold") {
            let text = format!(
                "Rolling back {} failed checks threshold reached {}",
                self.full_name(),
                self.failed_checks
            );
            self.tell("Warning", text, now);
            self.tell("Warning", format!("Canary failed! Scaling down {}", self.full_name()), now);
            self.target_pods = 0;
            // Flagger writes a status of its own, without the count.
            (self.weight, self.failed_checks) = (0, 0);
            self.set_phase("Failed", now);
            return;
        }
        if self.weight == 0 {
            self.tell("Normal", format!("Starting canary analysis for {}", self.full_name()), now);
        } else if let Some(fault) = self.find_fault(sight.measured) {
            self.failed_checks += 1;
            self.tell("Warning", fault, now);
            return;
        }
        if self.weight < self.number("maxWeight") {
            self.weight = (self.weight + self.number("stepWeight")).min(100);
            let text = format!("Advance {} canary weight {}", self.full_name(), self.weight);
            self.tell("Normal", text, now);
        } else {
            let text = format!(
                "Copying {} template spec to {}-primary.{}",
                self.full_name(),
                self.name,
                self.namespace
            );
            self.tell("Normal", text, now);
            self.set_phase("Promoting", now);
        }
    }

    /// The first measurement that is not good, in Flagger's words.
    fn find_fault(&self, measured: Measured) -> Option<String> {
        let metrics =
            self.object["spec"]["analysis"]["metrics"].as_array().cloned().unwrap_or_default();
        metrics.iter().find_map(|metric| {
            let name = metric["name"].as_str().unwrap();
            let end = |key: &str| metric["thresholdRange"][key].as_f64();
            let value = if name == "request-success-rate" { measured.success_rate } else { measured.duration };
            let Some(value) = value else {
                return Some(format!(
                    "Halt advancement no values found for istio metric {name} probably {} is not receiving traffic: no values found",
                    self.full_name()
                ));
            };
            let halt = format!("Halt {} advancement", self.full_name());
            if name == "request-success-rate" {
                let min = end("min").filter(|min| value < *min)?;
                return Some(format!("{halt} success rate {value:.2}% < {min}%"));
            }
            let max = end("max").filter(|max| value > *max)?;
            Some(format!("{halt} request duration {} > {}", go_duration(value), go_duration(max)))
        })
    }

    fn set_phase(&mut self, phase: &str, now: Timestamp) {
        if self.condition.1 != phase {
            self.condition = (now, phase.to_owned());
        }
        phase.clone_into(&mut self.phase);
    }

    fn full_name(&self) -> String {
        format!("{}.{}", self.name, self.namespace)
    }

    /// Kubernetes makes one event of several that are alike, and counts them.
    fn tell(&mut self, kind: &'static str, text: String, now: Timestamp) {
        match self.events.iter_mut().find(|event| event.0 == text) {
            Some(event) => (event.2, event.3) = (event.2 + 1, now),
            None => self.events.push((text, kind, 1, now)),
        }
    }

    /// The Canary as the cluster shows it.
    pub(crate) fn canary(&self) -> Json {
        let mut object = self.object.clone();
        let status = match self.phase.as_str() {
            "Initialized" | "Succeeded" => "True",
            "Failed" => "False",
            _ => "Unknown",
        };
        let message = match self.phase.as_str() {
            "Failed" => "Canary analysis failed, Deployment scaled to zero.",
            "Succeeded" => "Canary analysis completed successfully, promotion finished.",
            _ => "New revision detected, progressing canary analysis.",
        };
        object["status"] = json!({
            "phase": self.phase, "canaryWeight": self.weight, "failedChecks": self.failed_checks,
            "iterations": 0, "lastAppliedSpec": self.applied, "lastPromotedSpec": self.promoted,
            "conditions": [{
                "type": "Promoted", "status": status, "reason": self.phase, "message": message,
                "lastUpdateTime": self.condition.0.to_string(), "lastTransitionTime": self.condition.0.to_string(),
            }],
        });
        object
    }

    /// Its events as the cluster shows them, in the order in which each was first told.
    pub(crate) fn events(&self) -> Vec<Json> {
        let event =
            |(n, (text, kind, count, at)): (usize, &(String, &'static str, u32, Timestamp))| {
                json!({
                    "apiVersion": "v1", "kind": "Event",
                    "metadata": {"namespace": self.namespace, "name": format!("{}.{n}", self.name)},
                    "involvedObject": {
                        "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
                        "namespace": self.namespace, "name": self.name,
                    },
                    "reason": "Synced", "type": kind, "message": text, "count": count,
                    "lastTimestamp": at.to_string(), "source": {"component": "flagger"},
                })
            };
        self.events.iter().enumerate().map(event).collect()
    }
}

/// Writes milliseconds as Go writes a duration: `2.485s`, `500ms`.
fn go_duration(milliseconds: f64) -> String {
    if milliseconds < 1000.0 {
        format!("{milliseconds}ms")
    } else {
        format!("{}s", milliseconds / 1000.0)
    }
}
