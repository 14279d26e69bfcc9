//! A live app becomes a canary, and plain again, without a moment in which nothing serves.

use crate::manifests::handover::{TrafficObjects, handover_faults};
use crate::model::facts::Fact;
use crate::model::violation::Violation;
use crate::pipeline::validate::{RenderedPlan, RuleReport};
use crate::waml::node::Path;

const RULE: &str = "handover";

pub(in crate::pipeline::validate) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let after = TrafficObjects::of_objects(plan.objects.iter().map(|object| &object.json));
    let path = Path::root().key("canary");
    let section = plan.valid.section();
    if section.canary.as_ref().is_some_and(|canary| canary.handover == Some(true))
        && after.has_canary()
    {
        let message = "Flagger and the app's own manifests both have its Service now";
        let violation = Violation::warning(RULE, message).expected("for one deployment");
        let help =
            "take `handover` away when the Canary is `Initialized`; or `canary` itself, to go back";
        report.add(&path.key("handover"), violation.help(help));
    }
    let before = match &plan.valid.facts().live {
        Fact::Known { value, .. } => TrafficObjects::of_live(value),
        Fact::Missing { why } if after.has_canary() => {
            let message = format!("it is not known whether the app is a canary already: {why}");
            let help =
                "deploy again once what is live can be read: a Service could be removed too early";
            let violation = Violation::error(RULE, message).expected("could not be checked");
            return report.add(&path, violation.help(help));
        }
        // Without a canary in the WAML the rule `stateful` says that what is live is not known.
        Fact::Missing { .. } | Fact::NotAsked => return,
    };
    for fault in handover_faults(&before, &after) {
        let violation = Violation::error(RULE, fault.message()).help(fault.help());
        // Without a canary the key has no place of its own.
        let path = if section.canary.is_some() { path.clone() } else { Path::root() };
        report.add(&path, violation);
    }
}
