//! Environment variables have legal names and one source, and the secrets they come from can exist.

use super::{RuleReport, Subject, names};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::{quoted_name, quoted_reference};
use crate::waml::section_workload::{EnvVar, SecretKey};

/// Prefixes that Kubernetes fills itself, for the API server's address.
const RESERVED: &str = "KUBERNETES_";

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    for (path, variable) in Path::root().each("env", &subject.section.env) {
        name(variable, &path, report);
        source(variable, &path, report);
        if let Some(secret) = &variable.secret {
            secret_key(secret, &path.key("secret"), report);
        }
    }
}

fn name(variable: &EnvVar, path: &Path, report: &mut RuleReport<'_>) {
    let name = variable.name.as_str();
    let (message, help) = if !is_name(name) {
        let message =
            format!("{} is not a legal name of an environment variable", quoted_name(name));
        (message, "use letters, digits, `_`, `-` and `.`, not beginning with a digit or `..`")
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

fn source(variable: &EnvVar, path: &Path, report: &mut RuleReport<'_>) {
    let name = quoted_name(&variable.name);
    let (message, expected) = match (&variable.value, &variable.secret) {
        (Some(_), Some(_)) => (format!("{name} has a value and a secret"), "one too many"),
        (None, None) => (format!("{name} has neither a value nor a secret"), "needs `value`"),
        _ => return,
    };
    let help = "set `value`, or `secret: {name: …, key: …}`; `null` takes the other one away";
    report.add(path, Violation::error("env", message).expected(expected).help(help));
}

fn secret_key(secret: &SecretKey, path: &Path, report: &mut RuleReport<'_>) {
    names::secret_name(&secret.name, &path.key("name"), report);
    if !is_key(&secret.key) {
        // The secret itself may stand there.
        let key_text = quoted_reference(&secret.key).unwrap_or_else(|| "this".to_owned());
        let message = format!("{key_text} is not a legal key of a Secret");
        let violation = Violation::error("env", message).expected("not a legal key");
        let help = "use 1 to 253 letters, digits, `-`, `_` and `.`, not beginning with `..`";
        report.add(&path.key("key"), violation.help(help));
    }
}

/// Checks a key as Kubernetes' `IsConfigMapKey` does: the key can be the name of a file.
pub(crate) fn is_key(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text != "."
        && !text.starts_with("..")
}

/// Checks that every version of Kubernetes takes a name (`IsEnvVarName`): programs look for names
/// with dots and hyphens too, though a shell cannot.
fn is_name(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        && text != "."
        && !text.starts_with("..")
}
