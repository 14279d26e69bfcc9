//! Names that become names of objects are legal, and short enough for what is made from them.

use super::{Report, Subject};
use crate::model::id::is_rfc1123_label;
use crate::model::violation::Violation;
use crate::waml::confidential::{is_confidential, quoted_reference};
use crate::waml::node::Path;
use crate::waml::typed::quoted;

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
    for (index, secret) in section.secrets.iter().flatten().enumerate() {
        let path = Path::root().key("secrets").index(index).key("name");
        secret_name(&secret.name, &path, report);
    }
    for (index, volume) in section.volumes.iter().flatten().enumerate() {
        if !is_rfc1123_label(&volume.name) {
            let path = Path::root().key("volumes").index(index).key("name");
            let help = "use 1 to 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit";
            illegal(report, &path, "name", &volume.name, help);
        }
    }
}

/// A Secret's name is an RFC 1123 subdomain.
pub(super) fn secret_name(name: &str, path: &Path, report: &mut Report<'_>) {
    if !is_subdomain(name) {
        let help = "use 1 to 253 lower-case letters, digits, `-` and `.`, each part beginning and ending with a letter or digit";
        illegal(report, path, "name of a Secret", name, help);
    }
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
    }
}

fn illegal(report: &mut Report<'_>, path: &Path, what: &str, name: &str, help: &str) {
    let shown = if is_confidential(path) { quoted_reference(name) } else { Some(quoted(name)) };
    let shown = shown.unwrap_or_else(|| "this".to_owned());
    let violation = Violation::error("names", format!("{shown} is not a legal {what}"));
    report.add(path, violation.expected("not legal").help(help));
}

/// As Kubernetes checks it: its parts may be longer than a label.
pub(super) fn is_subdomain(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(legal)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
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
