//! Secrets that the app refers to exist, and have the keys that it names.
//!
//! Where they are looked for is the cluster's affair: Kubernetes Secrets of the namespace, or
//! Vault. A secret that the app starts without (`optional: true`) is a warning.

use std::collections::{BTreeMap, BTreeSet};

use super::unknown::{self, Wanted};
use super::{Report, Subject, legal};
use crate::model::platform::secrets::Delivery;
use crate::model::violation::{Severity, Violation};
use crate::templates::view::secrets::{Wanted as Named, wanted};
use crate::waml::confidential::quoted_reference;
use crate::waml::node::Path;
use crate::waml::section_workload::SecretKey;
use crate::waml::suggest;

const RULE: &str = "secrets";

/// The keys of each secret; `None` where there is no such secret.
type Found = BTreeMap<String, Option<BTreeSet<String>>>;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(first) = first_use(subject) else { return };
    let what = "whether the secrets exist";
    let wanted = Wanted { rule: RULE, what, path: Some(&first) };
    let Some(found) = unknown::known(&subject.facts.secrets, &wanted, subject, report) else {
        return;
    };
    for (index, secret) in subject.section.secrets.iter().flatten().enumerate() {
        let path = Path::root().key("secrets").index(index).key("name");
        let optional = secret.optional.unwrap_or(false);
        if matches!(found.get(&secret.name), Some(None)) {
            report.add(&path, no_secret(&secret.name, optional, subject));
        }
    }
    for (index, variable) in subject.section.env.iter().flatten().enumerate() {
        if let Some(secret) = &variable.secret {
            let path = Path::root().key("env").index(index).key("secret");
            key(secret, found, &path, subject, report);
        }
    }
}

fn key(
    secret: &SecretKey,
    found: &Found,
    path: &Path,
    subject: &Subject<'_>,
    report: &mut Report<'_>,
) {
    match found.get(&secret.name) {
        Some(None) => report.add(&path.key("name"), no_secret(&secret.name, false, subject)),
        // The rule `env` tells of keys that cannot exist.
        Some(Some(keys)) if legal::is_secret_key(&secret.key) && !keys.contains(&secret.key) => {
            let age = unknown::age(&subject.facts.secrets, subject);
            let key = quoted_reference(&secret.key).unwrap_or_else(|| "of this name".to_owned());
            let message = format!("the secret `{}` has no key {key}{age}", secret.name);
            let help = suggest::hint(&secret.key, keys.iter().map(String::as_str));
            let violation = Violation::error(RULE, message).expected("no such key");
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
    let violation = Violation { severity, ..Violation::error(RULE, message) };
    violation.expected("no such secret").help(format!("{remedy} first, or correct the name"))
}

/// Where it was looked for, and what to do. A cluster whose Secrets somebody else makes may be looked
/// at itself, or the Vault that they are made from.
fn place(name: &str, subject: &Subject<'_>) -> (String, String) {
    let app = &subject.waml.app;
    let cluster = format!("have it made in the namespace `{}` of the cluster", app.namespace);
    let secrets = subject.cluster.map(|target| &target.platform.secrets);
    let Some(secrets) =
        secrets.filter(|one| one.delivery != Delivery::Kubernetes || one.vault.address.is_some())
    else {
        return (format!(" in the namespace `{}`", app.namespace), cluster);
    };
    let all = wanted(subject.section, app);
    let named = all.into_iter().find(|secret: &Named<'_>| secret.name == name);
    let path = named.map(|secret| secret.path).unwrap_or_default();
    let vault = format!("write it to `{path}` of the engine `{}`", secrets.vault.mount);
    match secrets.delivery {
        Delivery::Kubernetes => (String::new(), format!("{vault} in Vault, or {cluster}")),
        _ => (" in Vault".to_owned(), vault),
    }
}

/// Where the first secret is named.
fn first_use(subject: &Subject<'_>) -> Option<Path> {
    let from_env = || {
        let mut env = subject.section.env.iter().flatten();
        let index = env.position(|variable| variable.secret.is_some())?;
        Some(Path::root().key("env").index(index).key("secret"))
    };
    let any = subject.section.secrets.as_ref().is_some_and(|secrets| !secrets.is_empty());
    if any { Some(Path::root().key("secrets")) } else { from_env() }
}
