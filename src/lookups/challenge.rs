//! The challenge of a registry, which names its token server: `WWW-Authenticate` (RFC 9110 §11.6.1, and the
//! distribution project's token specification). Pure.

/// One way to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token that another service gives.
    Bearer(Bearer),
    /// A name and a password with each request.
    Basic,
}

/// The server of tokens, and the scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bearer {
    /// The token service's address.
    pub(super) realm: String,
    /// The name of the registry at that server.
    pub(super) service: Option<String>,
    /// The scope of the token: `repository:acme/shop:pull`.
    pub(super) scope: Option<String>,
}

/// Reads the known challenges of the headers, in order.
pub(super) fn read<'a>(headers: impl Iterator<Item = &'a str>) -> Vec<Challenge> {
    headers
        .flat_map(schemes)
        .filter_map(|(scheme, parameters)| parse_challenge(&scheme, &parameters))
        .collect()
}

type Parameters = Vec<(String, String)>;

fn parse_challenge(scheme: &str, parameters: &Parameters) -> Option<Challenge> {
    let value = |name: &str| {
        let parameter = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        parameter.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    };
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let bearer =
        Bearer { realm: value("realm")?, service: value("service"), scope: value("scope") };
    Some(Challenge::Bearer(bearer))
}

/// Lists the schemes with their parameters: a word without `=` behind it begins the next one.
fn schemes(header: &str) -> Vec<(String, Parameters)> {
    let mut challenges: Vec<(String, Parameters)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return challenges;
        }
        let assigned = after.trim_start_matches([' ', '\t']).strip_prefix('=');
        match (assigned, challenges.last_mut()) {
            (Some(text), Some((_, parameters))) => {
                let (value, after) = value(text.trim_start_matches([' ', '\t']));
                parameters.push((word.to_owned(), value));
                rest = after;
            }
            (Some(_), None) => return challenges,
            (None, _) => {
                challenges.push((word.to_owned(), Parameters::new()));
                rest = after;
            }
        }
    }
}

/// Reads a quoted text or a word, and returns the rest.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        return (word.to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    (value, "")
}

/// Checks that any header is read, and that a token server always has an address.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for challenge in read(text.split('\n')) {
        if let Challenge::Bearer(Bearer { realm, .. }) = challenge {
            assert!(!realm.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        let to_text = |text: Option<&str>| text.map(str::to_owned);
        Challenge::Bearer(Bearer {
            realm: realm.to_owned(),
            service: to_text(service),
            scope: to_text(scope),
        })
    }

    #[test]
    fn what_registries_send_is_understood() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/redis:pull""#;
        let expected = bearer(
            "https://auth.docker.io/token",
            Some("registry.docker.io"),
            Some("repository:library/redis:pull"),
        );
        assert_eq!(read([hub].into_iter()), [expected]);
        let header =
            r#"Negotiate, Basic realm="x, y", bearer Realm = https://a.b/t , scope="a,\"b\"""#;
        let expected = [Challenge::Basic, bearer("https://a.b/t", None, Some("a,\"b\""))];
        assert_eq!(read([header].into_iter()), expected);
        assert_eq!(
            read(["Basic", "Bearer realm=r"].into_iter()),
            [Challenge::Basic, bearer("r", None, None)]
        );
    }

    #[test]
    fn what_is_no_challenge_is_none() {
        for text in [
            "",
            "Bearer",
            "Bearer service=x",
            "=x",
            ",,,",
            "Bearer realm=\"\"",
            "Digest realm=\"x\"",
        ] {
            assert_eq!(read([text].into_iter()), [], "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_it_panic(text in "[ -~]{0,60}", quoted in "[a=\"\\\\, é]{0,20}") {
            let _ = read([text.as_str(), quoted.as_str()].into_iter());
        }
    }
}
