//! The image has a name that a registry can have, and its tag exists.

use std::collections::BTreeMap;

use super::unknown::{self, NeededFact};
use super::{RuleReport, Subject};
use crate::model::facts::{Fact, Facts, RegistryImage};
use crate::model::id::{ImageTag, is_rfc1123_label, is_rfc1123_subdomain};
use crate::model::lock::ImageDigests;
use crate::model::platform::images::MAX_PULL_SECRETS;
use crate::model::release::Release;
use crate::model::target::{Environment, Target};
use crate::model::violation::Violation;
use crate::templates::view::versions::image_of;
use crate::templates::view::{has_registry, reference};
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::{quote, quoted_host};
use crate::waml::section::Section;

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

/// Checks that the tags of all images exist in their registries, and that their digests are known where the target
/// requires them.
pub(super) fn tags(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let needs_digest = subject.cluster.map(digests_of) == Some(ImageDigests::Required);
    let (section, release) = (subject.section, subject.release);
    let app = NamedImage {
        reference: reference(section.image.as_ref(), release),
        path: Path::root().key("image"),
    };
    for NamedImage { reference, path } in [app].into_iter().chain(other_images(section, release)) {
        // A name that the template or the release gives stands nowhere in the WAML.
        let is_written = subject.tree.at(&path).is_some_and(is_from_waml);
        let path = is_written.then_some(&path);
        let fact = subject.facts.image(&reference);
        let what = &format!("whether {} is in its registry", quote(&reference));
        let needed = NeededFact { rule: "image-tag", what, path };
        match needed.require_fact(fact, subject, report) {
            Some(RegistryImage::Absent) => {
                let age = unknown::age(fact, subject);
                let message = format!("there is no image {}{age}", quote(&reference));
                let violation = Violation::error("image-tag", message).expected("has no such tag");
                let help = "wait until the build has pushed it, deploy a tag that is there, or correct `image`";
                report.add_or_say(path, violation.help(help));
            }
            Some(RegistryImage::Present { digest: Some(_) }) => {}
            Some(RegistryImage::Present { digest: None }) | None => {
                if needs_digest && !reference.contains('@') {
                    report.add_or_say(path, no_digest(&reference, fact));
                }
            }
        }
    }
}

/// Makes the violation for an image whose digest is not known on a target that requires it.
fn no_digest(reference: &str, fact: &Fact<RegistryImage>) -> Violation {
    let help = match fact {
        Fact::Known { .. } => "its registry does not say it: name the image by `@sha256:…`, or",
        Fact::NotAsked | Fact::Missing { .. } => {
            "an operator adds its registry to `registries` of the configuration, or"
        }
    };
    let message =
        format!("the digest of {} is not known, and the target requires it", quote(reference));
    Violation::error("image-tag", message)
        .expected("has no known digest")
        .help(format!("{help} sets the target's `policies.image_digests: known`"))
}

/// An image of a deployment, and the path in the settings that names it.
pub(crate) struct NamedImage {
    pub(crate) reference: String,
    path: Path,
}

/// Lists the images beside the app's own: those of its versions, and those that containers beside it name.
pub(crate) fn other_images(
    section: &Section,
    release: &Release,
) -> impl Iterator<Item = NamedImage> {
    let versions = Path::root().each("versions", &section.versions);
    let of_versions = versions.map(|(path, version)| NamedImage {
        reference: image_of(version, section, release),
        path: path.key("tag"),
    });
    let of_containers = section.extra_containers().filter_map(|(path, container)| {
        Some(NamedImage { reference: container.image.clone()?, path: path.key("image") })
    });
    of_versions.chain(of_containers)
}

/// Returns the target's policy for digests of images.
pub(crate) fn digests_of(target: &Target) -> ImageDigests {
    target.policies.image_digests.unwrap_or(match target.environment {
        Environment::Production => ImageDigests::Known,
        Environment::Development => ImageDigests::Off,
    })
}

/// Lists the images that the target names by digest, each with its name by tag and digest.
pub(crate) fn pinned_images(facts: &Facts, target: &Target) -> BTreeMap<String, String> {
    if digests_of(target) == ImageDigests::Off {
        return BTreeMap::new();
    }
    let pin = |(reference, fact): (&String, &Fact<RegistryImage>)| match fact {
        Fact::Known { value: RegistryImage::Present { digest: Some(digest) }, .. }
            if !reference.contains('@') =>
        {
            Some((reference.clone(), format!("{reference}@{digest}")))
        }
        Fact::Known { .. } | Fact::NotAsked | Fact::Missing { .. } => None,
    };
    facts.images.iter().filter_map(pin).collect()
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
    if image.pull_secrets.as_ref().is_some_and(|names| names.len() > MAX_PULL_SECRETS) {
        legal = false;
        let message = format!("an image has more than {MAX_PULL_SECRETS} pull secrets");
        let violation = Violation::error("image", message).expected("too many");
        report.add(&path.key("pullSecrets"), violation.help("name those that its registry needs"));
    }
    for (path, name) in path.each("pullSecrets", &image.pull_secrets) {
        if !is_rfc1123_subdomain(name) {
            legal = false;
            let message = format!("{} is not the name of a Secret", quote(name));
            let violation = Violation::error("image", message).expected("not a Secret's name").help(
                "use lower-case letters, digits, `-` and `.`, as the Secret in the app's namespace is called",
            );
            report.add(&path, violation);
        }
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
