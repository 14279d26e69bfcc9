//! Who may call the API: holders of a configured token, or everybody on this machine.

mod caller; // who calls, and what they may

use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::model::audit::Via;
pub(super) use crate::server::auth::caller::{Caller, Scope, Subject};
use crate::server::problem::{Kind, Problem};

/// A token that may call the API, known by its hash only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose it is, for the log and for what they do.
    pub name: String,
    /// The SHA-256 of its text.
    pub sha256: [u8; 32],
}

impl Token {
    /// The token of that text.
    pub fn of_text(name: impl Into<String>, text: &str) -> Self {
        Self { name: name.into(), sha256: Sha256::digest(text).into() }
    }
}

/// All tokens that may call the API.
#[derive(Debug, Clone, Default)]
pub struct Tokens(pub Vec<Token>);

/// Who may see the pages, which only show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pages {
    /// Who gives a token as the password; everybody, where there are none.
    #[default]
    Token,
    /// Everybody who can reach the listener.
    Open,
}

/// Why the server may not listen there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{listen} can be reached from other machines, and no API token is configured: add one under \
     auth.tokens, or listen on 127.0.0.1"
)]
pub struct Exposed {
    /// The address.
    pub listen: SocketAddr,
}

impl Tokens {
    /// Whether the server may listen there: without a token only where this machine alone can call.
    ///
    /// # Errors
    /// [`Exposed`]
    pub fn may_listen(&self, listen: SocketAddr) -> Result<(), Exposed> {
        if self.0.is_empty() && !listen.ip().to_canonical().is_loopback() {
            return Err(Exposed { listen });
        }
        Ok(())
    }

    /// Lets a request through that carries a token, or any if there are no tokens.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if self.0.is_empty() {
            return Ok(Caller::new("unknown, on this machine", Via::Loopback));
        }
        let Some(text) = bearer(headers) else {
            let detail = "send a configured API token as `Authorization: Bearer TOKEN`";
            return Err(Problem::new(Kind::Unauthorized, detail));
        };
        match self.holder(text) {
            Some(name) => {
                tracing::debug!(token = name, "API token accepted");
                Ok(Caller::new(name, Via::Token))
            }
            None => Err(Problem::new(Kind::Unauthorized, "the API token is not a configured one")),
        }
    }

    /// The same for a page: a browser gives the token as the password, with any name.
    pub(super) fn check_page(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let asked = "give a configured API token as the password; any name will do";
        let Some(password) = password(headers) else {
            let refused = |_| Problem::new(Kind::Unauthorized, asked);
            return self.check(headers).map_err(refused);
        };
        if self.0.is_empty() {
            return self.check(headers);
        }
        let holder = self.holder(&password).map(|name| Caller::new(name, Via::Token));
        holder.ok_or_else(|| Problem::new(Kind::Unauthorized, asked))
    }

    /// Compares with every token, whichever matches, so that time tells nothing.
    fn holder(&self, text: &str) -> Option<&str> {
        let hash: [u8; 32] = Sha256::digest(text).into();
        self.0.iter().fold(None, |found, token| {
            if same(&token.sha256, &hash) { Some(token.name.as_str()) } else { found }
        })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, text) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| text.trim())
}

/// What a browser sends after it was told a name and a password.
fn password(headers: &HeaderMap) -> Option<String> {
    let (scheme, text) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let login = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
    login.split_once(':').map(|(_, password)| password.to_owned())
}

/// Looks at every byte, whatever the first ones say.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens(vec![Token::of_text("ci", "one"), Token::of_text("bart", "two")])
    }

    #[test]
    fn without_a_token_only_this_machine_may_call() {
        let listen = |address: &str| address.parse().unwrap();
        for address in ["127.0.0.1:8080", "127.8.9.1:1", "[::1]:8080", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(Tokens::default().may_listen(listen(address)), Ok(()), "{address}");
        }
        for address in ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:80"] {
            assert!(Tokens::default().may_listen(listen(address)).is_err(), "{address}");
            assert_eq!(tokens().may_listen(listen(address)), Ok(()), "{address}");
        }
    }

    #[test]
    fn a_tokens_holder_is_found_by_its_hash() {
        assert_eq!(tokens().holder("two"), Some("bart"));
        assert_eq!(tokens().holder("three"), None);
        assert_eq!(tokens().holder(""), None);
    }
}
