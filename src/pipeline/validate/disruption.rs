//! Nodes can be drained without taking the app away, and can be drained at all.

use super::scaling::{at_most_all, number};
use super::{Report, Subject};
use crate::manifests::int_or_string::NumberOrPercent;
use crate::model::violation::Violation;
use crate::waml::node::{Path, is_from_waml};

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(disruption) = &subject.section.disruption else { return };
    let path = Path::root().key("disruption");
    let available = number(
        "disruption",
        disruption.min_available.as_deref(),
        &path.key("minAvailable"),
        report,
    );
    let unavailable = number(
        "disruption",
        disruption.max_unavailable.as_deref(),
        &path.key("maxUnavailable"),
        report,
    );
    let available = at_most_all("disruption", "stay", available, &path.key("minAvailable"), report);
    let unavailable =
        at_most_all("disruption", "be away", unavailable, &path.key("maxUnavailable"), report);
    one_of_two(subject, &path, report);
    let pods = subject.fewest_pods();
    if pods == Some(0) {
        // Where no pod runs, no drain waits for one.
        return;
    }
    let blocked = match (available, unavailable) {
        // Kubernetes rounds a share up: half of one pod is one.
        (Some(least), _) => pods.is_some_and(|pods| least.of(pods) >= pods),
        (None, most) => most.is_some_and(NumberOrPercent::is_zero),
    };
    if blocked {
        let key = if available.is_some() { "minAvailable" } else { "maxUnavailable" };
        let pods = match pods {
            Some(1) => " of the one that the app has".to_owned(),
            Some(pods) => format!(" of the {pods} that the app has at least"),
            None => String::new(),
        };
        let message = format!("no pod{pods} may be away, so no node can be drained");
        let violation = Violation::error("disruption", message).expected("blocks every drain");
        report.add(
            &path.key(key),
            violation
                .help("allow at least one pod to be away: `maxUnavailable: 1`, or run more pods"),
        );
    }
}

/// Kubernetes takes one of the two. Over a template's default the WAML's own wins; two of the
/// WAML's are a contradiction.
fn one_of_two(subject: &Subject<'_>, path: &Path, report: &mut Report<'_>) {
    let written = |key| {
        subject.tree.at(&path.key(key)).is_some_and(|node| !node.is_null() && is_from_waml(node))
    };
    if written("minAvailable") && written("maxUnavailable") {
        let message = "a disruption has `minAvailable` or `maxUnavailable`, not both";
        let violation = Violation::error("disruption", message).expected("one too many");
        report.add(
            &path.key("maxUnavailable"),
            violation.help("keep one; `null` takes the other one away"),
        );
    }
}

impl Subject<'_> {
    /// The smallest number of pods that the app can have.
    fn fewest_pods(&self) -> Option<u32> {
        let horizontal = self.section.autoscaling.as_ref().and_then(|a| a.horizontal.as_ref());
        match horizontal {
            Some(horizontal) => Some(horizontal.min_replicas.unwrap_or(1)),
            None => self.section.scaling.as_ref().and_then(|scaling| scaling.replicas),
        }
    }
}
