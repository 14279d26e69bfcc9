//! How secrets reach pods on the target can do what the app wants of it: the Vault agent brings
//! files, and no environment variables.

use super::{Report, Subject};
use crate::model::id::TargetName;
use crate::model::platform::secrets::Delivery;
use crate::model::violation::Violation;
use crate::templates::view::{agent, secrets};
use crate::waml::node::Path;
use crate::waml::section_workload::Secret;
use crate::waml::typed::quoted;

/// What brings environment variables, too.
const OTHERS: &str = "`kubernetes`, `external-secrets` or `vault-secrets-operator`";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    if target.platform.secrets.delivery != Delivery::VaultAgent {
        return;
    }
    variables(subject, &target.name, report);
    for (index, secret) in subject.section.secrets.iter().flatten().enumerate() {
        listed(secret, &Path::root().key("secrets").index(index), &target.name, report);
    }
    for key in subject.section.annotations.iter().flatten().map(|(key, _)| key) {
        if agent::is_ours(key) {
            let message = format!("{} is set by the-deployer on `{}`", quoted(key), target.name);
            let violation = Violation::error("delivery", message).expected("not yours to set");
            let help = "list the secret under `secrets`; its `path` says where it is in Vault";
            report.add(&Path::root().key("annotations").key(key), violation.help(help));
        }
    }
}

fn variables(subject: &Subject<'_>, target: &TargetName, report: &mut Report<'_>) {
    let wanted = secrets::wanted(subject.section, &subject.waml.app);
    for (index, variable) in subject.section.env.iter().flatten().enumerate() {
        let Some(from) = &variable.secret else { continue };
        let folder = wanted.iter().find(|secret| secret.name == from.name).map(agent::folder);
        let file = format!("{}/{}", folder.unwrap_or_default(), from.key);
        let name = quoted(&variable.name);
        let message = format!("{name} cannot come from a secret on `{target}`");
        let violation = Violation::error("delivery", message)
            .expected("the Vault agent brings files only")
            .help(format!(
                "list {} under `secrets` and read the file {}, or use a target that delivers by {OTHERS}",
                quoted(&from.name),
                quoted(&file)
            ));
        report.add(&Path::root().key("env").index(index).key("secret"), violation);
    }
}

fn listed(secret: &Secret, path: &Path, target: &TargetName, report: &mut Report<'_>) {
    let name = quoted(&secret.name);
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
