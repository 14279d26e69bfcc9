//! Environment variables have legal names and one source, and the secrets they come from can exist.

use super::{RuleReport, Subject, labels, names};
use crate::model::id::is_rfc1123_subdomain;
use crate::model::secret_key::is_secret_key;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::{quote, quoted_name, quoted_reference};
use crate::waml::section_workload::{ConfigMapKey, EnvVar, SecretKey};

/// The fields of a pod that a variable can show; beside these single labels and annotations.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The amounts of its container that a variable can show.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
];

/// Prefixes that Kubernetes fills itself, for the API server's address.
const RESERVED: &str = "KUBERNETES_";

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    for (path, variable) in subject.section.variables() {
        name(variable, &path, report);
        source(variable, &path, report);
        if let Some(secret) = &variable.secret {
            secret_key(secret, &path.key("secret"), report);
        }
        if let Some(ConfigMapKey { name, key }) = &variable.config_map {
            config_map(name, &path.key("configMap").key("name"), report);
            if !is_secret_key(key) {
                let message = format!("{} is not a legal key of a ConfigMap", quote(key));
                let violation = Violation::error("env", message).expected("not a legal key");
                let help =
                    "use 1 to 253 letters, digits, `-`, `_` and `.`, not beginning with `..`";
                report.add(&path.key("configMap").key("key"), violation.help(help));
            }
        }
        pod_source(variable, &path, report);
    }
    for (path, source) in Path::root().each("configMaps", &subject.section.config_maps) {
        config_map(&source.name, &path.key("name"), report);
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
    let sources: Vec<&str> = [
        ("a value", variable.value.is_some()),
        ("a secret", variable.secret.is_some()),
        ("a ConfigMap", variable.config_map.is_some()),
        ("a field", variable.field.is_some()),
        ("a resource", variable.resource.is_some()),
    ]
    .into_iter()
    .filter_map(|(source, is_set)| is_set.then_some(source))
    .collect();
    let (message, expected) = match sources.as_slice() {
        [_] => return,
        [] => (format!("{name} has neither a value nor a secret"), "needs `value`"),
        [one, others @ ..] => {
            (format!("{name} has {one} and {}", others.join(" and ")), "one too many")
        }
    };
    let help = "set `value`, or `secret: {name: …, key: …}`; `null` takes the other one away";
    report.add(path, Violation::error("env", message).expected(expected).help(help));
}

/// Checks the field of a pod and the amount of a container that a value is taken from.
fn pod_source(variable: &EnvVar, path: &Path, report: &mut RuleReport<'_>) {
    let mut refuse = |key: &str, text: &str, what: &str, help: String| {
        let message = format!("{} is no {what} that a variable can show", quote(text));
        let violation = Violation::error("env", message).expected("not one of them");
        report.add(&path.key(key), violation.help(help));
    };
    let is_known = |text: &str, known: &[&str]| known.contains(&text);
    if let Some(field) = variable.field.as_deref()
        && !is_known(field, &FIELDS)
        && !is_entry(field)
    {
        let help = format!(
            "use one of {}, or `metadata.labels['KEY']` or `metadata.annotations['KEY']`",
            quoted_list(&FIELDS)
        );
        refuse("field", field, "field", help);
    }
    if let Some(resource) = variable.resource.as_deref()
        && !is_known(resource, &RESOURCES)
    {
        let help = format!("use one of {}", quoted_list(&RESOURCES));
        refuse("resource", resource, "amount", help);
    }
}

/// Checks for one label or annotation: `metadata.labels['KEY']`.
fn is_entry(field: &str) -> bool {
    ["metadata.labels['", "metadata.annotations['"]
        .into_iter()
        .filter_map(|start| field.strip_prefix(start)?.strip_suffix("']"))
        .any(labels::is_qualified_name)
}

fn quoted_list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn config_map(name: &str, path: &Path, report: &mut RuleReport<'_>) {
    if !is_rfc1123_subdomain(name) {
        let message = format!("{} is not a legal name of a ConfigMap", quote(name));
        let violation = Violation::error("env", message).expected("not a legal name");
        report.add(path, violation.help("use lower-case letters, digits, `-` and `.`"));
    }
}

fn secret_key(secret: &SecretKey, path: &Path, report: &mut RuleReport<'_>) {
    names::secret_name(&secret.name, &path.key("name"), report);
    if !is_secret_key(&secret.key) {
        // The secret itself may stand there.
        let key_text = quoted_reference(&secret.key).unwrap_or_else(|| "this".to_owned());
        let message = format!("{key_text} is not a legal key of a Secret");
        let violation = Violation::error("env", message).expected("not a legal key");
        let help = "use 1 to 253 letters, digits, `-`, `_` and `.`, not beginning with `..`";
        report.add(&path.key("key"), violation.help(help));
    }
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
