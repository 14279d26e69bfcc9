//! Cloud roles are well formed, not too broad, and available on the target.

use super::{RuleReport, Subject};
use crate::model::id::TargetName;
use crate::model::platform::cloud::{Cloud, Provider};
use crate::model::violation::Violation;
use crate::templates::view::iam::aws_role;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_operations::Iam;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(iam) = &subject.section.iam else { return };
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    let iam_path = Path::root().key("iam");
    let cloud = &target.platform.cloud;
    for (path, role) in iam_path.each("roles", &iam.roles) {
        google_role(role, cloud, &target.name, &path, report);
    }
    if let Some(arn) = iam.aws_role.as_deref().filter(|arn| !is_role_arn(arn)) {
        let message = format!("{} is not the ARN of a role", quote(arn));
        let violation = Violation::error("iam", message).expected("not the ARN of a role");
        let help = "write it like `arn:aws:iam::123456789012:role/my-app`";
        report.add(&iam_path.key("awsRole"), violation.help(help));
    }
    if subject.template.uses("iam") {
        match cloud.provider {
            Provider::None => {
                without_effect(&iam_path, "iam", &target.name, "has no cloud", report);
            }
            Provider::Gcp if iam.aws_role.is_some() => {
                let path = iam_path.key("awsRole");
                without_effect(&path, "awsRole", &target.name, "is in Google's cloud", report);
            }
            Provider::Gcp => {}
            Provider::Aws => amazon(iam, subject, cloud, report),
        }
    }
}

fn google_role(
    role: &str,
    cloud: &Cloud,
    target: &TargetName,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let role_text = quote(role);
    let violation = if !is_google_role(role) {
        Violation::error("iam", format!("{role_text} is not a role of Google's cloud"))
            .expected("not a role")
            .help("write it like `roles/pubsub.publisher`, `projects/PROJECT/roles/NAME` or `organizations/NUMBER/roles/NAME`")
    } else if !cloud.gcp.allows(role) {
        Violation::error("iam", format!("apps may not have the role {role_text} on `{target}`"))
            .expected("not for apps")
            .help("use roles for just what the app does, `roles/pubsub.publisher`; the operator lists what is allowed in `platform.cloud.gcp.roles`")
    } else {
        return;
    };
    report.add(path, violation);
}

fn amazon(iam: &Iam, subject: &Subject<'_>, cloud: &Cloud, report: &mut RuleReport<'_>) {
    let iam_path = Path::root().key("iam");
    if iam.roles.iter().flatten().next().is_some() {
        without_effect(
            &iam_path.key("roles"),
            "roles",
            subject.target,
            "is in Amazon's cloud",
            report,
        );
    }
    let name = subject.target;
    let violation = match aws_role(subject.section, &subject.waml.app, cloud) {
        None => Violation::error("iam", format!("the app has no role on `{name}`"))
            .expected("needs `awsRole`")
            .help("add `awsRole: arn:aws:iam::123456789012:role/my-app`"),
        Some(arn) if iam.aws_role.is_none() && !is_role_arn(&arn) => {
            let message = format!("{} is not the ARN of a role", quote(&arn));
            Violation::error("iam", message).expected("needs `awsRole`").help(
                "the operator's `platform.cloud.aws.role` gives no valid role for this app; set `awsRole`",
            )
        }
        Some(_) => return,
    };
    report.add(&iam_path, violation);
}

fn without_effect(
    path: &Path,
    what: &str,
    target: &TargetName,
    why: &str,
    report: &mut RuleReport<'_>,
) {
    let message = format!("`{what}` has no effect on `{target}`, which {why}");
    let violation = Violation::warning("iam", message).expected("without effect");
    let help = format!("set `{what}` only for targets that use it, or leave it as it is");
    report.add(path, violation.help(help));
}

/// Checks a role by Google Cloud, IAM, "Roles and permissions": predefined ones, and custom ones of
/// a project or an organization.
fn is_google_role(text: &str) -> bool {
    let words = |name: &str, extra: &[u8]| {
        (3..=100).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
    };
    match text.split('/').collect::<Vec<_>>()[..] {
        ["roles", name] => words(name, b".") && name.split('.').all(|part| !part.is_empty()),
        ["projects", project, "roles", name] => is_project(project) && words(name, b"._"),
        ["organizations", number, "roles", name] => {
            !number.is_empty()
                && number.len() <= 20
                && number.bytes().all(|b| b.is_ascii_digit())
                && words(name, b"._")
        }
        _ => false,
    }
}

/// Checks that it is 6 to 30 lower-case letters, digits and hyphens, beginning with a letter.
fn is_project(text: &str) -> bool {
    (6..=30).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Checks a role by AWS, IAM, "IAM ARNs": partition, account of twelve digits, path and name.
fn is_role_arn(text: &str) -> bool {
    let ["arn", partition, "iam", "", account, role] = text.splitn(6, ':').collect::<Vec<_>>()[..]
    else {
        return false;
    };
    let is_name = role.strip_prefix("role/").is_some_and(|rest| {
        let name = rest.rsplit('/').next().unwrap_or_default();
        (1..=64).contains(&name.len())
            && rest.len() <= 512
            && rest.split('/').all(|part| !part.is_empty())
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"+=,.@_-/".contains(&b))
    });
    matches!(partition, "aws" | "aws-cn" | "aws-us-gov")
        && account.len() == 12
        && account.bytes().all(|b| b.is_ascii_digit())
        && is_name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_one_of_three_forms() {
        for role in [
            "roles/pubsub.publisher",
            "roles/browser",
            "roles/storage.objectViewer",
            "projects/acme-prod/roles/my_role.1",
            "organizations/123456/roles/deployer",
        ] {
            assert!(is_google_role(role), "{role}");
        }
        for role in [
            "",
            "pubsub.publisher",
            "roles/",
            "roles/a/b",
            "roles/.x.",
            "roles/a b.c",
            "projects/x/roles/abc",
            "projects/acme-prod/roles/",
            "organizations/acme/roles/abc",
            "roles/pubsub.publisher\n",
            "roles/é.xyz",
            "folders/1/roles/abc",
        ] {
            assert!(!is_google_role(role), "{role:?}");
        }
    }

    #[test]
    fn an_arn_names_a_role_of_an_account() {
        for arn in
            ["arn:aws:iam::123456789012:role/my-app", "arn:aws-cn:iam::123456789012:role/a/b/c"]
        {
            assert!(is_role_arn(arn), "{arn}");
        }
        for arn in [
            "",
            "my-app",
            "arn:aws:iam::12345:role/a",
            "arn:aws:iam::123456789012:user/a",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:s3::123456789012:role/a",
            "arn:aws:iam::123456789012:role//a",
            "arn:aws:iam::123456789012:role/{slug}",
        ] {
            assert!(!is_role_arn(arn), "{arn}");
        }
    }
}
