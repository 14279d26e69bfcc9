//! What an app promises: its own words over its class's.

use crate::model::platform::monitoring::Objectives;
use crate::waml::section_operations::Slo;

/// What is promised; parts that nobody set are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Promise {
    /// Percent of requests that succeed.
    pub(crate) availability: Option<f64>,
    /// Milliseconds within which requests are answered.
    pub(crate) milliseconds: Option<u32>,
    /// Percent of requests that are that fast.
    pub(crate) fast: Option<f64>,
}

/// The class that is named, if it is one of the operator's, with what the WAML says over it.
pub(crate) fn promised(slo: &Slo, objectives: &Objectives) -> Promise {
    let class = slo.request_class.as_ref().and_then(|name| objectives.classes.get(name));
    let latency = class.and_then(|class| class.latency);
    let own = slo.latency.as_ref();
    Promise {
        availability: slo.availability.or(class.map(|class| class.availability)),
        milliseconds: own.and_then(|l| l.milliseconds).or(latency.map(|l| l.milliseconds)),
        fast: own.and_then(|l| l.objective).or(latency.map(|l| l.objective)),
    }
}
