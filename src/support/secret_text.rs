//! What secrets look like in a text, and the text without them.
//!
//! Knows forms of tokens, names that are given to secrets, and where YAML has a value; and no place where
//! texts are shown. Pure.

use std::borrow::Cow;
use std::ops::Range;

/// What looks like a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretMatch<'a> {
    /// `a GitHub token`
    pub what: &'static str,
    /// Whether it can be nothing else.
    pub certain: bool,
    /// The text itself, for finding its place and never for showing.
    pub text: &'a str,
}

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
pub fn find_secrets(text: &str) -> Vec<SecretMatch<'_>> {
    // Nothing below is shorter.
    if text.len() < 10 {
        return Vec::new();
    }
    let mut found: Vec<SecretMatch<'_>> = words(text).filter_map(word).collect();
    found.extend(private_key(text));
    found.extend(passwords(text));
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.');
    text.split(part).filter(|word| word.len() >= 20)
}

fn word(word: &str) -> Option<SecretMatch<'_>> {
    let token = TOKENS.iter().find(|token| word.starts_with(token.prefix));
    if let Some(Token { prefix, more, what, certain }) = token {
        let rest = word.strip_prefix(prefix)?;
        let is_token =
            rest.len() >= *more && different(rest) >= DIFFERENT && !rest.contains("EXAMPLE");
        return is_token.then_some(SecretMatch { what, certain: *certain, text: word });
    }
    signed(word)
}

/// RFC 7519: header, claims and signature, the first two JSON objects in base64.
fn signed(word: &str) -> Option<SecretMatch<'_>> {
    let mut parts = word.split('.');
    let (head, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    let is_token = head.starts_with("eyJ") && claims.starts_with("eyJ") && signature.len() >= 20;
    // Some are public by design: keys for anonymous users.
    is_token.then_some(SecretMatch { what: "a signed token (JWT)", certain: false, text: word })
}

/// RFC 7468, with something after the line.
fn private_key(text: &str) -> Option<SecretMatch<'_>> {
    let start = text.find("-----BEGIN ")?;
    let rest = text.get(start..)?;
    let (label, body) = rest.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    let is_key = label.ends_with("PRIVATE KEY") || label.ends_with("PRIVATE KEY BLOCK");
    let line = rest.lines().next()?;
    (is_key && body.trim().len() >= 20).then_some(SecretMatch {
        what: "a private key",
        certain: true,
        text: line,
    })
}

/// RFC 3986's `userinfo` with a password that is no reference to something else.
fn passwords(text: &str) -> impl Iterator<Item = SecretMatch<'_>> {
    text.split("://").skip(1).filter_map(|rest| {
        let end =
            rest.find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace());
        let authority = rest.get(..end.unwrap_or(rest.len()))?;
        let (user, _host) = authority.rsplit_once('@')?;
        let (_name, password) = user.split_once(':')?;
        (!is_reference(password)).then_some(SecretMatch {
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

/// A variable that is called after a secret and holds what may be one: most passwords that people choose look
/// like words.
pub fn find_named_secret<'a>(name: &str, value: &'a str) -> Option<SecretMatch<'a>> {
    (is_secret_name(name) && is_value(value)).then_some(SecretMatch {
        what: "a variable that is called after a secret",
        certain: false,
        text: value,
    })
}

/// Whether a variable or a key is called after a secret.
fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let words: Vec<&str> = upper.split(['_', '-', '.']).collect();
    let is_pair = |pair: &[&str]| matches!(pair, [a, b] if PAIRS.contains(&(*a, *b)));
    let is_secret = words.iter().any(|word| NAMES.contains(word)) || words.windows(2).any(is_pair);
    is_secret && !words.last().is_some_and(|word| ABOUT.contains(word))
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

/// Eight characters or more of several kinds, with no words in between.
fn is_random(value: &str) -> bool {
    let plain = value.len() >= 8
        && value.bytes().all(|b| b.is_ascii_graphic())
        && !value.contains("://")
        && !value.starts_with(['/', '.', '~'])
        && !is_reference(value);
    let kinds = [
        value.bytes().any(|b| b.is_ascii_lowercase()),
        value.bytes().any(|b| b.is_ascii_uppercase()),
        value.bytes().any(|b| b.is_ascii_digit()),
        value.bytes().any(|b| b.is_ascii_punctuation()),
    ];
    plain && kinds.iter().filter(|kind| **kind).count() >= 2 && entropy(value) >= 2.8
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

/// Shannon's, in bits for each character: English is at about 2.5 in so short a text, random
/// letters and digits above 3.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 128];
    for b in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(b)) {
            *count += 1;
        }
    }
    let all = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    shares.map(|share| -share * share.log2()).sum()
}

/// The text with a star for each character of what is a secret by its form, for a message.
pub fn mask_secrets(text: &str) -> Cow<'_, str> {
    let mut spans: Vec<Range<usize>> =
        find_secrets(text).iter().map(|found| span_in(text, found.text)).collect();
    spans.extend(private_keys(text));
    stars(text, &spans)
}

/// A file's text with stars for secrets and for the values of variables, for whoever sees the lines around a
/// place. The place itself, in bytes, is shown unless it looks like a secret. Lines and columns stay.
pub fn mask_values<'a>(text: &'a str, place: &Range<usize>) -> Cow<'a, str> {
    let mut spans: Vec<Range<usize>> = private_keys(text).collect();
    let mut before = "";
    let mut start = 0;
    let mut block: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches([' ', '-']).len();
        let shift = |span: Range<usize>| start + span.start..start + span.end;
        if block.is_some_and(|key| indent > key || line.trim().is_empty()) {
            spans.push(shift(0..line.len()));
        } else {
            block = None;
            spans.extend(find_secrets(line).iter().map(|found| shift(span_in(line, found.text))));
            for Entry { key, value } in entries(line) {
                let text = line.get(value.clone()).unwrap_or_default().trim_matches(['"', '\'']);
                let is_variable = key == "value";
                if !(is_variable || is_secret_name(key)) || text.starts_with(['{', '[', '&', '*']) {
                    continue;
                }
                if text.starts_with(['|', '>']) {
                    block = Some(indent);
                    continue;
                }
                let span = shift(value);
                let is_shown = span.start <= place.start && place.end <= span.end;
                let is_secret = !is_variable
                    || is_random(text)
                    || [before, line].iter().any(|line| names_a_secret(line));
                if !is_shown || is_secret {
                    spans.push(span);
                }
            }
        }
        before = line;
        start += line.len();
    }
    stars(text, &spans)
}

/// A key of a line of YAML, and where its value is, as far as the line goes.
struct Entry<'a> {
    key: &'a str,
    value: Range<usize>,
}

/// The entries of a line: of a block, or of maps in braces.
fn entries(line: &str) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(colon) = line.get(from..).and_then(|rest| rest.find(':')).map(|at| from + at) {
        from = colon + 1;
        let rest = line.get(from..).unwrap_or_default();
        if !(rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r'])) {
            continue;
        }
        let head = line.get(..colon).unwrap_or_default().trim_end_matches(['"', '\'', ' ']);
        let begin = head
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
            .map_or(0, |at| {
                at + head.get(at..).and_then(|it| it.chars().next()).map_or(1, char::len_utf8)
            });
        let key = head.get(begin..).unwrap_or_default().trim_start_matches('-');
        let start = from + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
        let is_flow = line.get(..colon).unwrap_or_default().contains('{');
        let value = start..start + scalar(line.get(start..).unwrap_or_default(), is_flow);
        // What is in quotes has no keys.
        if line.get(value.clone()).is_some_and(|text| text.starts_with(['"', '\''])) {
            from = value.end.max(from);
        }
        found.push(Entry { key, value });
    }
    found
}

/// How long the scalar is that a text begins with.
fn scalar(text: &str, is_flow: bool) -> usize {
    let first = text.chars().next();
    if let Some(quote @ ('"' | '\'')) = first {
        let mut escaped = false;
        for (at, c) in text.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' if quote == '"' => escaped = true,
                c if c == quote => return at + 1,
                _ => {}
            }
        }
        return text.trim_end().len();
    }
    let end = if is_flow { text.find([',', '}']) } else { text.find(" #") };
    text.get(..end.unwrap_or(text.len())).unwrap_or_default().trim_end().len()
}

/// Whether a line has the name of a variable that is called after a secret.
fn names_a_secret(line: &str) -> bool {
    entries(line).into_iter().any(|Entry { key, value }| {
        let name = line.get(value).unwrap_or_default().trim_matches(['"', '\'']);
        key == "name" && is_secret_name(name)
    })
}

/// Where private keys are, from their first line to their last.
fn private_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("-----BEGIN ").filter_map(|(start, _)| {
        let rest = text.get(start..)?;
        let label = rest.strip_prefix("-----BEGIN ")?.split("-----").next()?;
        let end = rest.find("-----END ").unwrap_or(rest.len());
        (label.contains("PRIVATE KEY") && label.len() < 100).then_some(start..start + end)
    })
}

/// Where a part of a text is in it.
fn span_in(text: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.len()
}

fn stars<'a>(text: &'a str, spans: &[Range<usize>]) -> Cow<'a, str> {
    if spans.is_empty() {
        return text.into();
    }
    let hidden = |at: usize| spans.iter().any(|span| span.contains(&at));
    let star = |(at, c): (usize, char)| match c {
        '\n' | '\r' => c,
        _ if hidden(at) => '*',
        _ => c,
    };
    text.char_indices().map(star).collect::<String>().into()
}

#[cfg(test)]
#[path = "secret_text_tests.rs"]
mod tests;
