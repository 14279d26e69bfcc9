//! Masks secrets in data: settings, and Kubernetes objects. A value is a secret by its key, or by its form.
//!
//! References to secrets stay (`secretName`, `$(PASSWORD)`), and so do all other values. Pure.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value as Json};

use super::secret_name::is_secret_name;
use super::secret_text::{
    SecretMatch, credentials, find_assigned, find_in_arguments, find_private_keys, find_secrets,
    is_authorization, is_reference, span_in,
};

/// The text in the place of a secret.
pub const MASK: &str = "••••";

/// Keys under which Kubernetes objects name a Secret, without its content.
const REFERENCES: &[&str] = &["secret", "secretKey", "secretRef", "existingSecret", "auth-secret"];

/// Replaces each secret in a tree by the result of `mask`.
pub fn mask_tree(tree: &mut Json, mask: &mut impl FnMut(&str) -> String) {
    match tree {
        Json::String(text) => mask_within(text, mask),
        Json::Array(list) => mask_list(list, mask),
        Json::Object(map) => mask_map(map, mask),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Replaces each secret in a map by the result of `mask`.
pub fn mask_map(map: &mut Map<String, Json>, mask: &mut impl FnMut(&str) -> String) {
    let text = |key: &str| map.get(key).and_then(Json::as_str);
    let is_named_after_one = text("name").is_some_and(is_secret_name);
    let is_plain = map.get("plain").is_some_and(|plain| plain == &Json::Bool(true));
    let is_secret = |key: &str| match key {
        "value" => is_named_after_one && !is_plain,
        _ => is_secret_key(key),
    };
    let is_named_after_header = text("name").is_some_and(is_authorization);
    let is_header = |key: &str| is_authorization(key) || (key == "value" && is_named_after_header);
    for (key, value) in map.iter_mut() {
        match value {
            Json::String(value) if is_header(key) && credentials(value).is_some() => {
                *value = mask(value);
            }
            Json::Object(inner) if matches!(key.as_str(), "data" | "stringData") => {
                mask_entries(inner, mask);
            }
            value if is_secret(key) => mask_whole(value, mask),
            value => mask_tree(value, mask),
        }
    }
}

/// Replaces the secrets in the entries of a `ConfigMap`, where no key is a reference.
fn mask_entries(map: &mut Map<String, Json>, mask: &mut impl FnMut(&str) -> String) {
    for (key, value) in map.iter_mut() {
        if is_secret_name(key) {
            mask_whole(value, mask);
        } else {
            mask_tree(value, mask);
        }
    }
}

/// Returns whether a key has a secret's name and is no reference: an annotation of the Vault agent names the location
/// of a secret.
fn is_secret_key(key: &str) -> bool {
    is_secret_name(key)
        && !REFERENCES.contains(&key)
        && !key.starts_with("vault.hashicorp.com/")
        && !key.ends_with("/auth-secret")
}

/// Masks texts under a secret's name, in a list too; a map has names of its own.
fn mask_whole(value: &mut Json, mask: &mut impl FnMut(&str) -> String) {
    const SWITCHES: [&str; 4] = ["true", "false", "null", "none"];
    match value {
        Json::String(text) if is_reference(text) || SWITCHES.contains(&text.as_str()) => {}
        Json::String(text) => *text = mask(text),
        Json::Number(number) => *value = Json::String(mask(&number.to_string())),
        Json::Array(list) => list.iter_mut().for_each(|value| mask_whole(value, mask)),
        Json::Object(map) => mask_map(map, mask),
        Json::Null | Json::Bool(_) => {}
    }
}

/// Masks the secrets in a list of texts, which may be the arguments of a program.
fn mask_list(list: &mut [Json], mask: &mut impl FnMut(&str) -> String) {
    let texts: Vec<&str> = list.iter().map(|item| item.as_str().unwrap_or_default()).collect();
    let mut spans: Vec<Vec<Range<usize>>> = vec![Vec::new(); texts.len()];
    for (at, secret) in find_in_arguments(&texts) {
        if let (Some(spans), Some(text)) = (spans.get_mut(at), texts.get(at)) {
            spans.push(span_in(text, secret.text));
        }
    }
    for (item, spans) in list.iter_mut().zip(spans) {
        match item {
            Json::String(text) => {
                let all_spans = spans.into_iter().chain(spans_of(text)).collect();
                *text = replace_spans(text, all_spans, mask).into_owned();
            }
            other => mask_tree(other, mask),
        }
    }
}

fn mask_within(text: &mut String, mask: &mut impl FnMut(&str) -> String) {
    if let Cow::Owned(masked) = replace_spans(text, spans_of(text), mask) {
        *text = masked;
    }
}

/// Finds the parts of a text that are secrets by their form or the name before them.
fn spans_of(text: &str) -> Vec<Range<usize>> {
    let secrets =
        find_secrets(text).into_iter().chain(find_assigned(text)).chain(find_in_lines(text));
    let mut spans: Vec<Range<usize>> = secrets.map(|secret| span_in(text, secret.text)).collect();
    spans.extend(find_private_keys(text));
    spans
}

/// Finds the values of a configuration in one text: `password: x`, `db.password = x`.
fn find_in_lines(text: &str) -> impl Iterator<Item = SecretMatch<'_>> {
    let is_file = text.contains('\n');
    text.lines().filter(move |_| is_file).filter_map(|line| {
        let (key, value) = line.split_once([':', '='])?;
        let key = key.trim().trim_start_matches("- ").trim_matches(['"', '\'', ' ']);
        let value = value.trim().trim_end_matches(',').trim_matches(['"', '\'']);
        let is_one =
            is_secret_name(key) && !is_reference(value) && !value.starts_with(['|', '>', '[']);
        is_one.then_some(SecretMatch { what: "a value", certain: false, text: value })
    })
}

/// Replaces each span of the text by the result of `mask`; spans that touch or overlap are one.
pub(super) fn replace_spans<'t>(
    text: &'t str,
    mut spans: Vec<Range<usize>>,
    mask: &mut impl FnMut(&str) -> String,
) -> Cow<'t, str> {
    spans.retain(|span| !span.is_empty());
    if spans.is_empty() {
        return text.into();
    }
    spans.sort_by_key(|span| span.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match merged.last_mut().filter(|last| span.start <= last.end) {
            Some(last) => last.end = last.end.max(span.end),
            None => merged.push(span),
        }
    }
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for span in merged {
        out += text.get(copied..span.start).unwrap_or_default();
        out += &mask(text.get(span.clone()).unwrap_or_default());
        copied = span.end;
    }
    out += text.get(copied..).unwrap_or_default();
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masked(mut tree: Json) -> Json {
        mask_tree(&mut tree, &mut |_| MASK.to_owned());
        tree
    }

    #[test]
    fn a_value_is_masked_for_its_name_or_its_form() {
        let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5");
        for (tree, expected) in [
            (
                json!({"name": "DB_PASSWORD", "value": "hunter2"}),
                json!({"name": "DB_PASSWORD", "value": MASK}),
            ),
            (
                json!({"name": "PIN_CODE_TOKEN", "value": 1234}),
                json!({"name": "PIN_CODE_TOKEN", "value": MASK}),
            ),
            (json!({"name": "A", "value": token}), json!({"name": "A", "value": MASK})),
            (
                json!({"data": {"DB_PASSWORD": "hunter2", "secret": "hunter2", "MODE": "fast"}}),
                json!({"data": {"DB_PASSWORD": MASK, "secret": MASK, "MODE": "fast"}}),
            ),
            (
                json!({"data": {"a.env": "PASSWORD=hunter2\nMODE=fast\n", "b.yaml": "db:\n  password: hunter2\n"}}),
                json!({"data": {"a.env": format!("PASSWORD={MASK}\nMODE=fast\n"), "b.yaml": format!("db:\n  password: {MASK}\n")}}),
            ),
            (
                json!({"args": ["--password=hunter2", "--token", "hunter2", "--port", "80"]}),
                json!({"args": [format!("--password={MASK}"), "--token", MASK, "--port", "80"]}),
            ),
            (
                json!({"command": ["sh", "-c", "PGPASSWORD=hunter2 psql; mysql -phunter2 -u me"]}),
                json!({"command": ["sh", "-c", format!("PGPASSWORD={MASK} psql; mysql -p{MASK} -u me")]}),
            ),
            (
                json!({"command": ["curl", "-u", "me:hunter2", "http://a/?api_key=hunter2&b=c"]}),
                json!({"command": ["curl", "-u", format!("me:{MASK}"), format!("http://a/?api_key={MASK}&b=c")]}),
            ),
            (
                json!({"a": "redis-cli -a hunter2 ping", "b": "me:hunter2@tcp(db:3306)/app"}),
                json!({"a": format!("redis-cli -a {MASK} ping"), "b": format!("me:{MASK}@tcp(db:3306)/app")}),
            ),
            (
                json!({"a": "mysql -u ldap_sync -phunter2; tool --password Ab?cd9", "b": "X=me:a=b/c@tcp(db)/app"}),
                json!({"a": format!("mysql -u ldap_sync -p{MASK}; tool --password {MASK}"), "b": format!("X=me:{MASK}@tcp(db)/app")}),
            ),
            (
                json!({".netrc": "machine a.example.com\n  login me\n  password hunter2\n"}),
                json!({".netrc": format!("machine a.example.com\n  login me\n  password {MASK}\n")}),
            ),
            (
                json!({"annotations": {"example.com/db-password": "hunter2", "a": "b"}}),
                json!({"annotations": {"example.com/db-password": MASK, "a": "b"}}),
            ),
            (
                json!({"a": "{\"password\":\"hunter2\",\"mode\": \"fast\", \"pin_token\": 12}"}),
                json!({"a": format!("{{\"password\":\"{MASK}\",\"mode\": \"fast\", \"pin_token\": {MASK}}}")}),
            ),
            (
                json!({"a": "{\"x\":\"{\\\"dbToken\\\": \\\"hunter2\\\"}\"}"}),
                json!({"a": format!("{{\"x\":\"{{\\\"dbToken\\\": \\\"{MASK}\\\"}}\"}}")}),
            ),
            (
                json!({"a": "--from-literal=password=hunter2 --set=db.password=hunter2,a.b=c"}),
                json!({"a": format!("--from-literal=password={MASK} --set=db.password={MASK},a.b=c")}),
            ),
            (
                json!({"a": "curl -H \"Authorization: Bearer hunter2\" -H 'proxy-authorization: basic hunter2'"}),
                json!({"a": format!("curl -H \"Authorization: Bearer {MASK}\" -H 'proxy-authorization: basic {MASK}'")}),
            ),
            (
                json!({"name": "Authorization", "value": "Bearer hunter2"}),
                json!({"name": "Authorization", "value": MASK}),
            ),
            (json!({"Authorization": "Basic hunter2"}), json!({"Authorization": MASK})),
            (
                json!({"url": "postgres://me:hunter2@db:5432/app"}),
                json!({"url": format!("postgres://{MASK}/app")}),
            ),
        ] {
            assert_eq!(masked(tree), expected);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for tree in [
            json!({"name": "DB_PASSWORD", "value": "$(OTHER)"}),
            json!({"name": "DB_PASSWORD", "value": "hunter2", "plain": true}),
            json!({"name": "api-token", "mountPath": "/etc/token", "image": "ghcr.io/a/token:1"}),
            json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}),
            json!({"secretName": "db", "automountServiceAccountToken": false, "secretKey": "password"}),
            json!({"data": [{"secretKey": "password", "remoteRef": {"key": "devx/db"}}]}),
            json!({"vault.hashicorp.com/agent-inject-secret-db": "secret/data/devx/db"}),
            json!({"args": ["--author=me", "--password-file=/run/x", "--password", "--verbose"]}),
            json!({"command": ["mysql", "-p", "-u", "me"]}),
            json!({"a": "{\"tokenUrl\":\"x\",\"password\":\"$(PASSWORD)\"}", "authorization": "enabled"}),
            json!({"a": "the authorization basic users have", "b": "--label=secret=true"}),
            json!({"AUTH_URL": "https://login.example.com", "PATH": "/bin", "TOKEN_TTL_SECONDS": "60"}),
        ] {
            assert_eq!(masked(tree.clone()), tree);
        }
    }
}
