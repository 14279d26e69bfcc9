//! Masks secrets in a configuration, so that it can be shown. Pure.
//!
//! Secrets belong into files and variables of their own; one that is in the configuration by mistake, or under a
//! mistyped key, must not appear in the message about it.

use std::collections::HashMap;
use std::ops::Range;

use crate::config::report::RULE;
use crate::model::violation::{Position, Violation};
use crate::support::secret_mask::mask_values;
use crate::support::secret_text::has_credentials;
use crate::support::text::with_line_feeds;
use crate::waml::node::{Node, Path, Step};
use crate::waml::yaml::{self, Budget};

/// Returns the file's text with stars for possible secrets; positions stay the same.
pub(super) fn mask_secrets(file: &str, text: &str) -> String {
    let text = &with_line_feeds(text);
    // First by the text alone: a text that is not YAML has no nodes, and a value may begin on another line than its
    // key.
    let by_text = mask_values(text, &(0..0));
    let Some(root) = yaml::parse(file, text.as_bytes(), &Budget::default(), &mut Vec::new()) else {
        return by_text.into_owned();
    };
    let mut places: HashMap<u32, Vec<Range<u32>>> = HashMap::new();
    root.leaves(&mut Path::root(), &mut |path, node| {
        let is_secret = |value| is_secret_place(path) || has_credentials(value) || is_slacks(value);
        if node.as_text().is_some_and(is_secret) {
            let Position { line, column, length, .. } = node.origin.position;
            places.entry(line).or_default().push(column..column.saturating_add(length));
        }
    });
    // Values from aliases are not in the order of the line.
    for spans in places.values_mut() {
        spans.sort_by_key(|span| span.start);
    }
    let line = |(line, number)| mask_columns(line, places.get(&number).map_or(&[], Vec::as_slice));
    by_text.split_inclusive('\n').zip(1..).map(line).collect()
}

/// Reports secrets in places that should name a file or a variable, before the reader quotes them.
pub(super) fn refuse_plain_secrets(root: &mut Node, violations: &mut Vec<Violation>) {
    let mut paths = Vec::new();
    root.leaves(&mut Path::root(), &mut |path, node| {
        let wants_a_place = match keys(path).as_slice() {
            ["manifests" | "templates", .., "ssh", "key"]
            | ["manifests", .., "signing", "key" | "passphrase"]
            | ["auth", "tokens"]
            | ["notify", "bigquery", "key"]
            | ["notify", "bigquery", "key", "private_key"] => true,
            ["forge" | "manifests" | "templates", .., last] => {
                matches!(*last, "token" | "webhook_secret" | "private_key")
            }
            ["clusters", "kubernetes" | "agent", last] | ["clusters", "lookups", .., last] => {
                *last == "token"
            }
            ["clusters", "argocd", "webhook", last] | ["notify", "webhooks", last] => {
                *last == "secret"
            }
            ["registries", last] => *last == "password",
            ["gates", .., last] => *last == "token",
            ["notify", "slack", last] => matches!(*last, "token" | "webhook" | "signing_secret"),
            ["outbound", last] => *last == "proxy_password",
            _ => false,
        };
        if wants_a_place && node.as_text().is_some() {
            paths.push(path.clone());
        }
    });
    for path in paths {
        let Some(node) = at_mut(root, &path) else { continue };
        node.broken = true;
        let message = format!("`{path}` holds a secret itself");
        let violation = Violation::error(RULE, message)
            .expected("a secret does not belong here")
            .help("put it into a file or a variable, and write `{file: PATH}` or `{env: NAME}`");
        violations.push(violation.at(path.to_string(), Some(node.origin.position.clone())));
    }
}

/// Returns whether the text is an address of a Slack webhook, or a Slack token: either lets everybody write who sees
/// it.
fn is_slacks(text: &str) -> bool {
    text.contains("://hooks.slack") || text.starts_with("xox")
}

/// Returns whether the place is under a key that names a secret, and does not say where the secret is.
fn is_secret_place(path: &Path) -> bool {
    let keys = keys(path);
    let names_one = |key: &&str| {
        let key = key.to_ascii_lowercase();
        key != "tokens"
            && key != "secrets"
            && ["token", "secret", "passw", "private_key"].iter().any(|word| key.contains(word))
    };
    match keys.last() {
        Some(&("file" | "env" | "sha256" | "name")) => false,
        Some(&"tokens") => true,
        _ if keys.starts_with(&["notify", "slack", "webhook"]) => true,
        // A key file has a private key among other things.
        _ if keys.starts_with(&["notify", "bigquery", "key"]) => true,
        _ if keys.ends_with(&["ssh", "key"]) || keys.ends_with(&["signing", "key"]) => true,
        _ => keys.iter().any(names_one),
    }
}

fn keys(path: &Path) -> Vec<&str> {
    let steps = path.0.iter().filter_map(|step| match step {
        Step::Key(key) => Some(&**key),
        Step::Index(_) => None,
    });
    steps.collect()
}

/// Replaces these columns of the line, which are in its order, by stars.
fn mask_columns(line: &str, spans: &[Range<u32>]) -> String {
    let mut spans = spans.iter().peekable();
    let mut until = 0;
    let star = |(c, column): (char, u32)| {
        while let Some(span) = spans.next_if(|span| span.start <= column) {
            until = until.max(span.end);
        }
        if c != '\n' && column < until { '*' } else { c }
    };
    line.chars().zip(1..).map(star).collect()
}

fn at_mut<'n>(root: &'n mut Node, path: &Path) -> Option<&'n mut Node> {
    use crate::waml::node::Value;
    path.0.iter().try_fold(root, |node, step| match (step, &mut node.value) {
        (Step::Key(key), Value::Map(map)) => map.get_mut(&**key).map(|entry| &mut entry.node),
        (Step::Index(index), Value::List(list)) => list.get_mut(*index),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_starred_and_everything_else_stays() {
        let text = "forge:\n  github:\n    token: ghp_x # mine\n    webhook_secret: {file: /a, vlaue: abc}\n\
                    auth: {tokens: [{name: ci, token: xyz}]}\nurl: \"https://me:pw@host/é\"\nlookups: {secrets: vault}\nplain: ok\n";
        let expected = "forge:\n  github:\n    token: ***** # mine\n    webhook_secret: {file: /a, vlaue: ***}\n\
                        auth: {tokens: [{name: ci, token: ***}]}\nurl: **********************\nlookups: {secrets: vault}\nplain: ok\n";
        let masked = mask_secrets("f", text);
        assert!(
            !["ghp_x", "abc", "xyz", "pw"].iter().any(|secret| masked.contains(secret)),
            "{masked}"
        );
        assert_eq!(masked.chars().count(), text.chars().count(), "places stay where they are");
        assert_eq!(masked, expected);
    }

    #[test]
    fn credentials_are_seen_in_addresses_only() {
        for text in
            ["https://a@b", "postgres://u:p@h/d", "postgres://h/d?password=x", "ssh://a:b@h/x"]
        {
            assert!(has_credentials(text), "{text}");
        }
        for text in
            ["a@example.com", "https://host/a@b", "https://host?a@b", "git@host:x", "ssh://git@h/x"]
        {
            assert!(!has_credentials(text), "{text}");
        }
    }
}
