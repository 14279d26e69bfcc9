//! The named forms of text in the schema (`format: slug`), and their rules.

use crate::model::id::{
    DeployId, IdError, ImageTag, Namespace, RepoName, RolloutName, Slug, TargetName, TemplateName,
    TemplateVersion, is_rfc1123_label,
};
use crate::support::secret_mask::mask_secrets;

/// Checks that a text has the form; returns the rule it breaks otherwise. Forms of other schemas pass.
pub(crate) fn check(format: &str, text: &str) -> Result<(), String> {
    let rule = |error: IdError| error.rule.to_owned();
    match format {
        "slug" => Slug::parse(text).map(drop).map_err(rule),
        "namespace" => Namespace::parse(text).map(drop).map_err(rule),
        "target" => TargetName::parse(text).map(drop).map_err(rule),
        "object-name" => object_name(text),
        "repository" => RepoName::parse(text).map(drop).map_err(rule),
        "image-tag" => ImageTag::parse(text).map(drop).map_err(rule),
        "deploy-id" => DeployId::parse(text).map(drop).map_err(rule),
        "rollout" => RolloutName::parse(text).map(drop).map_err(rule),
        "template" => template(text).map_err(rule),
        "line" => line(text),
        "email" => email(text),
        "url" => url(text),
        _ => Ok(()),
    }
}

/// Names the form in a reader's words.
pub(crate) fn article(format: &str) -> String {
    match format {
        "slug" => "a slug".to_owned(),
        "namespace" => "a namespace".to_owned(),
        "target" => "a target's name".to_owned(),
        "object-name" => "the name of a Kubernetes object".to_owned(),
        "repository" => "a repository, OWNER/NAME".to_owned(),
        "image-tag" => "an image tag".to_owned(),
        "deploy-id" => "a deploy id".to_owned(),
        "rollout" => "a rollout's name".to_owned(),
        "template" => "a template, NAME or NAME@VERSION".to_owned(),
        "line" => "one line of text".to_owned(),
        "email" => "an e-mail address".to_owned(),
        "url" => "an http or https address".to_owned(),
        _ => "text".to_owned(),
    }
}

fn template(text: &str) -> Result<(), IdError> {
    let (name, version) = text.split_once('@').unwrap_or((text, "latest"));
    TemplateName::parse(name)?;
    TemplateVersion::parse(version).map(drop)
}

/// Checks the form of most objects' names: RFC 1123 parts with dots between.
fn object_name(text: &str) -> Result<(), String> {
    let legal = text.len() <= 63 && text.split('.').all(is_rfc1123_label);
    let rule = "use 1 to 63 lower-case letters, digits, `-` and `.`, each part beginning and ending with a letter or digit";
    if legal { Ok(()) } else { Err(rule.to_owned()) }
}

fn line(text: &str) -> Result<(), String> {
    let legal = !text.trim().is_empty()
        && text.chars().count() <= 200
        && !text.chars().any(char::is_control);
    if legal { Ok(()) } else { Err("use 1 to 200 characters on one line".to_owned()) }
}

fn email(text: &str) -> Result<(), String> {
    let legal = text.len() <= 254
        && !text.chars().any(|c| c.is_control() || c.is_whitespace())
        // A password that was written here would be shown wherever the team is.
        && !text.contains(['/', ':']) && mask_secrets(text) == text
        && matches!(text.split_once('@'), Some((name, host)) if !name.is_empty() && !host.is_empty() && !host.contains('@'));
    if legal { Ok(()) } else { Err("use an address such as squad@example.com".to_owned()) }
}

fn url(text: &str) -> Result<(), String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let legal = text.len() <= 2000
        && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    if legal { Ok(()) } else { Err("use an address such as https://example.com/page".to_owned()) }
}
