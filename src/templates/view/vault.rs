//! The role of an app in Vault, and the policy with the paths that it may read.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::model::id::AppKey;
use crate::model::platform::cloud::{Identities, named_for};
use crate::model::target::Target;
use crate::templates::view::secrets::collect_secrets;
use crate::templates::view::{naming, without_nulls};
use crate::waml::section::Section;

/// The limit of a name in Vault; Vault itself takes longer ones.
const LONGEST: usize = 63;

/// Names an app's role in the auth method of its cluster.
pub(super) fn role(app: &AppKey, target: &Target) -> String {
    let pattern = target.platform.secrets.vault.role.as_deref();
    pattern.map_or_else(|| naming::unique(&target.name, app, LONGEST), |p| named_for(p, app))
}

/// Builds the objects for Vault; null where the app needs none or no operator creates them.
pub(super) fn build_vault_view(section: &Section, app: &AppKey, target: &Target) -> Json {
    let platform = &target.platform.secrets;
    let by_delivery = platform.delivery.needs_role() && !collect_secrets(section, app).is_empty();
    let is_wanted =
        section.vault.is_some() || by_delivery || platform.vault.roles == Identities::EveryApp;
    if !platform.vault.operator || !is_wanted {
        return Json::Null;
    }
    let login = &platform.vault.operator_login;
    without_nulls(json!({
        "paths": section.vault.as_ref().and_then(|vault| vault.paths.clone()),
        "role": role(app, target),
        "policy": {
            // Policies are Vault's, not the cluster's: several clusters may share one Vault.
            "name": naming::unique(&target.name, app, LONGEST),
            "text": policy(&platform.vault.mount, &list_readable_paths(section, app)),
        },
        "auth": platform.vault.auth,
        "login": {
            "path": login.path.as_ref().unwrap_or(&platform.vault.auth),
            "role": login.role,
            "serviceAccount": {"name": login.service_account},
            "namespace": platform.vault.namespace,
        },
    }))
}

/// Lists the paths that an app may read, each once: all below its own, its secrets, and
/// `vault.paths`.
fn list_readable_paths(section: &Section, app: &AppKey) -> Vec<String> {
    let own_folder = format!("{}/{}/", app.namespace, app.slug);
    let mut paths = vec![format!("{own_folder}*")];
    let secrets = collect_secrets(section, app).into_iter().map(|secret| secret.path);
    let extra_paths = section.vault.iter().flat_map(|vault| vault.paths.iter().flatten().cloned());
    for path in secrets.chain(extra_paths) {
        if !path.starts_with(&own_folder) && !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Writes a policy in HCL that allows to read these paths of a key-value engine of version 2.
fn policy(mount: &str, paths: &[String]) -> String {
    let mut text = String::new();
    for path in paths {
        for (part, may) in [("data", "\"read\""), ("metadata", "\"read\", \"list\"")] {
            let full_path = hcl_string(&format!("{}/{part}/{path}", mount.trim_matches('/')));
            let _ = write!(text, "path {full_path} {{\n  capabilities = [{may}]\n}}\n");
        }
    }
    text
}

/// Writes a string of HCL. The rule `vault` lets only paths through that need no escape; this one keeps the operator's
/// mount inside its quotes, too.
fn hcl_string(text: &str) -> String {
    quote(text, "/._-+*")
}

/// Writes a text in quotes, all but letters, digits and the `plain` characters escaped by number,
/// as HCL and Go read it alike.
pub(super) fn quote(text: &str, plain: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || plain.contains(c) {
            out.push(c);
        } else {
            let _ = write!(out, "\\U{:08x}", u32::from(c));
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_both_faces_of_a_secret_and_writes_neither() {
        assert_eq!(
            policy("kv", &["devx/my-app/*".to_owned()]),
            "path \"kv/data/devx/my-app/*\" {\n  capabilities = [\"read\"]\n}\n\
             path \"kv/metadata/devx/my-app/*\" {\n  capabilities = [\"read\", \"list\"]\n}\n"
        );
    }

    #[test]
    fn nothing_leaves_the_quotes_of_a_policy() {
        let hostile = "\"] }\npath \"*\" { capabilities = [\"sudo\"] } # ${x} {{identity.y}}";
        let text = policy("secret", &[hostile.to_owned()]);
        assert_eq!(text.matches("path \"").count(), 2, "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(!text.contains("${") && !text.contains("{{") && !text.contains('#'), "{text}");
    }
}
