//! Several releases live at once, as versions with shares of the traffic.

use std::collections::HashMap;

use super::{RuleReport, Subject};
use crate::model::id::is_rfc1123_label;
use crate::model::platform::network::IngressKind;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_traffic::Version;

/// Checks that live versions have names of their own, and shares that are all of the traffic.
pub(super) fn versions(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(versions) = subject.section.versions.as_deref() else { return };
    let path = Path::root().key("versions");
    if subject.section.canary.is_some() {
        let violation = Violation::error("versions", "an app has a canary or versions, not both")
            .expected("one too many")
            .help("a canary moves the traffic by itself; `versions` says where it stays");
        report.add(&path, violation);
    }
    each(versions, &path, report);
    // `traffic` has weights of its own, and an `Ingress` has none: the rule `traffic` says so.
    let kind = subject.cluster.map(|target| target.platform.ingress.kind);
    if subject.section.traffic.is_none() && kind != Some(IngressKind::Kubernetes) {
        total(versions, &path, report);
    }
}

fn each(versions: &[Version], path: &Path, report: &mut RuleReport<'_>) {
    let mut indexes: HashMap<&str, usize> = HashMap::new();
    for (index, version) in versions.iter().enumerate() {
        let earlier = indexes.insert(&version.name, index);
        if let Some(violation) = name(&version.name, earlier) {
            report.add(&path.index(index).key("name"), violation);
        }
    }
}

fn name(name: &str, earlier: Option<usize>) -> Option<Violation> {
    let (message, expected, help) = if is_rfc1123_label(name) {
        let message = format!("`versions[{}]` has this name already", earlier?);
        (message, "is taken", "give each version a name of its own")
    } else {
        let message = format!("{} is not a legal name", quote(name));
        (message, "not legal", "use lower-case letters, digits and `-`")
    };
    Some(Violation::error("versions", message).expected(expected).help(help))
}

fn total(versions: &[Version], path: &Path, report: &mut RuleReport<'_>) {
    let silent = versions.iter().position(|version| version.weight.is_none());
    if let Some(index) = silent.filter(|_| versions.len() > 1) {
        let violation =
            Violation::error("versions", "this version does not say how much traffic it gets")
                .expected("needs `weight`")
                .help("add `weight: 0`, and let all weights be 100 together");
        return report.add(&path.index(index), violation);
    }
    let sum: u64 = versions.iter().map(|version| u64::from(version.weight.unwrap_or(100))).sum();
    if sum != 100 && !versions.is_empty() {
        let violation =
            Violation::error("versions", format!("the weights add up to {sum}, not 100"))
                .expected(format!("{sum} together"))
                .help("a weight is a share of all traffic in percent");
        report.add(path, violation);
    }
}
