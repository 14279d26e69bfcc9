//! A deployment that hands the number of pods over to an autoscaler says so.

use super::{Made, Report};
use crate::model::facts::LiveReplicas;
use crate::model::violation::Violation;
use crate::waml::node::Path;

const RULE: &str = "replicas";

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
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
