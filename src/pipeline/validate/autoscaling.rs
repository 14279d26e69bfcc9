//! The autoscaler's numbers fit together, and its metrics have requests.

use super::resources::Amount;
use super::{RuleReport, Subject};
use crate::model::id::{is_rfc1123_label, is_rfc1123_subdomain};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_workload::{Amounts, Horizontal, Keda, Resources};

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    if let Some(keda) = subject.section.keda() {
        check_keda(keda, subject, report);
    }
    let Some(horizontal) = subject.section.autoscaling.as_ref().and_then(|a| a.horizontal.as_ref())
    else {
        return;
    };
    let path = Path::root().key("autoscaling").key("horizontal");
    check_autoscaler(subject, &path, report);
    replicas(horizontal, subject, &path, report);
    measures(horizontal, subject, &path, report);
}

/// KEDA has sources of events, room to scale, the pods for itself, and a template that tells it.
fn check_keda(keda: &Keda, subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let path = Path::root().key("scaling").key("keda");
    let mut refuse = |path: &Path, message: &str, expected: &str, help: &str| {
        let violation = Violation::error("autoscaling", message).expected(expected);
        report.add(path, violation.help(help));
    };
    if subject.section.autoscaling.as_ref().is_some_and(|a| a.horizontal.is_some()) {
        let message = "KEDA and `autoscaling.horizontal` would both set the number of pods";
        let help = "keep one; KEDA scales by load with the triggers `cpu` and `memory`";
        refuse(&path, message, "one too many", help);
    }
    if subject.section.canary.is_some() {
        let message = "Flagger needs an autoscaler that it can copy, and KEDA's it cannot always";
        refuse(&path, message, "not beside a canary", "use `autoscaling.horizontal`");
    }
    if subject.section.versions.as_ref().is_some_and(|versions| !versions.is_empty()) {
        let message = "each version would be scaled by all events, also by those of the others";
        refuse(&path, message, "not beside versions", "use `autoscaling.horizontal`");
    }
    if !subject.template.uses("scaledObject") {
        let message =
            format!("the template `{}` does not make a `ScaledObject`", subject.template.id());
        let help =
            "remove `scaling.keda`, or use a template that makes one, such as `worker-default`";
        refuse(&path, &message, "without effect", help);
    }
    match (keda.min_replicas.unwrap_or_default(), keda.max_replicas) {
        (_, None) => {
            let help = "add `maxReplicas: 10`";
            refuse(&path, "the autoscaler has no upper bound", "needs `maxReplicas`", help);
        }
        (min, Some(max)) if min > max => {
            let message = format!("at least {min} and at most {max} replicas cannot both be");
            let help = "lower `minReplicas`, or raise `maxReplicas`";
            refuse(&path.key("minReplicas"), &message, &format!("at most {max}"), help);
        }
        _ => {}
    }
    if keda.triggers.iter().flatten().next().is_none() && !subject.is_unsure("scaling") {
        let help = "add `triggers: [{type: rabbitmq, metadata: {queueName: jobs, value: \"20\"}}]`";
        refuse(&path, "KEDA has no source of events", "needs `triggers`", help);
    }
    for (path, trigger) in path.each("triggers", &keda.triggers) {
        let is_type = |text: &str| is_rfc1123_label(text);
        if !is_type(&trigger.scaler) {
            let message = format!("{} is not a type of trigger", quote(&trigger.scaler));
            let help = "write it as KEDA's documentation does: `aws-sqs-queue`";
            refuse(&path.key("type"), &message, "not a type", help);
        }
        let authentication = trigger.authentication.as_deref();
        if let Some(name) = authentication.filter(|name| !is_rfc1123_subdomain(name)) {
            let message = format!("{} is not a legal name of a TriggerAuthentication", quote(name));
            let help = "use lower-case letters, digits, `-` and `.`";
            refuse(&path.key("authentication"), &message, "not a legal name", help);
        }
    }
}

/// A template that sets the number of pods also makes the autoscaler which that number is left to: Kubernetes reads a
/// missing one as 1.
fn check_autoscaler(subject: &Subject<'_>, path: &Path, report: &mut RuleReport<'_>) {
    if subject.template.uses("autoscaling") || !subject.template.uses("scaling") {
        return;
    }
    let message = format!(
        "the template `{}` does not make an autoscaler, and there would be one pod",
        subject.template.id()
    );
    let help = "remove it and set `scaling.replicas`, or use a template that makes one, such as `backend-default`";
    let violation = Violation::error("autoscaling", message).expected("without effect");
    report.add(path, violation.help(help));
}

fn replicas(
    horizontal: &Horizontal,
    subject: &Subject<'_>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    match (horizontal.min_replicas, horizontal.max_replicas) {
        (Some(min), Some(max)) if min > max => {
            let default = subject.default_of(&path.key("minReplicas"));
            let message =
                format!("at least {min}{default} and at most {max} replicas cannot both be");
            let expected = format!("at most {max}");
            let violation = Violation::error("autoscaling", message).expected(expected);
            let help = "lower `minReplicas`, or raise `maxReplicas`";
            report.add(&path.key("minReplicas"), violation.help(help));
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
    subject: &Subject<'_>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let resources = subject.section.resources.as_ref();
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
    let mut unreachable = Vec::new();
    for (kind, metric, request) in &metrics {
        let Some((metric, request)) = metric.as_ref().zip(*request) else { continue };
        let limit = resources.and_then(|r| r.limits.as_ref()).and_then(|limits| match *kind {
            "cpu" => limits.cpu.as_deref(),
            _ => limits.memory.as_deref(),
        });
        let percent = metric.average_utilization;
        unreachable.extend(find_unreachable(kind, (request, limit), percent, path, report));
    }
    let count = metrics.iter().filter(|(_, metric, _)| metric.is_some()).count();
    for measure in &unreachable {
        measure.report_unreachable(unreachable.len() == count, path, report);
    }
    for (kind, metric, request) in metrics {
        let Some(metric) = metric else { continue };
        let path = path.key(kind);
        if metric.average_utilization.is_none() {
            let message = format!("`{kind}` does not say which load to aim for");
            let violation = Violation::error("autoscaling", message);
            let violation = violation.expected("needs `averageUtilization`");
            report.add(&path, violation.help("add `averageUtilization: 75`"));
        }
        if request.is_none() && !subject.is_unsure("resources") {
            let message =
                format!("the autoscaler measures {kind} against a request that is not set");
            let violation = Violation::error("autoscaling", message).expected("needs a request");
            report.add(&path, violation.help(format!("add `resources.requests.{kind}`")));
        }
    }
}

/// A metric that pods cannot exceed: it never adds one.
struct Unreachable<'a> {
    kind: &'a str,
    percent: u32,
    /// The request and the limit.
    amounts: (&'a str, &'a str),
    /// The limit in percent of the request.
    most: u128,
}

impl Unreachable<'_> {
    /// Reports the metric: an error where no other metric can add a pod.
    fn report_unreachable(&self, is_only: bool, path: &Path, report: &mut RuleReport<'_>) {
        let Self { kind, percent, amounts: (request, limit), most } = self;
        let why = format!(
            "{percent}% of the requested {request} {kind} is not less than the limit of {limit}"
        );
        let violation = if is_only {
            Violation::error("autoscaling", format!("no pod is ever added: {why}"))
        } else {
            let message = format!("no pod is ever added because of its {kind}: {why}");
            Violation::warning("autoscaling", message)
        };
        let help = format!(
            "aim for less, such as `averageUtilization: 75`, or raise `resources.limits.{kind}`"
        );
        let violation = violation.expected(format!("less than {most}")).help(help);
        report.add(&path.key(kind).key("averageUtilization"), violation);
    }
}

/// Finds the metric with a goal that pods can never exceed. A request of 0 is reported at once.
fn find_unreachable<'a>(
    kind: &'a str,
    (request, limit): (&'a str, Option<&'a str>),
    percent: Option<u32>,
    path: &Path,
    report: &mut RuleReport<'_>,
) -> Option<Unreachable<'a>> {
    // The rule `resources` reports an amount that makes no sense.
    let requested = Amount::parse(kind, request).comparable_quantity()?;
    if requested.is_zero() {
        let message = format!("the autoscaler measures {kind} against a request of 0");
        let violation = Violation::error("autoscaling", message).expected("needs a request");
        let help = format!("raise `resources.requests.{kind}`");
        report.add(&path.key(kind), violation.help(help));
        return None;
    }
    let (percent, limit) = (percent?, limit?);
    let most = Amount::parse(kind, limit).comparable_quantity()?.percent_of(requested)?;
    let amounts = (request, limit);
    (u128::from(percent) >= most).then_some(Unreachable { kind, percent, amounts, most })
}
