//! The named rollouts of a WAML: one release over many targets, with gates between them. They describe the app's
//! releases; nothing of them is rendered.
//!
//! Keys are written as the service's configuration writes them (`on_failure`, `max_failures`), because calendars are
//! those of the configuration.

use std::borrow::Cow;
use std::sync::LazyLock;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::model::id::RolloutName;
use crate::model::lock::Window;
use crate::waml::checked_reader::Reader;
use crate::waml::node::{Node, Path};

/// One release over several targets, step by step.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutDefinition {
    /// The steps, in order: targets, and gates between them.
    pub steps: Vec<StepDefinition>,
    /// Gates after every step with targets, the last one included.
    #[serde(default)]
    pub gates: Option<Vec<GateDefinition>>,
    /// The policy for failures: `undo` brings every changed target back to its former revision, `pause` waits for a
    /// person, `continue` goes on. Default: `undo`.
    #[serde(default)]
    pub on_failure: Option<OnRolloutFailure>,
    /// The number of failed targets that are accepted. Default: 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 500))]
    pub max_failures: Option<u32>,
    /// The time that each target may take. Default: `15m`.
    #[serde(default)]
    pub timeout: Option<String>,
}

/// The policy for failures of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnRolloutFailure {
    /// Every changed target gets its former revision back.
    Undo,
    /// The rollout waits for a person.
    Pause,
    /// The rollout goes on with the next target.
    Continue,
}

/// One step: targets, or a gate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StepDefinition {
    /// The targets: names and globs, in the order of the rollout. A glob leaves out what stands before it.
    #[serde(default)]
    pub targets: Option<Vec<String>>,
    /// The number of these targets that are under way at the same time. Default: 1.
    #[serde(default)]
    pub parallel: Option<u32>,
    /// The gate, in a step without targets.
    #[serde(flatten)]
    pub gate: GateDefinition,
}

/// Written by hand, because a flattened schema no longer refuses unknown keys.
impl JsonSchema for StepDefinition {
    fn schema_name() -> Cow<'static, str> {
        "StepDefinition".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = GateDefinition::json_schema(generator);
        let keys = schemars::json_schema!({
            "targets": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "description": "The targets: names and globs, in the order of the rollout. A glob leaves out the \
                                targets that stand before it.",
            },
            "parallel": {
                "type": ["integer", "null"],
                "format": "uint32",
                "minimum": 1,
                "maximum": 500,
                "description": "The number of these targets that are under way at the same time. Default: 1.",
            },
        });
        let object = schema.ensure_object();
        if let (Some(mut keys), Some(gate)) =
            (keys.as_object().cloned(), object.get("properties").and_then(|p| p.as_object()))
        {
            keys.extend(gate.clone());
            object.insert("properties".to_owned(), keys.into());
        }
        object.insert("description".to_owned(), "One step: targets, or one gate.".into());
        schema
    }
}

/// One gate: a condition between two steps.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GateDefinition {
    /// The time to wait after the step before: `10m`.
    pub bake: Option<String>,
    /// A person approves.
    pub approval: Option<ApprovalGate>,
    /// An address answers with a status of 2xx.
    pub http: Option<HttpGate>,
    /// A query's only value is within its bound.
    pub promql: Option<PromQlGate>,
    /// No alert with these labels fires.
    pub no_alert: Option<NoAlertGate>,
    /// The windows of a calendar: the rollout goes on while it is open, as `policies.windows` of a cluster.
    pub calendar: Option<Vec<Window>>,
}

/// A gate that a person approves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalGate {
    /// The team at GitHub whose members may approve: `ORGANIZATION/TEAM`, or `TEAM` of the repository's organization.
    /// Default: everyone who may deploy to all targets of the rollout.
    pub team: Option<String>,
    /// The time after which a missing approval is a failure. Default: it may take as long as it takes.
    pub timeout: Option<String>,
}

/// A gate that passes when an address answers with a status of 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpGate {
    /// The address, without credentials.
    #[schemars(extend("format" = "url"))]
    pub url: String,
    /// The time after which a gate that has not passed is a failure. Default: `10m`.
    #[serde(default)]
    pub timeout: Option<String>,
}

/// A gate that passes when the only value of a query is within its bound.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromQlGate {
    /// The query, in `PromQL`; it gives one value.
    pub query: String,
    /// The bound above which it does not pass.
    #[serde(default)]
    pub at_most: Option<String>,
    /// The bound below which it does not pass.
    #[serde(default)]
    pub at_least: Option<String>,
    /// The time after which a gate that has not passed is a failure. Default: `10m`.
    #[serde(default)]
    pub timeout: Option<String>,
}

/// A gate that passes when no alert with these labels fires.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoAlertGate {
    /// The labels, as Alertmanager writes matchers: `severity="critical"`, `team=~"web|shop"`.
    pub matchers: Vec<String>,
    /// The time after which a gate that has not passed is a failure. Default: `10m`.
    #[serde(default)]
    pub timeout: Option<String>,
}

/// One rollout as it was written: its values, and their places.
#[derive(Debug, Clone)]
pub struct WrittenRollout {
    /// The values, without those that are broken.
    pub definition: RolloutDefinition,
    /// The same, with every value's place.
    pub node: Node,
}

static READER: LazyLock<Reader<RolloutDefinition>> = LazyLock::new(Reader::new);

/// Reads the rollouts of a checked file, in its order. One of which nothing can be read is left out: its violation is
/// reported.
pub(super) fn read(root: &Node) -> IndexMap<RolloutName, WrittenRollout> {
    let rollouts = root.get("rollouts").filter(|node| !node.broken).and_then(Node::as_map);
    let written = rollouts.into_iter().flatten().filter(|(_, entry)| !entry.node.broken);
    let read_one = |(name, entry): (&String, &crate::waml::node::MappingEntry)| {
        let mut node = entry.node.clone();
        node.drop_broken_elements();
        let definition = READER.read(&mut node, &Path::root(), &mut Vec::new())?;
        Some((RolloutName::parse(name).ok()?, WrittenRollout { definition, node }))
    };
    written.filter_map(read_one).collect()
}
