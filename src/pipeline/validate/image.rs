//! The image has a name that a registry can have, and its tag exists.

use super::unknown::{self, NeededFact};
use super::{RuleReport, Subject};
use crate::model::id::{ImageTag, is_rfc1123_label};
use crate::model::violation::Violation;
use crate::templates::view::{has_registry, reference};
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::{quote, quoted_host};

/// Registries take no longer names.
const LONGEST: usize = 255;

/// Checks the image's name by the grammar of OCI's and Docker's references. The tag is no part of it: it comes with the
/// release.
pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let path = Path::root().key("image");
    if !parts(subject, &path, report) {
        return;
    }
    let full_name = reference(subject.section.image.as_ref(), subject.release);
    if !is_image(&full_name, &subject.release.tag) {
        let message = format!("{} is not the name of an image", quote(&full_name));
        let violation = Violation::error("image", message)
            .expected("not an image's name")
            .help("set `image.repository` to the image's name in its registry, at most 255 characters in all");
        report.add(&path, violation);
    }
}

/// Checks that the image tag exists in its registry.
pub(super) fn tag(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let path = Path::root().key("image");
    // A name that the template or the release gives stands nowhere in the WAML.
    let is_written = subject.tree.get("image").is_some_and(is_from_waml);
    let what = "whether the image is in its registry";
    let needed = NeededFact { rule: "image-tag", what, path: is_written.then_some(&path) };
    if needed.require_fact(&subject.facts.image, subject, report) == Some(&false) {
        let image = reference(subject.section.image.as_ref(), subject.release);
        let age = unknown::age(&subject.facts.image, subject);
        let message = format!("there is no image {}{age}", quote(&image));
        let violation = Violation::error("image-tag", message).expected("has no such tag");
        let help =
            "wait until the build has pushed it, deploy a tag that is there, or correct `image`";
        report.add_or_say(is_written.then_some(&path), violation.help(help));
    }
}

/// Checks that the parts of the name in the settings are legal, each by itself.
fn parts(subject: &Subject<'_>, path: &Path, report: &mut RuleReport<'_>) -> bool {
    let Some(image) = &subject.section.image else { return true };
    let mut legal = true;
    if let Some(registry) = image.registry.as_deref().filter(|text| !is_registry(text)) {
        legal = false;
        let message = format!("{} is not a registry", quoted_host(registry));
        let violation = Violation::error("image", message).expected("not a registry").help(
            "use a host, with a port and a folder where needed: `ghcr.io`, `localhost:5000/acme`",
        );
        report.add(&path.key("registry"), violation);
    }
    if let Some(repository) = image.repository.as_deref().filter(|text| !is_repository(text)) {
        legal = false;
        let message = format!("{} is not the name of an image", quote(repository));
        let violation = Violation::error("image", message)
            .expected("not an image's name")
            .help("use lower-case letters and digits with single `.`, `_` or `-` between them, parted by `/`; the tag comes with the release");
        report.add(&path.key("repository"), violation);
    }
    legal
}

/// Checks for `host[:port][/path]`.
fn is_registry(text: &str) -> bool {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, folder) = text.split_once('/').map_or((text, None), |(h, f)| (h, Some(f)));
    text.len() <= LONGEST && is_host(host) && folder.is_none_or(are_parts)
}

/// Checks for a whole reference with this tag.
pub(crate) fn is_image(reference: &str, tag: &ImageTag) -> bool {
    let name = reference.strip_suffix(tag.as_str()).and_then(|name| name.strip_suffix(':'));
    name.is_some_and(is_repository)
}

fn is_repository(text: &str) -> bool {
    text.len() <= LONGEST
        && if has_registry(text) {
            !text.ends_with('/') && is_registry(text)
        } else {
            are_parts(text)
        }
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
    let is_port = |port: &str| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    name.len() <= 253 && name.split('.').all(is_rfc1123_label) && port.is_none_or(is_port)
}

/// Checks for parts between slashes.
fn are_parts(text: &str) -> bool {
    text.split('/').all(is_part)
}

/// Checks for `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
fn is_part(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_separator = |between: &[u8]| {
        matches!(between, b"." | b"_" | b"__") || between.iter().all(|b| *b == b'-')
    };
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| word(*b))
        && bytes.last().is_some_and(|b| word(*b))
        && bytes.split(|b| word(*b)).filter(|between| !between.is_empty()).all(is_separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_registries_take() {
        for legal in ["a", "a/b-c/d_e", "a__b", "a---b", "a.b", "ghcr.io/a/b", "localhost:5000/a"] {
            assert!(is_repository(legal), "{legal}");
        }
        for illegal in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "A",
            "a b",
            "a\nb",
            "a:1",
            "a@b",
            "a..b",
            "a___b",
            "-a",
            "a-",
            "a._b",
            "ghcr.io/",
            "ghcr.io/A",
            "ghcr.io:0/a",
            "ghcr.io:x/a",
            "é",
        ] {
            assert!(!is_repository(illegal), "{illegal}");
        }
        assert!(!is_repository(&"a".repeat(256)));
    }

    #[test]
    fn a_registry_is_a_host_and_perhaps_a_folder() {
        for legal in ["ghcr.io", "ghcr.io/", "eu.gcr.io/acme/x", "localhost:5000", "registry"] {
            assert!(is_registry(legal), "{legal}");
        }
        for illegal in ["", "/", "ghcr.io//", "https://ghcr.io", "ghcr.io ", "g\n", "a:1:2", "a_b"]
        {
            assert!(!is_registry(illegal), "{illegal}");
        }
    }
}
