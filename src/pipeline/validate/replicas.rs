//! A deployment that hands the number of pods over to an autoscaler says so.

use super::{Made, Report};
use crate::manifests::replicas;
use crate::model::facts::{Fact, LiveReplicas};
use crate::model::violation::Violation;
use crate::waml::node::Path;

const RULE: &str = "replicas";

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
    if let Fact::Missing { why } = &made.valid.facts().live {
        return unknown(made, why, report);
    }
    for LiveReplicas { kind, name, number } in made.kept_replicas {
        let message = format!(
            "{kind} `{name}` runs {number} pods, and from now on its autoscaler says how many"
        );
        let help = format!(
            "nothing is to be done: this deployment keeps `replicas: {number}`, so that no pod goes before the \
             autoscaler counts, and the next one leaves it out"
        );
        let violation = Violation::warning(RULE, message).help(help);
        report.add(&Path::root().key("autoscaling"), violation);
    }
}

/// Whatever the target's policy lets pass: a number that is live and not kept costs pods.
fn unknown(made: &Made<'_>, why: &str, report: &mut Report<'_>) {
    let mut objects = made.objects.iter();
    let Some(workload) = objects.find_map(|object| replicas::scaled_by(&object.json)) else {
        return;
    };
    let message = format!(
        "it is not known how many pods {} `{}` runs now, which its autoscaler would take over: {why}",
        workload.kind, workload.name
    );
    let help = "deploy again once what is live can be read: without its number Kubernetes goes down to 1 pod";
    let violation = Violation::error(RULE, message).expected("could not be checked").help(help);
    report.add(&Path::root().key("autoscaling"), violation);
}
