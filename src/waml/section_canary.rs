//! The part of a section that says how a new release gets its traffic: Flagger's canary.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// New releases get traffic step by step, while Flagger measures them; one that fails is taken back.
///
/// Traffic grows by weights (`stepWeight` up to `maxWeight`, or `stepWeights`), or the release is checked a number of
/// times (`iterations`) with the requests that `match`, or with no real traffic before the switch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Canary {
    /// Percent more at each step.
    #[schemars(range(min = 1, max = 100))]
    pub step_weight: Option<u32>,
    /// Percent of each step, `[1, 5, 20, 50]`, instead of `stepWeight` and `maxWeight`.
    pub step_weights: Option<Vec<u32>>,
    /// Percent at which the release is promoted.
    #[schemars(range(min = 1, max = 100))]
    pub max_weight: Option<u32>,
    /// Percent by which traffic goes back at each step after the promotion; absent: all at once.
    #[schemars(range(min = 1, max = 100))]
    pub step_weight_promotion: Option<u32>,
    /// Time between steps: `1m`.
    pub interval: Option<String>,
    /// The number of failed checks after which all traffic goes back.
    #[schemars(range(min = 1, max = 1000))]
    pub threshold: Option<u32>,
    /// The number of checks before the promotion, instead of weights: an A/B test with `match`, else blue/green.
    #[schemars(range(min = 1, max = 1000))]
    pub iterations: Option<u32>,
    /// The requests that get the new release in an A/B test; one of these suffices.
    #[serde(rename = "match")]
    pub match_: Option<Vec<CanaryMatch>>,
    /// True if the new release first gets copies of requests, whose answers nobody sees.
    pub mirror: Option<bool>,
    /// Percent of requests that are copied; absent: all.
    #[schemars(range(min = 1, max = 100))]
    pub mirror_weight: Option<u32>,
    /// Seconds that pods of the new release may be not ready before it is taken back.
    #[schemars(range(min = 10, max = 86_400))]
    pub progress_deadline_seconds: Option<u32>,
    /// True if new releases are promoted without any analysis.
    pub skip_analysis: Option<bool>,
    /// True while a live app changes from plain to a canary or back: its own Service and routes stay beside the Canary.
    pub handover: Option<bool>,
    /// The measurements, merged by `name`: `request-success-rate`, `request-duration`, and own ones with a `query`.
    pub metrics: Option<Vec<CanaryMetric>>,
    /// Addresses that Flagger calls, merged by `name`: for load, for tests, for a person's yes.
    pub webhooks: Option<Vec<CanaryWebhook>>,
}

/// A request that gets the new release: all of its headers match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CanaryMatch {
    /// Headers by name: `x-canary: {exact: insider}`.
    pub headers: Option<IndexMap<String, Option<HeaderMatch>>>,
}

/// The value of a header: one of the three.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HeaderMatch {
    /// The whole value.
    pub exact: Option<String>,
    /// The beginning of the value.
    pub prefix: Option<String>,
    /// An expression for the whole value.
    pub regex: Option<String>,
}

/// A measurement, and the range that its value must be in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanaryMetric {
    /// `request-success-rate` (percent), `request-duration` (milliseconds), or a name of one's own.
    pub name: String,
    /// The time that is measured: `1m`; absent: the canary's `interval`.
    #[serde(default)]
    pub interval: Option<String>,
    /// The range of good values.
    #[serde(default)]
    pub threshold_range: Option<ThresholdRange>,
    /// The `PromQL` of one's own measurement; Flagger fills in `{{ namespace }}`, `{{ target }}`, `{{ interval }}`.
    #[serde(default)]
    pub query: Option<String>,
}

/// A range of good values; at least one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ThresholdRange {
    /// The least good value.
    pub min: Option<f64>,
    /// The largest good value.
    pub max: Option<f64>,
}

/// An address that Flagger calls; it goes on only after a 2xx.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanaryWebhook {
    /// The webhook's name.
    pub name: String,
    /// The moment of the call; absent: `rollout`, at each check.
    #[serde(default, rename = "type")]
    pub type_: Option<WebhookType>,
    /// The address: `http://flagger-loadtester.flagger/`.
    #[serde(default)]
    pub url: Option<String>,
    /// The longest wait for the answer: `5s`.
    #[serde(default)]
    pub timeout: Option<String>,
    /// The number of further tries.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub retries: Option<u32>,
    /// True if nobody is told of its failures.
    #[serde(default)]
    pub mute_alert: Option<bool>,
    /// Texts that are sent along: `cmd: "hey -z 1m -q 10 http://my-app-canary.devx/"`.
    #[serde(default)]
    pub metadata: Option<IndexMap<String, Option<String>>>,
}

/// The moment of a webhook. Flagger's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookType {
    /// Before traffic goes to the new release.
    PreRollout,
    /// At each check; a failure counts as a failed check.
    Rollout,
    /// Before the run begins: it waits for a yes.
    ConfirmRollout,
    /// Before each further step: it waits for a yes.
    ConfirmTrafficIncrease,
    /// Before the promotion: it waits for a yes.
    ConfirmPromotion,
    /// After the run.
    PostRollout,
    /// At each check: a yes takes the release back.
    Rollback,
    /// At everything that happens.
    Event,
}

/// The metric by which Flagger counts answers without an error of the server, in percent.
pub const SUCCESS_RATE: &str = "request-success-rate";
/// The metric by which Flagger measures how long answers take, in milliseconds.
pub const DURATION: &str = "request-duration";

impl Canary {
    /// Returns the measurements, none where there is no list.
    pub fn metrics(&self) -> &[CanaryMetric] {
        self.metrics.as_deref().unwrap_or_default()
    }

    /// Returns the webhooks, none where there is no list.
    pub fn webhooks(&self) -> &[CanaryWebhook] {
        self.webhooks.as_deref().unwrap_or_default()
    }
}

impl CanaryMetric {
    /// Checks that Flagger knows the measurement by its name.
    pub fn is_built_in(&self) -> bool {
        matches!(&*self.name, SUCCESS_RATE | DURATION)
    }
}

impl CanaryWebhook {
    /// Checks that it is called at each check, as what sends load is.
    pub fn is_at_each_check(&self) -> bool {
        matches!(self.type_, None | Some(WebhookType::Rollout))
    }
}
