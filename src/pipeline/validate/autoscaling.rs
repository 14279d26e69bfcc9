//! The autoscaler's numbers fit together, and what it measures is requested.

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::section_workload::{Amounts, Horizontal, Resources};

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(horizontal) = subject.section.autoscaling.as_ref().and_then(|a| a.horizontal.as_ref())
    else {
        return;
    };
    let path = Path::root().key("autoscaling").key("horizontal");
    replicas(horizontal, &path, report);
    measures(horizontal, subject.section.resources.as_ref(), &path, report);
}

fn replicas(horizontal: &Horizontal, path: &Path, report: &mut Report<'_>) {
    match (horizontal.min_replicas, horizontal.max_replicas) {
        (Some(min), Some(max)) if min > max => {
            let message = format!("at least {min} and at most {max} replicas cannot both be");
            let violation =
                Violation::error("autoscaling", message).expected(format!("at most {max}"));
            report.add(
                &path.key("minReplicas"),
                violation.help("lower `minReplicas`, or raise `maxReplicas`"),
            );
        }
        (_, None) => {
            let violation = Violation::error("autoscaling", "the autoscaler has no upper bound")
                .expected("needs `maxReplicas`")
                .help("add `maxReplicas: 10`");
            report.add(path, violation);
        }
        _ => {}
    }
}

fn measures(
    horizontal: &Horizontal,
    resources: Option<&Resources>,
    path: &Path,
    report: &mut Report<'_>,
) {
    // Where only a limit is set, Kubernetes requests as much.
    let requested = |pick: fn(&Amounts) -> &Option<String>| {
        let amount = |side: fn(&Resources) -> &Option<Amounts>| {
            resources.and_then(|r| side(r).as_ref()).and_then(|amounts| pick(amounts).as_ref())
        };
        amount(|r| &r.requests).or_else(|| amount(|r| &r.limits))
    };
    let metrics = [
        ("cpu", &horizontal.cpu, requested(|amounts| &amounts.cpu)),
        ("memory", &horizontal.memory, requested(|amounts| &amounts.memory)),
    ];
    if metrics.iter().all(|(_, metric, _)| metric.is_none()) {
        let violation = Violation::error("autoscaling", "the autoscaler measures nothing")
            .expected("needs `cpu` or `memory`")
            .help("add `cpu: {averageUtilization: 75}`");
        report.add(path, violation);
    }
    for (kind, metric, request) in metrics {
        let Some(metric) = metric else { continue };
        let path = path.key(kind);
        if metric.average_utilization.is_none() {
            let violation = Violation::error(
                "autoscaling",
                format!("`{kind}` does not say which load to aim for"),
            )
            .expected("needs `averageUtilization`")
            .help("add `averageUtilization: 75`");
            report.add(&path, violation);
        }
        if request.is_none() {
            let message =
                format!("the autoscaler measures {kind} against a request that is not there");
            let violation = Violation::error("autoscaling", message).expected("percent of nothing");
            report.add(&path, violation.help(format!("add `resources.requests.{kind}`")));
        }
    }
}
