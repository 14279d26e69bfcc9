//! Names that become names of objects are legal, short enough for the names derived from them, and free.

use super::{RenderedPlan, RuleReport, Subject};
use crate::manifests::object::Object;
use crate::model::id::{is_rfc1123_label, is_rfc1123_subdomain};
use crate::model::namespaces::NamespaceRefusal;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::waml::confidential::is_confidential;
use crate::waml::node::Path;
use crate::waml::quote::{quote, quoted_reference};

const LABEL: &str = "use 1 to 63 lower-case letters, digits and `-`, beginning with a letter";

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    slug(subject, report);
    let section = subject.section;
    for (path, service) in Path::root().each("service", &section.service) {
        if let Some(name) = &service.name
            && !is_service_name(name)
        {
            report_illegal_name(report, &path.key("name"), "service name", name, LABEL);
        }
        for (path, port) in path.each("ports", &service.ports) {
            if !is_port_name(&port.name) {
                let help =
                    "use 1 to 15 lower-case letters, digits and `-`, at least one of them a letter";
                report_illegal_name(report, &path.key("name"), "port name", &port.name, help);
            }
        }
    }
    for (path, secret) in Path::root().each("secrets", &section.secrets) {
        secret_name(&secret.name, &path.key("name"), report);
    }
    for (path, volume) in Path::root().each("volumes", &section.volumes) {
        if !is_rfc1123_label(&volume.name) {
            let help = "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit";
            report_illegal_name(report, &path.key("name"), "name", &volume.name, help);
        }
    }
}

/// Checks a Secret's name, which is an RFC 1123 subdomain.
pub(super) fn secret_name(name: &str, path: &Path, report: &mut RuleReport<'_>) {
    if !is_rfc1123_subdomain(name) {
        let help = "use 1 to 253 lower-case letters, digits, `-` and `.`, each part beginning and ending with a letter or digit";
        report_illegal_name(report, path, "name of a Secret", name, help);
    }
}

/// Checks the slug as the beginning of a service's name, which is stricter than a label (RFC 1035).
fn slug(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let slug = subject.waml.app.slug.as_str();
    if !is_service_name(slug) {
        let violation = Violation::error("names", format!("the slug `{slug}` begins with a digit"))
            .expected("no name for a Service")
            .help(LABEL);
        report.add_to_file(subject.waml, &Path::root().key("slug"), violation);
    }
}

fn report_illegal_name(
    report: &mut RuleReport<'_>,
    path: &Path,
    what: &str,
    name: &str,
    help: &str,
) {
    let quoted_name =
        if is_confidential(path) { quoted_reference(name) } else { Some(quote(name)) };
    let name_text = quoted_name.unwrap_or_else(|| "this".to_owned());
    let violation = Violation::error("names", format!("{name_text} is not a legal {what}"));
    report.add(path, violation.expected("not legal").help(help));
}

/// Checks for an RFC 1035 label.
fn is_service_name(text: &str) -> bool {
    is_rfc1123_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Checks for an `IANA_SVC_NAME`, RFC 6335 section 5.1.
pub(super) fn is_port_name(text: &str) -> bool {
    text.len() <= 15
        && is_rfc1123_label(text)
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && !text.contains("--")
}

/// Refuses names that belong to Kubernetes, to the platform or to its operators.
///
/// An app in `kube-system`, or one whose service account is `default`, would act with rights that were given to others.
/// The same list bounds the cluster's AppProject (`manifests/argocd/project.rs`), and the files of a rollback
/// (`deployments/rollback`).
pub(super) fn check_reserved(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    // Without the target, the rule `target` says so.
    let Some(target) = subject.cluster else { return };
    // A placeholder name is not written in the WAML.
    let app = &subject.waml.app;
    if subject.waml.has_own_namespace()
        && let Some(violation) = namespace(app.namespace.as_str(), target)
    {
        report.add_to_file(subject.waml, &Path::root().key("namespace"), violation);
    }
    // The kinds that carry the slug as their name.
    let of_slug =
        if subject.waml.has_own_slug() { &["ServiceAccount", "Service"][..] } else { &[] };
    for kind in of_slug.iter().copied() {
        if let Some(owner) = target.owner_of_object(&app.namespace, kind, app.slug.as_str()) {
            let violation = reject_reserved_name("slug", app.slug.as_str(), kind, owner);
            return report.add_to_file(subject.waml, &Path::root().key("slug"), violation);
        }
    }
    for (path, service) in Path::root().each("service", &subject.section.service) {
        let Some(name) = &service.name else { continue };
        if let Some(owner) = target.owner_of_object(&app.namespace, "Service", name) {
            report.add(&path.key("name"), reject_reserved_name("name", name, "Service", owner));
        }
    }
}

/// Finds, by the same rule, whose the name of an object that a template makes is; `None` where the
/// name is free.
pub(super) fn reserved_for(plan: &RenderedPlan<'_>, object: &Object) -> Option<&'static str> {
    let namespace = &plan.valid.waml().app.namespace;
    plan.valid.target().owner_of_object(namespace, object.kind(), object.name())
}

fn namespace(name: &str, target: &Target) -> Option<Violation> {
    let NamespaceRefusal { message, expected, help, .. } = target.refuse_namespace(name)?;
    Some(Violation::error("reserved", message).expected(expected).help(help))
}

fn reject_reserved_name(what: &str, name: &str, kind: &str, owner: &str) -> Violation {
    let message = format!("the {what} `{name}` would make the {kind} `{name}`, {owner}");
    Violation::error("reserved", message).expected("is taken").help("choose another name")
}
