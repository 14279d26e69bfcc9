//! What is asked for in Vault has a legal path, and is the app's to read.

use super::{Report, Subject};
use crate::model::platform::vault_path::VaultPath;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::waml::confidential::quoted_reference;
use crate::waml::node::Path;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    for (index, secret) in subject.section.secrets.iter().flatten().enumerate() {
        let Some(text) = &secret.path else { continue };
        let path = Path::root().key("secrets").index(index).key("path");
        if check_path(text, &path, subject, &target, report).is_some_and(|found| !found.is_plain())
        {
            let shown = quoted_reference(text).unwrap_or_else(|| "this".to_owned());
            let message = format!("{shown} stands for more than one secret");
            let violation = Violation::error("vault", message).expected("not one secret");
            report.add(&path, violation.help("write the path without `*` and `+`"));
        }
    }
    let Some(vault) = &subject.section.vault else { return };
    for (index, text) in vault.paths.iter().flatten().enumerate() {
        let path = Path::root().key("vault").key("paths").index(index);
        check_path(text, &path, subject, &target, report);
    }
    if !target.platform.secrets.vault.operator && subject.template.uses("vault") {
        let message = format!("nobody makes roles in Vault for apps on `{}`", target.name);
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
    report: &mut Report<'_>,
) -> Option<VaultPath<'a>> {
    let app = &subject.waml.app;
    let shown = quoted_reference(text).unwrap_or_else(|| "this".to_owned());
    let violation = match VaultPath::parse(text) {
        // Whose a path is goes by the namespace.
        Ok(found) if subject.waml.stands_in => return Some(found),
        Ok(found) if target.platform.secrets.vault.allows(app, found) => return Some(found),
        Ok(_) => Violation::error("vault", format!("{shown} is not `{app}`'s to read"))
            .expected("not this namespace's")
            .help(format!(
                "use a path below `{}/`; what is shared, the operator lists in `platform.secrets.vault.shared`",
                app.namespace
            )),
        Err(rule) => Violation::error("vault", format!("{shown} is not a path in Vault"))
            .expected("not a path in Vault")
            .help(rule),
    };
    report.add(path, violation);
    None
}
