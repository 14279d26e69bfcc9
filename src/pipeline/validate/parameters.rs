//! Parameters of the template that every WAML has to set. The form of values is checked when they are read
//! ([`crate::templates::parameters`]), under the same name.

use super::{RuleReport, Subject};
use crate::model::violation::Violation;
use crate::templates::parameters::PART;
use crate::waml::node::{Node, Path};
use crate::waml::suggest;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let parameters = &subject.template.parameters;
    let written = subject.tree.get(PART);
    // It is no map, which was reported.
    if written.is_some_and(|node| node.broken) {
        return;
    }
    for name in parameters.required() {
        let is_misspelled = || {
            let unknown = |key: &&String| parameters.names().all(|name| name != key.as_str());
            let keys = written.and_then(Node::as_map).into_iter().flatten().map(|(key, _)| key);
            keys.filter(unknown).any(|key| suggest::nearest(key, parameters.names()) == Some(name))
        };
        if written.is_some_and(|node| node.get(name).is_some()) || is_misspelled() {
            continue;
        }
        let description = parameters.description(name).and_then(|text| text.lines().next());
        let description = description.map_or_else(String::new, |text| format!(": {text}"));
        let message =
            format!("the template `{}` needs the parameter `{name}`", subject.template.id());
        let violation = Violation::error("parameters", message)
            .expected(format!("needs `{name}`"))
            .help(format!("add `{name}` under `{PART}`{description}"));
        let path = Path::root().key(PART).key(name);
        let place = report.place(&path);
        report.add_at(&path.to_string(), place, violation);
    }
}
