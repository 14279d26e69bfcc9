//! The service level objective can be met, measured and missed.

use super::{RuleReport, Subject};
use crate::model::platform::monitoring::{HttpMetrics, Monitoring, SloClass, is_percent};
use crate::model::platform::network::IngressKind;
use crate::model::violation::Violation;
use crate::templates::view::observability::ObservedApp;
use crate::templates::view::slo::{
    FASTEST_BURN, ObjectiveView, find_missing_part, resolve_objective, usual_bounds,
};
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::quote;
use crate::waml::section_operations::Slo;
use crate::waml::suggest;

const RULE: &str = "slo";

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(slo) = &subject.section.slo else { return };
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    // The rule `unused` reports a section that the template does not use.
    if !subject.template.uses("slo") {
        return;
    }
    let watched = ObservedApp { waml: subject.waml, section: subject.section, target: &target };
    let (root, monitoring) = (Path::root().key("slo"), watched.monitoring());
    let promise = resolve_objective(slo, &monitoring.slo);
    if class(slo, monitoring, &root, report) {
        require_objective(&promise, &root, report);
    }
    percentages(slo, &promise, &root, report);
    if monitoring.enabled {
        check_measurement(subject, &watched, &promise, &root, report);
    } else if subject.tree.at(&root).is_some_and(is_from_waml) {
        let message = format!("the target `{}` has no Prometheus for objectives", target.name);
        let violation = Violation::warning(RULE, message).expected("without effect");
        let help = "ask its operators, or set `slo` only for the targets that have one";
        report.add(&root, violation.help(help));
    }
}

fn check_measurement(
    subject: &Subject<'_>,
    watched: &ObservedApp<'_>,
    promise: &ObjectiveView,
    root: &Path,
    report: &mut RuleReport<'_>,
) {
    if let Some((message, help)) = find_missing_part(watched) {
        // An address that leads nowhere, and what cannot be read, were told where they stand.
        let by_address = watched.monitoring().http == HttpMetrics::Traefik;
        let has_address = subject.is_unsure("ingress") || !watched.section.ingresses().is_empty();
        if subject.is_unsure("service") || by_address && has_address {
            return;
        }
        let violation = Violation::error(RULE, message).expected("measured by nothing");
        report.add(root, violation.help(help));
    } else {
        bounds(watched, promise, root, report);
        check_counted(watched, root, report);
    }
}

/// Parts of the names of ingress classes by which their controllers are known not to be Traefik.
const OTHER_CONTROLLERS: [&str; 8] =
    ["nginx", "haproxy", "kong", "contour", "istio", "cilium", "alb", "gce"];

/// Checks that requests are counted: Traefik counts only those that go through it.
fn check_counted(watched: &ObservedApp<'_>, root: &Path, report: &mut RuleReport<'_>) {
    let (monitoring, ingress) = (watched.monitoring(), &watched.target.platform.ingress);
    let by_traefik = monitoring.http == HttpMetrics::Traefik;
    if by_traefik && ingress.kind == IngressKind::Istio && watched.measures("http") {
        let message = "requests through Istio's gateways are not counted: the objective is measured by Traefik's metrics";
        let violation = Violation::warning(RULE, message).expected("measured by nothing");
        let help = "the target's operators can set `platform.monitoring.http: istio`";
        return report.add(root, violation.help(help));
    }
    if !by_traefik || ingress.kind != IngressKind::Kubernetes || !watched.measures("http") {
        return;
    }
    let publics = watched
        .section
        .ingresses()
        .iter()
        .map(|ingress_entry| ingress_entry.public.unwrap_or(false));
    let mut classes: Vec<&str> = publics.map(|public| ingress.class(public)).collect();
    classes.retain(|class| OTHER_CONTROLLERS.iter().any(|other| class.contains(other)));
    let Some(class) = classes.first() else { return };
    let message = format!(
        "requests through the ingress class {} are not counted: the objective is measured by Traefik's metrics",
        quote(class)
    );
    let violation = Violation::warning(RULE, message).expected("measured by nothing");
    let help = "the target's operators can set `platform.monitoring.http: istio`, or a class of Traefik's in `platform.ingress.classes`";
    report.add(root, violation.help(help));
}

/// Checks that the class is one that there is, or none is named.
fn class(slo: &Slo, monitoring: &Monitoring, root: &Path, report: &mut RuleReport<'_>) -> bool {
    let Some(name) = &slo.request_class else { return true };
    let classes = &monitoring.slo.classes;
    if classes.contains_key(name) {
        return true;
    }
    let names = classes.keys().map(String::as_str);
    let suggestion = suggest::nearest(name, names.clone());
    let hint =
        suggestion.map_or(String::new(), |name_meant| format!("did you mean `{name_meant}`? "));
    let mut sorted_classes: Vec<(&String, &SloClass)> = classes.iter().collect();
    sorted_classes.sort_by(|(_, a), (_, b)| b.availability.total_cmp(&a.availability));
    let class_text =
        |(name, class): (&String, &SloClass)| format!("`{name}` ({} %)", class.availability);
    let class_texts: Vec<String> = sorted_classes.into_iter().map(class_text).collect();
    let violation = Violation::error(RULE, format!("there is no class {}", quote(name)))
        .expected("no such class")
        .help(format!("{hint}There are {}", class_texts.join(", ")));
    report.add(&root.key("requestClass"), violation);
    false
}

fn require_objective(promise: &ObjectiveView, root: &Path, report: &mut RuleReport<'_>) {
    let mut lacks = |path: &Path, message: &str, expected: &str, help: &str| {
        report.add(path, Violation::error(RULE, message).expected(expected).help(help));
    };
    let latency = root.key("latency");
    match (promise.availability, promise.milliseconds, promise.fast) {
        (None, None, None) => lacks(
            root,
            "the `slo` has no objective",
            "needs `requestClass`",
            "add `requestClass: high`, or `availability: 99.9`",
        ),
        (_, Some(_), None) => lacks(
            &latency,
            "the latency objective does not say how many requests are that fast",
            "needs `objective`",
            "add `objective: 99`: percent of requests",
        ),
        (_, None, Some(_)) => lacks(
            &latency,
            "the latency objective does not say how fast",
            "needs `milliseconds`",
            "add `milliseconds: 300`",
        ),
        _ => {}
    }
}

fn percentages(slo: &Slo, promise: &ObjectiveView, root: &Path, report: &mut RuleReport<'_>) {
    let latency = root.key("latency").key("objective");
    let availability = root.key("availability");
    let own_latency = slo.latency.as_ref().and_then(|latency| latency.objective);
    for (path, own_objective, resolved) in [
        (availability, slo.availability, promise.availability),
        (latency, own_latency, promise.fast),
    ] {
        let Some(percent) = resolved else { continue };
        if own_objective.is_some() && !is_percent(percent) {
            let violation = Violation::error(RULE, format!("{percent} percent cannot be promised"))
                .expected("more than 0, less than 100");
            report.add(&path, violation.help("write percent, as in `99.9`"));
        } else if own_objective.is_some() && percent <= 1.0 {
            let message = format!("{percent} percent is too little to promise");
            let help = format!("write percent: `{}`", percent * 100.0);
            report.add(&path, Violation::error(RULE, message).expected("a ratio?").help(help));
        } else if FASTEST_BURN * (100.0 - percent) >= 100.0 {
            let message = format!(
                "with {percent} percent no failure is fast enough for a page by the rate of the last hour"
            );
            let violation = Violation::warning(RULE, message).expected("less than 93.1");
            let help = "promise more, or accept that the alert may fire only after 6 hours";
            report.add(&path, violation.help(help));
        }
    }
}

/// Checks the latency against the histogram's bounds: a histogram answers only for those. Where the operator sets them,
/// they are known; the usual ones are an assumption.
fn bounds(
    watched: &ObservedApp<'_>,
    promise: &ObjectiveView,
    root: &Path,
    report: &mut RuleReport<'_>,
) {
    let Some(milliseconds) = promise.milliseconds.filter(|_| promise.fast.is_some()) else {
        return;
    };
    let monitoring = watched.monitoring();
    let usual = usual_bounds(monitoring.http);
    let set = &monitoring.latency_bounds;
    for (kind, set, usual) in [("http", &set.http, usual.0), ("grpc", &set.grpc, usual.1)] {
        let bounds = set.as_deref().unwrap_or(usual);
        if !watched.measures(kind) || bounds.contains(&milliseconds) {
            continue;
        }
        let message =
            format!("{milliseconds} ms is no bound of the {kind} histogram, which cannot tell");
        let violation = match set {
            Some(_) => Violation::error(RULE, message),
            None => Violation::warning(RULE, message),
        };
        let bound_texts: Vec<String> = bounds.iter().map(u32::to_string).collect();
        let help = format!(
            "use one of {}; where it has other bounds, its operators say so in `platform.monitoring.latency_bounds.{kind}`",
            bound_texts.join(", ")
        );
        let path = root.key("latency").key("milliseconds");
        report.add(&path, violation.expected("not a bound").help(help));
    }
}
