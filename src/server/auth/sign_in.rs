//! Sign-ins on the pages: with the code host (OAuth 2.0 with state and PKCE), or with a token that one has.
//!
//! ```text
//! begin ─▶ cookie {state, verifier, path, end}, signed ─▶ GitHub ─▶ callback {state, code} ─▶ token ─▶ session
//! ```
//!
//! What a sign-in needs until GitHub answers is in the cookie of the browser that has begun it: nothing of it is stored
//! here, however many begin one, and no other browser can end it (RFC 9700, 4.7).

use std::net::IpAddr;
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use crate::deployments::CodeHost;
use crate::forge::github::client::sign_in::{OAuthClient, PersonToken};
use crate::model::audit::AuthMethod;
use crate::server::auth::admission::{Authenticator, STRANGERS};
use crate::server::auth::authentication::{CallerSurface, login_problem};
use crate::server::auth::caller::{Caller, RightsSource};
use crate::server::auth::client_ip::subscriber;
use crate::server::auth::cookies::{Cookie, equal_texts};
use crate::server::problem::{Problem, ProblemKind};
use crate::support::random::random_bytes;
use crate::support::sync::lock;

/// The time for a sign-in at the code host.
const SIGN_IN: SignedDuration = SignedDuration::from_mins(10);
/// The longest path to which a sign-in leads back, in bytes.
const LONGEST_PATH: usize = 1500;
/// The longest code that the code host gives, in bytes.
const LONGEST_CODE: usize = 200;

/// A sign-in that begins.
pub(crate) struct SignInStart {
    /// The page of the code host at which it goes on.
    pub(crate) url: String,
    /// The header that sets its cookie.
    pub(crate) cookie: HeaderValue,
}

/// A sign-in that the code host has answered well.
pub(crate) struct FinishedSignIn {
    /// The path to which it leads back.
    pub(crate) path: String,
    /// The headers that set the session's cookie and remove the sign-in's.
    pub(crate) cookies: Vec<HeaderValue>,
}

/// What the cookie of a sign-in has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PendingSignIn {
    state: String,
    verifier: String,
    ends_at: i64,
    path: String,
}

impl Authenticator {
    /// Returns the page of the code host at which people sign in, if they do so there.
    pub(crate) fn sign_in_host(&self) -> Option<&str> {
        self.oauth_client().map(|(_, web_url)| web_url)
    }

    fn oauth_client(&self) -> Option<(&OAuthClient, &str)> {
        let CodeHost::GitHub { web_url, .. } = &self.deployments.code_host else { return None };
        let client = self.sessions.client.as_ref().filter(|_| self.admission.github.is_some())?;
        Some((client, web_url))
    }

    /// Begins a sign-in at the code host, which leads back to that path.
    pub(crate) fn begin_sign_in(&self, path: &str) -> Result<SignInStart, Problem> {
        let (client, web_url) = self.oauth_client().ok_or_else(no_sign_in)?;
        let random = || random_bytes().map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let failure = || Problem::new(ProblemKind::Internal, "the service has no random numbers");
        let pending = PendingSignIn {
            state: random().map_err(|_| failure())?,
            verifier: random().map_err(|_| failure())?,
            ends_at: (self.deployments.clock.now() + SIGN_IN).as_second(),
            path: local_path(path),
        };
        // RFC 7636, 4.2.
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&pending.verifier));
        let url = client.authorize_url(web_url, &pending.state, &challenge);
        let cookie = self.sessions.jar.set(Cookie::SignIn, &pending.write(), SIGN_IN.as_secs());
        Ok(SignInStart { url, cookie: cookie.ok_or_else(failure)? })
    }

    /// Ends a sign-in with what the code host has sent the browser back with.
    pub(crate) async fn finish_sign_in(
        &self,
        parts: &Parts,
        state: &str,
        code: &str,
    ) -> Result<FinishedSignIn, Problem> {
        let (client, _) = self.oauth_client().ok_or_else(no_sign_in)?;
        let pending = self.pending_sign_in(&parts.headers, state)?;
        if code.is_empty() || code.len() > LONGEST_CODE {
            return Err(bad_callback());
        }
        let address = self.client_ip(&parts.extensions, &parts.headers);
        let subscriber = address.map_or_else(|| "unknown".to_owned(), subscriber);
        // A code is paid for as a token is: a wrong one costs a request to the code host.
        self.pay(&subscriber)?;
        let (code, verifier) = (SecretString::from(code), SecretString::from(pending.verifier));
        let granted = self.exchange(client, &code, &verifier).await;
        let is_wrong = granted.as_ref().is_err_and(|it| it.kind() == ProblemKind::Unauthorized);
        if !is_wrong {
            lock(&self.failures).release(&subscriber);
        }
        let (caller, granted) = granted?;
        let good_for = granted.good_for.and_then(|time| SignedDuration::try_from(time).ok());
        let session = self.begin_session(&caller, good_for).await?;
        let cookies = [Some(session), self.sessions.jar.remove(Cookie::SignIn)];
        Ok(FinishedSignIn { path: pending.path, cookies: cookies.into_iter().flatten().collect() })
    }

    /// Exchanges a code for a token, and asks whose it is.
    async fn exchange(
        &self,
        client: &OAuthClient,
        code: &SecretString,
        verifier: &SecretString,
    ) -> Result<(Caller, PersonToken), Problem> {
        let granted = {
            let _place = self.strangers.try_acquire().map_err(|_| {
                tracing::warn!(most = STRANGERS, "limit of concurrent token checks reached");
                let detail = "too many people sign in at once; try again";
                Problem::new(ProblemKind::TooMany, detail).after(Duration::from_secs(1))
            })?;
            self.deployments.forge.exchange_code(client, code, verifier).await
        };
        let granted = granted.map_err(login_problem)?;
        let person = self.identify_person(&granted.token, false).await?;
        let standing = RightsSource::Person(granted.token.clone());
        Ok((Caller::new(person.login, AuthMethod::GitHub, standing), granted))
    }

    /// Signs in with a token that somebody has; returns the header with the session's cookie.
    pub(crate) async fn sign_in_with_token(
        &self,
        token: String,
        address: Option<IpAddr>,
    ) -> Result<HeaderValue, Problem> {
        let caller = self.identify_token(token, address, CallerSurface::Page).await?;
        self.begin_session(&caller, None).await
    }

    fn pending_sign_in(&self, headers: &HeaderMap, state: &str) -> Result<PendingSignIn, Problem> {
        let pending = self.sessions.jar.read(headers, Cookie::SignIn);
        let pending =
            pending.and_then(|text| PendingSignIn::read(&text)).ok_or_else(bad_callback)?;
        let is_same = equal_texts(state, &pending.state);
        let is_in_time = self.deployments.clock.now().as_second() < pending.ends_at;
        if is_same && is_in_time { Ok(pending) } else { Err(bad_callback()) }
    }
}

impl PendingSignIn {
    fn write(&self) -> String {
        let path = URL_SAFE_NO_PAD.encode(&self.path);
        format!("{}.{}.{}.{path}", self.state, self.verifier, self.ends_at)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let pending = Self {
            state: parts.next()?.to_owned(),
            verifier: parts.next()?.to_owned(),
            ends_at: parts.next()?.parse().ok()?,
            path: String::from_utf8(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?,
        };
        parts.next().is_none().then_some(pending)
    }
}

/// Returns the path if it is one of this service, and `/` otherwise: a sign-in leads to no other site.
pub(crate) fn local_path(path: &str) -> String {
    let is_local = path.starts_with('/')
        && !path.starts_with("//")
        && path.len() <= LONGEST_PATH
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { path.to_owned() } else { "/".to_owned() }
}

fn no_sign_in() -> Problem {
    let detail = "this service does not sign people in with GitHub: use a token";
    Problem::new(ProblemKind::NotFound, detail)
}

fn bad_callback() -> Problem {
    let detail =
        "this sign-in was begun in another browser, or more than ten minutes ago: sign in again";
    Problem::new(ProblemKind::BadRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_leads_to_pages_of_this_service_alone() {
        for path in ["/", "/apps/a/b/c?x=1&y=%2F", "/deployments/x#log"] {
            assert_eq!(local_path(path), path);
        }
        let long = format!("/{}", "x".repeat(LONGEST_PATH));
        for wrong in
            ["", "x", "//evil.net", "/\\evil.net", "https://evil.net", "/a\nb", "/a b", "/ä", &long]
        {
            assert_eq!(local_path(wrong), "/", "{wrong}");
        }
    }

    #[test]
    fn what_a_cookie_has_is_read_as_it_was_written() {
        let pending = PendingSignIn {
            state: "a_-1".to_owned(),
            verifier: "b".to_owned(),
            ends_at: 7,
            path: "/x?y=1.2".to_owned(),
        };
        assert_eq!(PendingSignIn::read(&pending.write()), Some(pending.clone()));
        for wrong in ["", "a.b.c.d", "a.b.7", "a.b.7.!", &format!("{}.x", pending.write())] {
            assert_eq!(PendingSignIn::read(wrong), None, "{wrong}");
        }
    }
}
