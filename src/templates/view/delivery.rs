//! The delivery of secrets to an app's pods on a target: by the objects of operators, or by the Vault agent.
//!
//! The agent reads annotations of the pod, which have its templates. A template writes each key of a secret into a file
//! of its own, as a mounted Kubernetes Secret has them. Its text is the-deployer's; a value of the WAML is in it as a
//! quoted Go string of which all but letters, digits and a few harmless characters are escaped.
//!
//! The names are those of the injector, `agent-inject/agent/annotations.go` of hashicorp/vault-k8s.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::model::id::AppKey;
use crate::model::platform::secrets::{Delivery, Secrets};
use crate::model::target::Target;
use crate::templates::view::secrets::{NeededSecret, collect_secrets, short};
use crate::templates::view::{vault, without_nulls};
use crate::waml::section::Section;

const PREFIX: &str = "vault.hashicorp.com/";

/// The folder below which a secret without a folder of its own has one of its name.
pub(crate) const FOLDER: &str = "/vault/secrets";

/// The limit of the part of an annotation that distinguishes secrets: a key has 63 characters, and
/// `agent-inject-template-` is 22 of them.
const LONGEST: usize = 41;

/// The file to which the template itself renders, empty: it writes the other files on the way.
const MARKER: &str = ".agent";

/// Adds the annotations for the Vault agent to the pods' other ones; null without any.
pub(super) fn annotations(others: Json, section: &Section, app: &AppKey, target: &Target) -> Json {
    let secrets = collect_secrets(section, app);
    if target.platform.secrets.delivery != Delivery::VaultAgent || secrets.is_empty() {
        return others;
    }
    let platform = &target.platform.secrets.vault;
    let mut annotations_set = if let Json::Object(others) = others { others } else { Map::new() };
    let mut set = |key: &str, value: String| {
        drop(annotations_set.insert(format!("{PREFIX}{key}"), value.into()));
    };
    set("agent-inject", "true".to_owned());
    set("role", vault::role(app, target));
    set("auth-path", format!("auth/{}", platform.auth));
    if let Some(namespace) = &platform.namespace {
        set("namespace", namespace.clone());
    }
    if section.cron.is_some() {
        end_with_pod(&mut annotations_set);
    }
    let mut set = |key: &str, value: String| {
        drop(annotations_set.insert(format!("{PREFIX}{key}"), value.into()));
    };
    for secret in &secrets {
        let name = short(secret.name, LONGEST);
        let path = format!("{}/data/{}", platform.mount, secret.path);
        set(&format!("agent-inject-template-{name}"), template(&path, &folder(secret)));
        set(&format!("agent-inject-secret-{name}"), path);
        set(&format!("agent-inject-file-{name}"), MARKER.to_owned());
        set(&format!("secret-volume-path-{name}"), folder(secret));
    }
    Json::Object(annotations_set)
}

/// Lets the Vault agent, where annotations ask for one, end before the pod begins: one that stays beside it would keep a
/// Job from ever ending.
pub(super) fn end_with_pod(annotations: &mut Map<String, Json>) {
    if annotations.contains_key(&format!("{PREFIX}agent-inject")) {
        annotations.insert(format!("{PREFIX}agent-pre-populate-only"), "true".into());
    }
}

/// Checks that the-deployer sets the annotation, because it names the secrets. Others tune the agent,
/// `vault.hashicorp.com/agent-limits-cpu`, and the app may set them.
pub(crate) fn is_ours(key: &str) -> bool {
    let prefixes = [
        "agent-inject-",
        "secret-volume-path",
        "role",
        "auth-path",
        "namespace",
        "agent-pre-populate-only",
        "agent-configmap",
        "agent-template-",
    ];
    let Some(name) = key.strip_prefix(PREFIX) else { return false };
    name == "agent-inject" || prefixes.iter().any(|start| name.starts_with(start))
}

/// Returns where the files of a secret are.
pub(crate) fn folder(secret: &NeededSecret<'_>) -> String {
    secret.folder.map_or_else(|| format!("{FOLDER}/{}", secret.name), str::to_owned)
}

/// Writes the agent's template for a secret's files: a key that could lead out of the folder is
/// passed over, as Kubernetes takes none either.
fn template(path: &str, folder: &str) -> String {
    let (path, folder) = (go_string(path), go_string(folder));
    format!(
        "{{{{- with secret {path} }}}}{{{{- range $key, $value := .Data.data }}}}\
         {{{{- if regexMatch \"^[-_a-zA-Z0-9][-._a-zA-Z0-9]*$\" $key }}}}\
         {{{{- printf \"%v\" $value | writeToFile (printf \"%s/%s\" {folder} $key) \"\" \"\" \"0644\" }}}}\
         {{{{- end }}}}{{{{- end }}}}{{{{- end }}}}"
    )
}

/// Writes a text as an interpreted string literal of Go (The Go Programming Language Specification,
/// "String literals").
fn go_string(text: &str) -> String {
    vault::quote(text, "/._-")
}

/// Lists the objects that make Kubernetes Secrets on the target: for each operator a list, empty
/// unless it is the one that delivers.
pub(super) fn objects(section: &Section, app: &AppKey, target: &Target) -> Json {
    let Secrets { delivery, vault, external } = &target.platform.secrets;
    let secrets: Json = collect_secrets(section, app).iter().map(object).collect();
    let only = |operator: Delivery| if *delivery == operator { secrets.clone() } else { json!([]) };
    json!({
        "external": only(Delivery::ExternalSecrets),
        "store": {"name": external.name, "kind": external.kind, "refresh": external.refresh},
        "static": only(Delivery::VaultSecretsOperator),
        "vault": without_nulls(json!({
            "role": vault::role(app, target), "auth": vault.auth, "mount": vault.mount,
            "namespace": vault.namespace, "connection": vault.connection, "refresh": vault.refresh,
        })),
        // A Job reads its secrets when it starts: there is nothing to restart.
        "restart": section.cron.is_none(),
    })
}

fn object(secret: &NeededSecret<'_>) -> Json {
    let patterns = |keys: &BTreeSet<&str>| -> Vec<String> {
        keys.iter().map(|key| format!("^{}$", key.replace('.', "\\."))).collect()
    };
    json!({
        "name": secret.name, "path": secret.path, "whole": secret.whole,
        "keys": secret.keys, "patterns": patterns(&secret.keys),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_code_of_a_template() {
        assert_eq!(go_string("/etc/db-1/a_b.c"), "\"/etc/db-1/a_b.c\"");
        for text in ["\"", "}}", "{{ file \"/x\" }}", "a\nb", "\\", "${x}", "`", "%s", "é\u{0}"] {
            let quoted = go_string(text);
            let inner = quoted.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
            assert!(
                inner.chars().all(|c| c.is_ascii_alphanumeric() || "/._-\\".contains(c)),
                "{quoted}"
            );
            assert_eq!(inner.matches('\\').count(), inner.matches("\\U").count(), "{quoted}");
        }
    }

    #[test]
    fn a_template_writes_each_key_below_the_folder() {
        let text = template("secret/data/n/a/db", "/etc/{{db}}");
        assert!(text.starts_with("{{- with secret \"secret/data/n/a/db\" }}"), "{text}");
        assert!(text.contains("(printf \"%s/%s\" \"/etc/\\U0000007b\\U0000007bdb"), "{text}");
        assert_eq!(text.matches("{{").count(), 7, "{text}");
    }
}
