//! Names that become names of objects are legal, and short enough for what is made from them.

use super::{Report, Subject};
use crate::model::id::is_rfc1123_label;
use crate::model::violation::Violation;
use crate::waml::node::Path;

/// Kubernetes makes pod names from a workload's name, a template hash and a random part; a
/// longer name is cut, and its pods can no longer be told by it. From `pod-template-hash`
/// (10) and the random part (5) with their hyphens.
const LONGEST_WORKLOAD: usize = 63 - 17;

const LABEL: &str = "use 1 to 63 lower-case letters, digits and `-`, beginning with a letter";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    slug(subject, report);
    let section = subject.section;
    for (index, service) in section.service.iter().flatten().enumerate() {
        let path = Path::root().key("service").index(index);
        if let Some(name) = &service.name
            && !is_service_name(name)
        {
            illegal(report, &path.key("name"), "service name", name, LABEL);
        }
        for (index, port) in service.ports.iter().flatten().enumerate() {
            if !is_port_name(&port.name) {
                let help =
                    "use 1 to 15 lower-case letters, digits and `-`, at least one of them a letter";
                illegal(
                    report,
                    &path.key("ports").index(index).key("name"),
                    "port name",
                    &port.name,
                    help,
                );
            }
        }
    }
    let secrets = section.secrets.iter().flatten().map(|secret| ("secrets", &secret.name));
    check_labels(secrets, report);
    check_labels(section.volumes.iter().flatten().map(|volume| ("volumes", &volume.name)), report);
}

/// The slug begins a service's name, which is stricter than a label (RFC 1035).
fn slug(subject: &Subject<'_>, report: &mut Report<'_>) {
    let slug = subject.waml.app.slug.as_str();
    let (_, place) = subject.waml.root.nearest(&Path::root().key("slug"));
    if !is_service_name(slug) {
        let violation = Violation::error("names", format!("the slug `{slug}` begins with a digit"))
            .expected("no name for a Service")
            .help(LABEL);
        report.add_at("slug", place, violation);
    } else if slug.len() > LONGEST_WORKLOAD {
        let message = format!(
            "the slug has {} characters; pods' names are cut beyond {LONGEST_WORKLOAD}",
            slug.len()
        );
        let violation = Violation::error("names", message)
            .expected(format!("at most {LONGEST_WORKLOAD} characters"))
            .help("choose a shorter slug");
        report.add_at("slug", place, violation);
    }
}

fn check_labels<'a>(
    names: impl Iterator<Item = (&'static str, &'a String)>,
    report: &mut Report<'_>,
) {
    for (index, (list, name)) in names.enumerate() {
        if !is_rfc1123_label(name) {
            let path = Path::root().key(list).index(index).key("name");
            let help = "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit";
            illegal(report, &path, "name", name, help);
        }
    }
}

fn illegal(report: &mut Report<'_>, path: &Path, what: &str, name: &str, help: &str) {
    let shown = crate::waml::typed::quoted(name);
    let violation = Violation::error("names", format!("{shown} is not a legal {what}"));
    report.add(path, violation.expected("not legal").help(help));
}

/// RFC 1035 label.
fn is_service_name(text: &str) -> bool {
    is_rfc1123_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// `IANA_SVC_NAME`, RFC 6335 section 5.1.
pub(super) fn is_port_name(text: &str) -> bool {
    text.len() <= 15
        && is_rfc1123_label(text)
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && !text.contains("--")
}
