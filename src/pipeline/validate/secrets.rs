//! Secrets that the app refers to exist, the app may read them, and they reach its pods as it needs them.
//!
//! The cluster decides where they are looked up: Kubernetes Secrets of the namespace, or Vault.

use std::collections::{BTreeMap, BTreeSet};

use super::unknown::{self, NeededFact};
use super::{RuleReport, Subject};
use crate::model::id::TargetName;
use crate::model::platform::secrets::Delivery;
use crate::model::platform::vault_path::VaultPath;
use crate::model::secret_key::is_secret_key;
use crate::model::target::Target;
use crate::model::violation::{Severity, Violation};
use crate::templates::view::delivery as agent;
use crate::templates::view::secrets::collect_secrets;
use crate::waml::node::Path;
use crate::waml::quote::{quote, quoted_reference};
use crate::waml::section_workload::{Secret, SecretKey};
use crate::waml::suggest;

/// The keys of each secret; `None` where there is no such secret.
type KnownSecrets = BTreeMap<String, Option<BTreeSet<String>>>;

/// Secrets that the app refers to exist, and have the keys that it names.
///
/// A secret that the app starts without (`optional: true`) is a warning.
pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(first) = first_use(subject) else { return };
    let what = "whether the secrets exist";
    let needed = NeededFact { rule: "secrets", what, path: Some(&first) };
    let Some(secrets_found) = needed.require_fact(&subject.facts.secrets, subject, report) else {
        return;
    };
    for (path, secret) in Path::root().each("secrets", &subject.section.secrets) {
        let optional = secret.optional.unwrap_or(false);
        if matches!(secrets_found.get(&secret.name), Some(None)) {
            report.add(&path.key("name"), no_secret(&secret.name, optional, subject));
        }
    }
    for (path, variable) in subject.section.variables() {
        if let Some(secret) = &variable.secret {
            key(secret, secrets_found, &path.key("secret"), subject, report);
        }
    }
}

fn key(
    secret: &SecretKey,
    secrets_found: &KnownSecrets,
    path: &Path,
    subject: &Subject<'_>,
    report: &mut RuleReport<'_>,
) {
    match secrets_found.get(&secret.name) {
        Some(None) => report.add(&path.key("name"), no_secret(&secret.name, false, subject)),
        // The rule `env` tells of keys that cannot exist.
        Some(Some(keys)) if is_secret_key(&secret.key) && !keys.contains(&secret.key) => {
            let age = unknown::age(&subject.facts.secrets, subject);
            let key = quoted_reference(&secret.key).unwrap_or_else(|| "of this name".to_owned());
            let message = format!("the secret `{}` has no key {key}{age}", secret.name);
            let help = suggest::hint(&secret.key, keys.iter().map(String::as_str));
            let violation = Violation::error("secrets", message).expected("no such key");
            report.add(&path.key("key"), violation.help(help));
        }
        Some(Some(_)) | None => {}
    }
}

fn no_secret(name: &str, optional: bool, subject: &Subject<'_>) -> Violation {
    let (wherein, remedy) = place(name, subject);
    let age = unknown::age(&subject.facts.secrets, subject);
    let message = format!("there is no secret `{name}`{wherein}{age}");
    let severity = if optional { Severity::Warning } else { Severity::Error };
    let violation = Violation { severity, ..Violation::error("secrets", message) };
    violation.expected("no such secret").help(format!("{remedy} first, or correct the name"))
}

/// Names the place of the lookup and the way out. In a cluster whose Secrets another program creates the service looks
/// in the cluster itself, or in the Vault that they are created from.
fn place(name: &str, subject: &Subject<'_>) -> (String, String) {
    let app = &subject.waml.app;
    let cluster = format!("create it in the namespace `{}` of the cluster", app.namespace);
    let secrets = subject.cluster.map(|target| &target.platform.secrets);
    let Some(secrets) = secrets
        .filter(|secret| secret.delivery != Delivery::Kubernetes || secret.vault.address.is_some())
    else {
        return (format!(" in the namespace `{}`", app.namespace), cluster);
    };
    let secrets_of_app = collect_secrets(subject.section, app);
    let secret = secrets_of_app.into_iter().find(|secret| secret.name == name);
    let path = secret.map(|secret| secret.path).unwrap_or_default();
    let vault = format!("write it to `{path}` of the engine `{}`", secrets.vault.mount);
    match secrets.delivery {
        Delivery::Kubernetes => (String::new(), format!("{vault} in Vault, or {cluster}")),
        _ => (" in Vault".to_owned(), vault),
    }
}

/// Finds where the first secret is named.
fn first_use(subject: &Subject<'_>) -> Option<Path> {
    let from_env = || {
        let mut env = subject.section.variables();
        let (path, _) = env.find(|(_, variable)| variable.secret.is_some())?;
        Some(path.key("secret"))
    };
    let has_secrets = subject.section.secrets.as_ref().is_some_and(|secrets| !secrets.is_empty());
    if has_secrets { Some(Path::root().key("secrets")) } else { from_env() }
}

/// Checks that every path in Vault is legal, and that the app may read it.
pub(super) fn vault(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    for (path, secret) in Path::root().each("secrets", &subject.section.secrets) {
        let Some(text) = &secret.path else { continue };
        let path = path.key("path");
        if check_path(text, &path, subject, &target, report)
            .is_some_and(|reference| !reference.is_plain())
        {
            let reference_text = quoted_reference(text).unwrap_or_else(|| "this".to_owned());
            let message = format!("{reference_text} stands for more than one secret");
            let violation = Violation::error("vault", message).expected("not one secret");
            report.add(&path, violation.help("write the path without `*` and `+`"));
        }
    }
    let Some(vault) = &subject.section.vault else { return };
    for (path, text) in Path::root().key("vault").each("paths", &vault.paths) {
        check_path(text, &path, subject, &target, report);
    }
    if !target.platform.secrets.vault.operator && subject.template.uses("vault") {
        let message = format!("nothing creates Vault roles for apps on `{}`", target.name);
        let violation = Violation::warning("vault", message).expected("without effect");
        let help = "ask the operator for the right to read these paths";
        report.add(&Path::root().key("vault"), violation.help(help));
    }
}

fn check_path<'a>(
    text: &'a str,
    path: &Path,
    subject: &Subject<'_>,
    target: &Target,
    report: &mut RuleReport<'_>,
) -> Option<VaultPath<'a>> {
    let app = &subject.waml.app;
    let reference_text = quoted_reference(text).unwrap_or_else(|| "this".to_owned());
    let violation = match VaultPath::parse(text) {
        // Whose a path is goes by the namespace.
        Ok(reference) if subject.waml.stands_in => return Some(reference),
        Ok(reference) if target.platform.secrets.vault.allows(app, reference) => return Some(reference),
        Ok(_) => Violation::error("vault", format!("`{app}` may not read {reference_text}"))
            .expected("not this namespace's")
            .help(format!(
                "use a path below `{}/`; what is shared, the operator lists in `platform.secrets.vault.shared`",
                app.namespace
            )),
        Err(rule) => Violation::error("vault", format!("{reference_text} is not a path in Vault"))
            .expected("not a path in Vault")
            .help(rule),
    };
    report.add(path, violation);
    None
}

/// The kinds of delivery that bring environment variables, too.
const OTHERS: &str = "`kubernetes`, `external-secrets` or `vault-secrets-operator`";

/// Checks that the target's way of delivering secrets can do what the app needs: the Vault agent brings files, and no
/// environment variables.
pub(super) fn delivery(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    if target.platform.secrets.delivery != Delivery::VaultAgent {
        return;
    }
    variables(subject, &target.name, report);
    for (path, secret) in Path::root().each("secrets", &subject.section.secrets) {
        check_secret(secret, &path, &target.name, report);
    }
    for key in subject.section.annotations.iter().flatten().map(|(key, _)| key) {
        if agent::is_ours(key) {
            let message = format!("{} is set by the-deployer on `{}`", quote(key), target.name);
            let violation = Violation::error("delivery", message).expected("cannot be set here");
            let help = "list the secret under `secrets`; its `path` says where it is in Vault";
            report.add(&Path::root().key("annotations").key(key), violation.help(help));
        }
    }
}

fn variables(subject: &Subject<'_>, target: &TargetName, report: &mut RuleReport<'_>) {
    let secrets = collect_secrets(subject.section, &subject.waml.app);
    for (path, variable) in subject.section.variables() {
        let Some(from) = &variable.secret else { continue };
        let folder = secrets.iter().find(|secret| secret.name == from.name).map(agent::folder);
        let file = format!("{}/{}", folder.unwrap_or_default(), from.key);
        let name = quote(&variable.name);
        let message = format!("{name} cannot come from a secret on `{target}`");
        let violation = Violation::error("delivery", message)
            .expected("the Vault agent brings files only")
            .help(format!(
                "list {} under `secrets` and read the file {}, or use a target that delivers by {OTHERS}",
                quote(&from.name),
                quote(&file)
            ));
        report.add(&path.key("secret"), violation);
    }
}

fn check_secret(secret: &Secret, path: &Path, target: &TargetName, report: &mut RuleReport<'_>) {
    let name = quote(&secret.name);
    if secret.mount_path.is_none() {
        let message = format!("the keys of {name} are files on `{target}`, not variables");
        let violation = Violation::warning("delivery", message).expected("becomes files");
        let help = format!(
            "read them below {}/{}, or set `mountPath` to another folder",
            agent::FOLDER,
            secret.name
        );
        report.add(path, violation.help(help));
    }
    if secret.optional == Some(true) {
        let message = format!("no pod starts without {name} on `{target}`");
        let violation = Violation::warning("delivery", message).expected("without effect");
        let help = "see that it is in Vault: the Vault agent waits for it";
        report.add(&path.key("optional"), violation.help(help));
    }
}
