//! What secrets look like.

use super::Found;

/// How a token begins, how much follows, and what it is.
struct Token {
    prefix: &'static str,
    /// So many more characters at least.
    more: usize,
    what: &'static str,
    /// Whether it is never public.
    certain: bool,
}

const fn token(prefix: &'static str, more: usize, what: &'static str) -> Token {
    Token { prefix, more, what, certain: true }
}

/// From the documentation of those who issue them.
const TOKENS: &[Token] = &[
    token("ghp_", 36, "a GitHub token"),
    token("gho_", 36, "a GitHub token"),
    token("ghu_", 36, "a GitHub token"),
    token("ghs_", 36, "a GitHub token"),
    token("ghr_", 36, "a GitHub token"),
    token("github_pat_", 40, "a GitHub token"),
    token("glpat-", 20, "a GitLab token"),
    token("gldt-", 20, "a GitLab token"),
    token("AKIA", 16, "an AWS access key"),
    token("ASIA", 16, "an AWS access key"),
    token("xoxb-", 20, "a Slack token"),
    token("xoxp-", 20, "a Slack token"),
    token("xoxa-", 20, "a Slack token"),
    token("xoxr-", 20, "a Slack token"),
    token("xoxs-", 20, "a Slack token"),
    token("xapp-", 20, "a Slack token"),
    token("sk_live_", 20, "a Stripe key"),
    token("rk_live_", 20, "a Stripe key"),
    token("npm_", 36, "an npm token"),
    token("hvs.", 24, "a Vault token"),
    token("hvb.", 24, "a Vault token"),
    token("dop_v1_", 60, "a DigitalOcean token"),
    token("SG.", 60, "a SendGrid key"),
    token("AGE-SECRET-KEY-1", 50, "an age key"),
    token("pypi-", 80, "a PyPI token"),
    // In every page that shows a map.
    Token { prefix: "AIza", more: 35, what: "a Google API key", certain: false },
];

/// Fewer different characters than this are a placeholder: `ghp_xxxxxxxx`.
const DIFFERENT: usize = 6;

/// All that looks like a secret in a text, whatever the text is for.
pub(super) fn within(text: &str) -> Vec<Found<'_>> {
    // Nothing below is shorter.
    if text.len() < 10 {
        return Vec::new();
    }
    let mut found: Vec<Found<'_>> = words(text).filter_map(word).collect();
    found.extend(private_key(text));
    found.extend(passwords(text));
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.');
    text.split(part).filter(|word| word.len() >= 20)
}

fn word(word: &str) -> Option<Found<'_>> {
    let token = TOKENS.iter().find(|token| word.starts_with(token.prefix));
    if let Some(Token { prefix, more, what, certain }) = token {
        let rest = word.strip_prefix(prefix)?;
        let is_token =
            rest.len() >= *more && different(rest) >= DIFFERENT && !rest.contains("EXAMPLE");
        return is_token.then_some(Found { what, certain: *certain, text: word });
    }
    signed(word)
}

/// RFC 7519: header, claims and signature, the first two JSON objects in base64.
fn signed(word: &str) -> Option<Found<'_>> {
    let mut parts = word.split('.');
    let (head, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    let is_token = head.starts_with("eyJ") && claims.starts_with("eyJ") && signature.len() >= 20;
    // Some are public by design: keys for anonymous users.
    is_token.then_some(Found { what: "a signed token (JWT)", certain: false, text: word })
}

/// RFC 7468, with something after the line.
fn private_key(text: &str) -> Option<Found<'_>> {
    let start = text.find("-----BEGIN ")?;
    let rest = text.get(start..)?;
    let (label, body) = rest.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    let is_key = label.ends_with("PRIVATE KEY") || label.ends_with("PRIVATE KEY BLOCK");
    let line = rest.lines().next()?;
    (is_key && body.trim().len() >= 20).then_some(Found {
        what: "a private key",
        certain: true,
        text: line,
    })
}

/// RFC 3986's `userinfo` with a password that is no reference to something else.
fn passwords(text: &str) -> impl Iterator<Item = Found<'_>> {
    text.split("://").skip(1).filter_map(|rest| {
        let end =
            rest.find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace());
        let authority = rest.get(..end.unwrap_or(rest.len()))?;
        let (user, _host) = authority.rsplit_once('@')?;
        let (_name, password) = user.split_once(':')?;
        (!is_reference(password)).then_some(Found {
            what: "a password in a URL",
            certain: true,
            text: authority,
        })
    })
}

/// Names that are given to secrets, as whole words of a variable's name.
const NAMES: &[&str] =
    &["PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "CREDENTIAL", "CREDENTIALS", "APIKEY"];
/// The same of two words.
const PAIRS: &[(&str, &str)] = &[
    ("API", "KEY"),
    ("PRIVATE", "KEY"),
    ("ACCESS", "KEY"),
    ("ENCRYPTION", "KEY"),
    ("SIGNING", "KEY"),
];
/// Then it is about a secret, and not the secret: `TOKEN_URL`.
const ABOUT: &[&str] = &[
    "URL",
    "URI",
    "PATH",
    "FILE",
    "NAME",
    "ID",
    "ENDPOINT",
    "HOST",
    "TTL",
    "TYPE",
    "HEADER",
    "ALGORITHM",
    "VERSION",
    "EXPIRY",
    "TIMEOUT",
    "ISSUER",
    "AUDIENCE",
    "DIR",
    "COUNT",
    "LENGTH",
    "ENABLED",
];

/// A variable that is called after a secret and holds what may be one: most passwords that people choose
/// look like words.
pub(super) fn named<'a>(name: &str, value: &'a str) -> Option<Found<'a>> {
    let upper = name.to_ascii_uppercase();
    let words: Vec<&str> = upper.split(['_', '-', '.']).collect();
    let is_pair = |pair: &[&str]| matches!(pair, [a, b] if PAIRS.contains(&(*a, *b)));
    let is_secret = words.iter().any(|word| NAMES.contains(word)) || words.windows(2).any(is_pair);
    let is_about = words.last().is_some_and(|word| ABOUT.contains(word));
    (is_secret && !is_about && is_value(value)).then_some(Found {
        what: "a variable that is called after a secret",
        certain: false,
        text: value,
    })
}

/// Neither a switch nor a number, nor an address, a path or a reference to something else.
fn is_value(value: &str) -> bool {
    const SWITCHES: &[&str] =
        &["true", "false", "yes", "no", "on", "off", "none", "null", "enabled", "disabled"];
    !SWITCHES.iter().any(|word| value.eq_ignore_ascii_case(word))
        && !value.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && value.chars().all(|c| !c.is_control() && !c.is_whitespace())
        && !value.contains("://")
        && !value.starts_with(['/', '.', '~'])
        && !is_reference(value)
}

/// `$(NAME)`, `${NAME}`, `{{ name }}`, `<password>`, `***`, or nothing.
fn is_reference(text: &str) -> bool {
    text.is_empty()
        || text.starts_with(['$', '{', '<', '%'])
        || text.bytes().all(|b| matches!(b, b'*' | b'x' | b'X' | b'.'))
}

fn different(text: &str) -> usize {
    let mut seen = [false; 128];
    for b in text.bytes() {
        if let Some(seen) = seen.get_mut(usize::from(b)) {
            *seen = true;
        }
    }
    seen.iter().filter(|seen| **seen).count()
}
