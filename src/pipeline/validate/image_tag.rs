//! The image tag exists in its registry.

use super::unknown::{self, Wanted};
use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::templates::view::reference;
use crate::waml::node::{Path, is_from_waml};
use crate::waml::typed::quoted;

const RULE: &str = "image-tag";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let path = Path::root().key("image");
    // A name that the template or the release gives stands nowhere in the WAML.
    let written = subject.tree.get("image").is_some_and(is_from_waml);
    let what = "whether the image is in its registry";
    let wanted = Wanted { rule: RULE, what, path: written.then_some(&path) };
    let exists = unknown::known(&subject.facts.image, &wanted, subject, report);
    if exists == Some(&false) {
        let image = reference(subject.section.image.as_ref(), subject.release);
        let age = unknown::age(&subject.facts.image, subject);
        let violation = Violation::error(
            RULE,
            format!("there is no image {}{age}", quoted(&image)),
        )
        .expected("has no such tag")
        .help("wait until the build has pushed it, deploy a tag that is there, or correct `image`");
        if written {
            report.add(&path, violation);
        } else {
            report.say(violation);
        }
    }
}
