//! Quoted texts of a hostile file in messages: escaped, cut, and without possible secrets.

use std::borrow::Cow;

use crate::support::secret_mask::mask_secrets;
use crate::support::secret_name::is_secret_name;
use crate::support::secret_sections::is_section;
use crate::support::secret_text::is_random;
use crate::support::secret_tree::MASK;

/// Quotes a hostile text for a message: escaped, and cut after 60 characters.
pub fn quote(text: &str) -> String {
    // Masked whole: a part of a secret has not its form any more.
    let text = mask_secrets(text);
    let shortened: String = text.chars().take(60).collect();
    let ellipsis = if shortened.len() < text.len() { "…" } else { "" };
    format!("`{}{ellipsis}`", shortened.escape_debug())
}

/// Checks that the value of the key may be a secret.
pub(super) fn is_confidential_key(key: &str) -> bool {
    is_section(key) || key == "annotations" || is_secret_name(key)
}

/// Writes a key as a message shows it at a place for secrets: `PASSWORD=x` and `value:x` are values that lack a blank.
pub(crate) fn quote_key(key: &str) -> Cow<'_, str> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    match key.find(|c: char| !is_legal(c)) {
        None => key.into(),
        Some(end) => {
            let (name, rest) = key.split_at(end);
            let name = if rest.starts_with(['=', ':', ' ']) { name } else { "" };
            let sign = rest.chars().next().filter(|c| !name.is_empty() && matches!(c, '=' | ':'));
            format!("{name}{}{MASK}", sign.map_or_else(String::new, String::from)).into()
        }
    }
}

/// Quotes a name in a message, where a secret may have been written instead of it.
pub(crate) fn quoted_name(text: &str) -> String {
    quote(&quote_key(text))
}

/// Quotes a host in a message; what is before an `@` can be a name with a password.
pub(crate) fn quoted_host(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => quote(&format!("{MASK}@{host}")),
        None => quote(text),
    }
}

/// Quotes a reference to a secret in a message, `None` where it can be the secret itself: it has
/// signs that no name of one has, or is as mixed as no name is.
pub(crate) fn quoted_reference(text: &str) -> Option<String> {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"_-./*+".contains(&b);
    let is_mixed = |part: &str| is_random(part) && part.bytes().any(|b| b.is_ascii_digit());
    let is_name = text.bytes().all(is_legal) && !text.split(['-', '_', '.', '/']).any(is_mixed);
    // No secret is as short.
    (is_name || text.chars().count() < 5).then(|| quote(text))
}
