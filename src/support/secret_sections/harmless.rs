//! Decides how much of a name, of an argument or of a reference to a secret may be shown.

use super::is_secret_name;

/// Returns the number of bytes of a name that are shown: all of it, or the text before a character that no name has.
pub(super) fn visible_length_of_name(text: &str) -> usize {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let end = text.find(|c: char| !legal(c)).unwrap_or(text.len());
    match text.get(end..).and_then(|rest| rest.chars().next()) {
        None => end,
        // `PASSWORD=x`, `value:x`, `PASSWORD x`; a text in base64 ends with `=` too.
        Some('=' | ':') if is_name_of_value(text.get(..end).unwrap_or_default()) => end + 1,
        Some(' ' | '\t') if is_name_of_value(text.get(..end).unwrap_or_default()) => end,
        Some(_) => 0,
    }
}

fn is_name_of_value(text: &str) -> bool {
    is_variable(text) || is_secret_name(text) || matches!(text, "name" | "value" | "key")
}

/// Returns whether a text is the name of a variable: `env: NAME` says where a secret is.
pub(super) fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Returns the number of bytes of an argument that are shown: the name of a flag, and words without digits and
/// punctuation.
pub(super) fn visible_length_of_argument(text: &str) -> usize {
    let is_word = |text: &str| {
        text.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'/' | b'_' | b'.'))
    };
    match text.split_once('=') {
        Some((name, _)) if is_word(name) => name.len() + 1,
        Some(_) => 0,
        // `-px` is a password for some programs.
        None if text.starts_with("-p") && text.len() > 2 => 2,
        None if is_word(text) => text.len(),
        None => {
            text.find([' ', '\t']).filter(|end| text.get(..*end).is_some_and(is_word)).unwrap_or(0)
        }
    }
}

/// Returns whether a key describes a secret: its name, its location, or the way it arrives.
pub(super) fn is_reference_key(key: &str) -> bool {
    const KEYS: &[&str] = &[
        "name",
        "key",
        "path",
        "paths",
        "mountpath",
        "optional",
        "file",
        "env",
        "delivery",
        "vault",
        "external",
        "address",
        "mount",
        "auth",
        "namespace",
        "operator",
        "roles",
        "operator_login",
        "role",
        "shared",
        "connection",
        "refresh",
        "kind",
        "service_account",
        "secretname",
        "items",
        "defaultmode",
        "mode",
    ];
    KEYS.contains(&key.to_ascii_lowercase().as_str())
}

/// Returns whether a text may be a name, a path with wildcards, an address, or a placeholder.
pub(super) fn is_legal_reference(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./*+:{}".contains(&b))
}
