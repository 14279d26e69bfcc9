//! Recognizes secrets in a text: by the form of a token, or by the name of the variable with it.
//!
//! Knows no place where texts are shown; `secret_mask` beside it masks the text of a YAML file. Pure.

use std::ops::Range;

use super::secret_name::is_secret_name;
use super::secret_programs::Program;

/// A text that looks like a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretMatch<'a> {
    /// The kind of the secret: `a GitHub token`.
    pub what: &'static str,
    /// True if it can be nothing else.
    pub certain: bool,
    /// The text itself, to find its position and never to show it.
    pub text: &'a str,
}

/// The form of a token: its prefix, the length of the rest, and its kind.
struct Token {
    prefix: &'static str,
    /// The smallest number of characters after the prefix.
    more: usize,
    what: &'static str,
    /// True if it is never public.
    certain: bool,
}

const fn token(prefix: &'static str, more: usize, what: &'static str) -> Token {
    Token { prefix, more, what, certain: true }
}

/// The forms of tokens, from the documentation of their issuers.
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
    // Every page that shows a map has one.
    Token { prefix: "AIza", more: 35, what: "a Google API key", certain: false },
];

/// The number of different characters below which a text is a placeholder: `ghp_xxxxxxxx`.
const DIFFERENT: usize = 6;

/// Finds all texts that look like a secret, whatever the whole text is for.
pub fn find_secrets(text: &str) -> Vec<SecretMatch<'_>> {
    // No form below is shorter.
    if text.len() < 10 {
        return Vec::new();
    }
    let mut secrets: Vec<SecretMatch<'_>> = words(text).filter_map(word).collect();
    secrets.extend(private_key(text));
    secrets.extend(passwords(text));
    secrets.extend(source_names(text));
    secrets.extend(webhooks(text));
    secrets
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
            rest.len() >= *more && count_distinct(rest) >= DIFFERENT && !rest.contains("EXAMPLE");
        return is_token.then_some(SecretMatch { what, certain: *certain, text: word });
    }
    find_signed_token(word)
}

/// Finds a signed token (RFC 7519): header, claims and signature, the first two JSON objects in
/// base64.
fn find_signed_token(word: &str) -> Option<SecretMatch<'_>> {
    let mut parts = word.split('.');
    let (head, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    let is_token = head.starts_with("eyJ") && claims.starts_with("eyJ") && signature.len() >= 20;
    // Some are public by design: keys for anonymous users.
    is_token.then_some(SecretMatch { what: "a signed token (JWT)", certain: false, text: word })
}

/// Finds a private key (RFC 7468), with some text after the line.
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

/// Finds RFC 3986's `userinfo` with a password that is no reference to something else.
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

/// Finds the passwords in data source names as Go's drivers have them: `me:x@tcp(db:3306)/app`.
fn source_names(text: &str) -> impl Iterator<Item = SecretMatch<'_>> {
    // The longest user name and password together, in bytes.
    const LONGEST: usize = 512;
    let find = |(at, _): (usize, &str)| {
        let before = tail(text.get(..at)?, LONGEST);
        let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
        let user = before.rsplit(is_end).next()?;
        let (_name, password) = user.split_once(':')?;
        (!is_reference(password)).then_some(SecretMatch {
            what: "a password in a data source name",
            certain: true,
            text: password,
        })
    };
    ["@tcp(", "@unix("].into_iter().flat_map(|sign| text.match_indices(sign)).filter_map(find)
}

/// Addresses that let everybody write who knows them, by their beginnings.
const WEBHOOKS: &[(&str, &str)] = &[
    ("hooks.slack.com/services/", "a Slack webhook"),
    ("hooks.slack.com/workflows/", "a Slack webhook"),
    ("discord.com/api/webhooks/", "a Discord webhook"),
];

fn webhooks(text: &str) -> impl Iterator<Item = SecretMatch<'_>> {
    WEBHOOKS.iter().flat_map(move |(prefix, what)| {
        let find = move |(at, _): (usize, &str)| {
            let rest = text.get(at + prefix.len()..)?;
            let end =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '/' | '_' | '-'));
            let path = rest.get(..end.unwrap_or(rest.len()))?;
            let is_one = path.len() >= 20 && count_distinct(path) >= DIFFERENT;
            is_one.then_some(SecretMatch { what, certain: true, text: path })
        };
        text.match_indices(prefix).filter_map(find)
    })
}

/// Finds a variable with a secret's name and a value that may be one: most passwords that people choose look like
/// words.
pub fn find_named_secret<'a>(name: &str, value: &'a str) -> Option<SecretMatch<'a>> {
    (is_secret_name(name) && is_value(value)).then_some(SecretMatch {
        what: "a variable that is called after a secret",
        certain: false,
        text: value,
    })
}

/// Finds the values after the name of a secret in a text: `DB_PASSWORD=x`, `--password=x`, `--password x`,
/// `--set=db.password=x`, `?api_key=x`, `"password":"x"`, `Authorization: Bearer x`, the values of programs like `curl`
/// after a short flag, and the passwords of a `.netrc`.
pub fn find_assigned(text: &str) -> Vec<SecretMatch<'_>> {
    let mut secrets = find_pairs(text);
    secrets.extend(find_authorized(text));
    secrets.extend(find_in_netrc(text));
    if !text.contains(['=', '-']) {
        return secrets;
    }
    let mut words = split_words(text).peekable();
    let mut programs: Vec<&Program> = Vec::new();
    let mut values = Values { text, plain_end: 0, given_end: 0 };
    while let Some(word) = words.next() {
        // A word may only look like a program: the forms of the others are searched, too.
        programs.extend(
            Program::of(word).filter(|program| !programs.iter().any(|other| other.is(program))),
        );
        let value = if word.contains('=') {
            assigned_start(word).and_then(|at| values.next(span_in(text, word).start + at))
        } else if is_secret_flag(word) {
            words.peek().copied().filter(|next| !next.starts_with('-'))
        } else {
            let next = words.peek().copied();
            programs.iter().find_map(|program| program.secret(word, next))
        };
        secrets.extend(value.filter(|value| is_given(value)).map(argument));
    }
    secrets
}

/// Finds the beginning of the value after the first name of a secret: in `--set=db.password=x` that is the second name.
fn assigned_start(word: &str) -> Option<usize> {
    let mut name_start = 0;
    for (at, _) in word.match_indices('=') {
        // In a URL the name of the first parameter is after the `?`.
        let name = word.get(name_start..at).and_then(|name| name.rsplit('?').next());
        if name.is_some_and(is_secret_flag_or_name) {
            return Some(at + 1);
        }
        name_start = at + 1;
    }
    None
}

/// A search for the ends of values. Names may be in the value of another one, and no character is read once for each of
/// them.
struct Values<'a> {
    text: &'a str,
    /// The first character that ends an unquoted value and is not before the last query.
    plain_end: usize,
    /// The end of the last value.
    given_end: usize,
}

impl<'a> Values<'a> {
    /// Returns the value that begins there, with blanks in quotes; `None` if it is in the one before.
    fn next(&mut self, start: usize) -> Option<&'a str> {
        if start < self.given_end {
            return None;
        }
        let rest = self.text.get(start..)?;
        let value = match rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            Some(quote) => rest.get(1..)?.split(quote).next()?,
            None => self.text.get(start..self.end_of_plain(start))?,
        };
        if is_given(value) {
            self.given_end = span_in(self.text, value).end;
        }
        Some(value)
    }

    fn end_of_plain(&mut self, start: usize) -> usize {
        if self.plain_end < start {
            let is_end =
                |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '&');
            let end = self.text.get(start..).and_then(|rest| rest.find(is_end));
            self.plain_end = end.map_or(self.text.len(), |end| start + end);
        }
        self.plain_end
    }
}

/// Finds the values in `"password":"x"` and `"password": 1`, also with a `\` in front of each
/// quote.
fn find_pairs(text: &str) -> Vec<SecretMatch<'_>> {
    let mut secrets = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(':')) {
        let colon = from + at;
        from = colon + 1;
        let before = text.get(..colon).unwrap_or_default();
        if quoted_name_at_end(before).is_some_and(is_secret_name) {
            let value = pair_value(text.get(from..).unwrap_or_default());
            from = span_in(text, value).end.max(from);
            secrets.extend(Some(value).filter(|value| is_given(value)).map(argument));
        }
    }
    secrets
}

/// Finds the quoted name at the end of a text.
fn quoted_name_at_end(text: &str) -> Option<&str> {
    // The longest name of a secret, in bytes.
    const LONGEST: usize = 256;
    let text = text.trim_end_matches([' ', '\t']);
    let quote = text.chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
    let inner = tail(text.strip_suffix(quote)?, LONGEST);
    let (_, name) = inner.strip_suffix('\\').unwrap_or(inner).rsplit_once(quote)?;
    Some(name)
}

/// Returns the value at the beginning of a text, without its quotes.
fn pair_value(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '\t']);
    let (is_escaped, inner) = text.strip_prefix('\\').map_or((false, text), |rest| (true, rest));
    let Some(quote) = inner.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let is_end = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '+');
        return text.split(is_end).next().unwrap_or_default();
    };
    let inner = inner.get(1..).unwrap_or_default();
    let mut signs = inner.char_indices().peekable();
    while let Some((at, c)) = signs.next() {
        let is_end = match c {
            '\\' if is_escaped => signs.peek().is_some_and(|(_, next)| *next == quote),
            '\\' => {
                signs.next();
                false
            }
            _ => c == quote,
        };
        if is_end {
            return inner.get(..at).unwrap_or_default();
        }
    }
    inner
}

/// Finds the text after the scheme in `Authorization: Bearer x`.
fn find_authorized(text: &str) -> Vec<SecretMatch<'_>> {
    const HEADER: &str = "authorization";
    let is_sign = |c: char| c.is_whitespace() || matches!(c, ':' | '=' | '"' | '\'' | '\\');
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '\\');
    let find = |(at, _): (usize, &str)| {
        let header = text.get(at.checked_sub(1)?..)?.get(..HEADER.len())?;
        let rest =
            text.get(at + HEADER.len() - 1..).filter(|_| header.eq_ignore_ascii_case(HEADER))?;
        let scheme = rest.trim_start_matches(is_sign);
        let is_assigned = rest.get(..rest.len() - scheme.len())?.contains([':', '=']);
        let credentials = credentials(scheme).filter(|_| is_assigned)?;
        let value = credentials.split(is_end).next()?;
        is_given(value).then(|| argument(value))
    };
    // Without the first letter, in lower case or in capitals.
    ["uthorization", "UTHORIZATION"]
        .iter()
        .flat_map(|part| text.match_indices(part))
        .filter_map(find)
        .collect()
}

/// Returns the text after the scheme of a header's value: `Bearer x`.
pub(super) fn credentials(value: &str) -> Option<&str> {
    const SCHEMES: [&str; 4] = ["bearer ", "basic ", "token ", "apikey "];
    SCHEMES.iter().find_map(|scheme| {
        let (begin, rest) = value.split_at_checked(scheme.len())?;
        let rest = rest.trim_start();
        (begin.eq_ignore_ascii_case(scheme) && !rest.is_empty()).then_some(rest)
    })
}

/// Returns whether a header has credentials: `Authorization`, `Proxy-Authorization`.
pub(super) fn is_authorization(name: &str) -> bool {
    const HEADER: &str = "authorization";
    let start = name.len().checked_sub(HEADER.len());
    start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(HEADER))
}

/// Returns the end of a text, of at most so many bytes.
pub(super) fn tail(text: &str, most: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.get(start..).unwrap_or_default()
}

/// Finds the values after the name of a secret in the arguments of a program, with the index of the argument: an
/// argument may be the value of the one before it.
pub fn find_in_arguments<'a>(arguments: &[&'a str]) -> Vec<(usize, SecretMatch<'a>)> {
    let program = arguments.first().and_then(|word| Program::of(word));
    let mut secrets = Vec::new();
    for (at, text) in arguments.iter().enumerate() {
        secrets.extend(find_assigned(text).into_iter().map(|secret| (at, secret)));
        let before = at.checked_sub(1).and_then(|before| arguments.get(before)).copied();
        let is_behind_flag = before.is_some_and(|flag| is_secret_flag(flag.trim()));
        let value = if is_behind_flag && !text.starts_with('-') {
            Some(*text)
        } else {
            let apart = before.and_then(|flag| program?.apart(flag, text));
            apart.or_else(|| program?.glued(text))
        };
        secrets.extend(value.filter(|value| is_given(value)).map(|value| (at, argument(value))));
    }
    secrets
}

/// Finds the passwords in a `.netrc`: `machine example.com login me password x`.
pub(super) fn find_in_netrc(text: &str) -> Vec<SecretMatch<'_>> {
    let mut words =
        text.split_whitespace().skip_while(|word| !matches!(*word, "machine" | "default"));
    let mut secrets = Vec::new();
    while let Some(word) = words.next() {
        if word == "password" {
            secrets.extend(words.next().filter(|value| is_given(value)).map(argument));
        }
    }
    secrets
}

fn argument(text: &str) -> SecretMatch<'_> {
    SecretMatch { what: "an argument that is called after a secret", certain: false, text }
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| {
        c.is_whitespace() || matches!(c, ',' | ';' | '&' | '|' | '"' | '\'' | '`' | '(' | '[' | '{')
    };
    text.split(is_end).filter(|word| !word.is_empty())
}

/// Returns whether a word is a flag with a secret's name: `--db-password`, `-password`.
fn is_secret_flag(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    name.len() < word.len() && is_secret_name(&name.to_ascii_uppercase())
}

fn is_secret_flag_or_name(word: &str) -> bool {
    is_secret_flag(word) || is_secret_name(word)
}

/// Returns whether a value is neither a switch nor a reference, so that masking it loses nothing.
fn is_given(value: &str) -> bool {
    !is_reference(value) && !matches!(value, "true" | "false" | "none" | "null")
}

/// Returns whether an address has a user name or a password in it. Over ssh a user name is none: the key is the secret.
pub fn has_credentials(text: &str) -> bool {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let in_front = authority.rsplit_once('@').map(|(user, _)| user);
    in_front.is_some_and(|user| scheme != "ssh" || user.contains(':')) || text.contains("password=")
}

/// Returns whether a value is neither a switch nor a number, nor an address, a path or a reference to something else.
pub fn is_value(value: &str) -> bool {
    const SWITCHES: &[&str] = &[
        "true", "false", "yes", "no", "on", "off", "none", "null", "enabled", "disabled", "basic",
        "bearer", "digest", "jwt", "ldap", "login", "oauth", "oauth2", "oidc", "plain", "saml",
    ];
    !SWITCHES.iter().any(|word| value.eq_ignore_ascii_case(word))
        && !value.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && value.chars().all(|c| !c.is_control() && !c.is_whitespace())
        && !value.contains("://")
        && !value.starts_with(['/', '.', '~'])
        && !is_file_name(value)
        && !is_reference(value)
}

/// Returns whether a value is the name of a file with a secret: `tls.key`.
fn is_file_name(value: &str) -> bool {
    const ENDS: &[&str] =
        &["cer", "cert", "crt", "der", "jks", "json", "key", "p12", "pem", "pfx", "pub"];
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_' | b'.'))
    };
    value.rsplit_once('.').is_some_and(|(name, end)| is_name(name) && ENDS.contains(&end))
}

/// Returns whether a value has eight characters or more of several kinds, with no words in between.
pub fn is_random(value: &str) -> bool {
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

/// Returns whether a text is `$(NAME)`, `${NAME}`, `$NAME`, `{{ name }}`, `<password>`, `***`, or empty.
pub(super) fn is_reference(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_between = |begin: char, end: char| text.starts_with(begin) && text.ends_with(end);
    text.is_empty()
        || text.starts_with("$(")
        || text.starts_with("${")
        || text.strip_prefix('$').is_some_and(|name| name.chars().all(is_name))
        || [('{', '}'), ('<', '>'), ('%', '%')].iter().any(|(begin, end)| is_between(*begin, *end))
        || text.bytes().all(|b| matches!(b, b'*' | b'x' | b'X' | b'.'))
}

fn count_distinct(text: &str) -> usize {
    let mut is_seen = [false; 128];
    for b in text.bytes() {
        if let Some(flag) = is_seen.get_mut(usize::from(b)) {
            *flag = true;
        }
    }
    is_seen.iter().filter(|is_seen| **is_seen).count()
}

/// Computes Shannon's entropy, in bits for each character: English is at about 2.5 in so short a
/// text, random letters and digits above 3.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 128];
    for b in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(b)) {
            *count += 1;
        }
    }
    let total = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    shares.map(|share| -share * share.log2()).sum()
}

/// Finds private keys, from their first line to their last.
pub(super) fn find_private_keys(text: &str) -> Vec<Range<usize>> {
    const LONGEST_LABEL: usize = 100;
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find("-----BEGIN ")) {
        let start = from + start;
        from = start + "-----BEGIN ".len();
        let rest = text.get(from..).unwrap_or_default();
        let Some((label, body)) = rest.split_once("-----") else { break };
        if label.len() > LONGEST_LABEL || label.contains('\n') {
            continue;
        }
        // With some text after the line: a message may show only how a key begins.
        let body = body.trim_start();
        if label.contains("PRIVATE KEY") && body.len() >= 20 {
            from = rest.find("-----END ").map_or(text.len(), |end| from + end);
            spans.push(start..from);
        }
    }
    spans
}

/// Lists the lines of a text as YAML counts them, with their ends: a carriage return alone ends one too.
pub(super) fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = match rest.find(['\n', '\r']) {
            None if rest.is_empty() => return None,
            None => rest.len(),
            Some(at) if rest.get(at..).is_some_and(|end| end.starts_with("\r\n")) => at + 2,
            Some(at) => at + 1,
        };
        let (line, below) = rest.split_at(end);
        rest = below;
        Some(line)
    })
}

/// Finds the position of a part of a text.
pub(super) fn span_in(text: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.len()
}

#[cfg(test)]
#[path = "secret_text_tests.rs"]
mod tests;
