//! The target is known to the configuration. (That it is under `deploy`, merging has seen to.)

use super::{Report, Subject};
use crate::model::id::TargetName;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::suggest;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let is_misnamed = subject.waml.is_misnamed(subject.target);
    if is_misnamed || subject.facts.clusters.find(subject.target).is_some() {
        return;
    }
    let known: Vec<&str> =
        subject.facts.clusters.names().into_iter().map(TargetName::as_str).collect();
    let name = subject.target.as_str();
    let path = Path::root().key("deploy").key(name);
    let (_, place) = subject.waml.root.nearest(&path);
    let violation = Violation::error("target", format!("there is no cluster `{name}`"))
        .expected("not a configured cluster")
        .help(suggest::hint(name, known));
    report.add_at(&path.to_string(), place, violation);
}
