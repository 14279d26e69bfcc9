//! No rendered object holds a secret in plain text: manifests are read by many, and kept for ever.
//!
//! A text that is certainly a secret (tokens of a known form, private keys, passwords in URLs, values of a Secret) is
//! an error. A text that may be public after all (keys of browsers' APIs, signed tokens, variables and arguments with
//! the name of a secret) is a warning. A variable with `plain: true` is skipped, and so is an argument that has the
//! value of one. No message shows the text.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use super::{RenderedPlan, RuleReport};
use crate::manifests::object::Object;
use crate::model::violation::{Severity, Violation};
use crate::support::secret_text::{
    SecretMatch, find_in_arguments, find_named_secret, find_secrets, is_value,
};
use crate::waml::node::{Node, Path};
use crate::waml::quote::quote;

const RULE: &str = "plaintext";

pub(super) fn check(rendered_plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let values = |is_plain: bool| -> HashSet<&str> {
        let env = rendered_plan.valid.section().variables();
        let variables = env
            .map(|(_, variable)| variable)
            .filter(|variable| (variable.plain == Some(true)) == is_plain);
        variables.filter_map(|variable| variable.value.as_deref()).collect()
    };
    // Of two variables with one value, that one may be no secret says nothing of the other.
    let plain: HashSet<&str> = values(true).difference(&values(false)).copied().collect();
    let mut reported = Vec::new();
    for object in rendered_plan.objects {
        if object.kind() == "Secret" && object.text(["apiVersion", ""]) == "v1" {
            values_of_a_secret(object, report);
            continue;
        }
        let mut search = Search { plain: &plain, found: Vec::new() };
        search.map(&object.json, &mut String::new());
        for (path, secret) in search.found {
            if !reported.contains(&secret.text) {
                reported.push(secret.text);
                report_plain_secret(object, &path, secret, rendered_plan.valid.tree(), report);
            }
        }
    }
}

fn values_of_a_secret(object: &Object, report: &mut RuleReport<'_>) {
    let parts = ["data", "stringData"].into_iter().filter_map(|part| object.json.get(part));
    if parts.filter_map(Json::as_object).any(|values| !values.is_empty()) {
        let name = quote(object.name());
        let message = format!("Secret {name} has its values in it ({})", object.source);
        report.say(Violation::error(RULE, message).help(
            "keep secrets in Vault or in the cluster, and let the template only refer to them",
        ));
    }
}

/// The search through all texts of an object.
struct Search<'p, 'o> {
    plain: &'p HashSet<&'p str>,
    found: Vec<(String, SecretMatch<'o>)>,
}

impl<'o> Search<'_, 'o> {
    fn map(&mut self, map: &'o Map<String, Json>, path: &mut String) {
        if let (Some(name), Some(Json::String(value))) =
            (map.get("name").and_then(Json::as_str), map.get("value"))
            && find_secrets(value).is_empty()
            && let Some(secret) = find_named_secret(name, value)
        {
            self.add(&format!("{path}.value"), value, secret);
        }
        for (key, value) in map {
            let before = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            self.value(value, path);
            path.truncate(before);
        }
    }

    fn value(&mut self, value: &'o Json, path: &mut String) {
        match value {
            Json::String(text) => {
                for secret in find_secrets(text) {
                    self.add(path, text, secret);
                }
            }
            Json::Object(map) => self.map(map, path),
            Json::Array(list) => {
                let texts: Vec<&str> =
                    list.iter().map(|item| item.as_str().unwrap_or_default()).collect();
                for (index, secret) in find_in_arguments(&texts) {
                    let argument = texts.get(index).copied().unwrap_or_default();
                    if is_value(secret.text) && find_secrets(argument).is_empty() {
                        self.add(&format!("{path}[{index}]"), argument, secret);
                    }
                }
                for (index, value) in list.iter().enumerate() {
                    let before = path.len();
                    path.push_str(&format!("[{index}]"));
                    self.value(value, path);
                    path.truncate(before);
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    fn add(&mut self, path: &str, text: &str, secret: SecretMatch<'o>) {
        if !self.plain.contains(text) && !self.plain.contains(secret.text) {
            self.found.push((path.to_owned(), secret));
        }
    }
}

fn report_plain_secret(
    object: &Object,
    at: &str,
    secret_match: SecretMatch<'_>,
    tree: &Node,
    report: &mut RuleReport<'_>,
) {
    let name = quote(object.name());
    let what = secret_match.what;
    let message = format!("{what} would stand in plain text in {} {name} at `{at}`", object.kind());
    let severity = if secret_match.certain { Severity::Error } else { Severity::Warning };
    let is_argument = secret_match.what.starts_with("an argument");
    let secret = if is_argument {
        "put `$(NAME)` in its place, and add the variable `{name: NAME, secret: {name: …, key: …}}`"
    } else {
        "take it from a secret: `secret: {name: …, key: …}`"
    };
    let no_secret = if is_argument {
        "if it is no secret, say so: `{name: NAME, value: …, plain: true}`"
    } else {
        "if it is no secret, say so: `plain: true` beside the variable's `value`"
    };
    let help = if secret_match.certain {
        format!("{secret}; it was in a repository and must be replaced")
    } else {
        format!("{secret}, or {no_secret}")
    };
    let violation = Violation { severity, ..Violation::error(RULE, message) };
    let violation = violation.expected("looks like a secret").help(help);
    match find_in_settings(tree, secret_match.text) {
        Some(path) => report.add(&path, violation),
        None => report.say_of(object, at, violation),
    }
}

/// Finds where the settings have the text.
fn find_in_settings(tree: &Node, text: &str) -> Option<Path> {
    let mut place = None;
    tree.leaves(&mut Path::root(), &mut |path, leaf| {
        if place.is_none() && leaf.as_text().is_some_and(|leaf_text| leaf_text.contains(text)) {
            place = Some(path.clone());
        }
    });
    place
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
