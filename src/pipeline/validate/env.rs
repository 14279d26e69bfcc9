//! Environment variables have legal names and one source.

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::section_workload::EnvVar;
use crate::waml::typed::quoted;

/// Prefixes that Kubernetes fills itself, for the API server's address.
const RESERVED: &str = "KUBERNETES_";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (index, variable) in subject.section.env.iter().flatten().enumerate() {
        let path = Path::root().key("env").index(index);
        name(variable, &path, report);
        source(variable, &path, report);
    }
}

fn name(variable: &EnvVar, path: &Path, report: &mut Report<'_>) {
    let name = variable.name.as_str();
    let (message, help) = if !is_name(name) {
        let message = format!("{} is not a legal name of an environment variable", quoted(name));
        (message, "use letters, digits and `_`, not beginning with a digit")
    } else if name.starts_with(RESERVED) {
        (
            format!("`{name}` is set by Kubernetes"),
            "choose a name that does not begin with `KUBERNETES_`",
        )
    } else {
        return;
    };
    let violation = Violation::error("env", message).expected("not a legal name").help(help);
    report.add(&path.key("name"), violation);
}

fn source(variable: &EnvVar, path: &Path, report: &mut Report<'_>) {
    let name = quoted(&variable.name);
    let (message, expected) = match (&variable.value, &variable.secret) {
        (Some(_), Some(_)) => (format!("{name} has a value and a secret"), "one too many"),
        (None, None) => (format!("{name} has neither a value nor a secret"), "needs `value`"),
        _ => return,
    };
    let help = "set `value`, or `secret: {name: …, key: …}`; `null` takes the other one away";
    report.add(path, Violation::error("env", message).expected(expected).help(help));
}

/// POSIX, "Environment Variable Definition".
fn is_name(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
