//! The check for declared parameters that no file of a template reads.

use crate::model::violation::Violation;
use crate::templates::lint::reads::{EACH, TemplateRead};
use crate::templates::parameters::PART;
use crate::templates::set::Template;

/// Lists the violations of a template's parameters; `versions` has its versions with their reads.
pub(super) fn find_unused(versions: &[(&Template, Vec<TemplateRead>)]) -> Vec<Violation> {
    let Some((template, _)) = versions.first() else { return Vec::new() };
    let is_read = |name: &&str| {
        let mut reads = versions.iter().flat_map(|(_, reads)| reads);
        reads.any(|read| covers(read, name))
    };
    let unused = template.parameters.names().filter(|name| !is_read(name));
    let violation = |name: &str| {
        let path = format!("{PART}.{name}");
        let place = template.parameters.place_of(name).cloned();
        Violation::warning("unused-parameter", format!("no file of the template reads `{path}`"))
            .at(path, place)
            .expected("without effect")
            .help("remove it, or use it in the template")
    };
    unused.map(violation).collect()
}

/// Checks that a read covers a parameter: the parameter itself, each of all, or all at once.
fn covers(read: &TemplateRead, name: &str) -> bool {
    match read.way.as_slice() {
        [first] => first == PART && read.whole,
        [first, second, ..] => first == PART && (second == name || second == EACH),
        [] => false,
    }
}
