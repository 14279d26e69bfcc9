//! Sessions of browsers: begun by a sign-in, found by a cookie, ended by their person or by time; and the proof that a
//! form comes from a page of this service.
//!
//! ```text
//! cookie ─▶ id, 32 random bytes ─┬─ SHA-256 ─▶ the record in the database
//!                                ├─ SHA-256, of another text ─▶ the key of the person's token in that record
//!                                └─ HMAC ────▶ the token of every form of that session
//! ```
//!
//! A person's token lies in the database encrypted; only a request of their browser can use it. Its rights are asked of
//! GitHub as for any caller, so that a token that is revoked there is good for nothing here.

use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::header::{HOST, ORIGIN};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::model::audit::AuthMethod;
use crate::server::auth::admission::Authenticator;
use crate::server::auth::caller::{Caller, RightsSource};
use crate::server::auth::cookies::Cookie;
use crate::server::problem::{Problem, ProblemKind};
use crate::store::{SessionProof, SessionRecord, StoreError};
use crate::support::random::random_bytes;
use crate::support::sealed;

/// The interval at which the use of a session is recorded.
const NOTE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// The name of the header by which a browser says where a request comes from (Fetch Metadata).
const FETCH_SITE: &str = "sec-fetch-site";

/// The session of a request.
#[derive(Debug, Clone)]
pub(crate) struct BrowserSession {
    /// The person or program that has signed in.
    pub(crate) caller: Caller,
    /// The token of its forms.
    pub(crate) form_token: String,
    /// The id under which it is stored.
    pub(super) id: String,
}

/// A session's id as its cookie has it: 32 random bytes in hexadecimal.
struct SessionId(String);

impl Authenticator {
    /// Returns the session of a request; `None` if it has none, or one that is over.
    pub(crate) async fn session(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<BrowserSession>, Problem> {
        let Some(id) = self.sessions.jar.read(headers, Cookie::Session).map(SessionId) else {
            return Ok(None);
        };
        let now = self.deployments.clock.now();
        let store = &self.deployments.store;
        let used_since = before(now, self.sessions.times.idle);
        let record = store.session(&id.stored(), now, used_since).await;
        let Some(record) = record.map_err(|error| unreadable(&error))? else { return Ok(None) };
        let Some(caller) = self.session_caller(&id, &record) else {
            // Its token was taken out of the configuration.
            store.end_session(&record.id).await.map_err(|error| unreadable(&error))?;
            return Ok(None);
        };
        if now.duration_since(record.seen_at) >= NOTE_INTERVAL
            && let Err(error) = store.note_session(&record.id, now).await
        {
            tracing::warn!(%error, "use of a session could not be recorded");
        }
        let form_token = self.form_token(Some(&id));
        Ok(Some(BrowserSession { caller, form_token, id: record.id }))
    }

    fn session_caller(&self, id: &SessionId, record: &SessionRecord) -> Option<Caller> {
        let name = &record.name;
        match &record.proof {
            SessionProof::SealedToken(sealed) => {
                self.admission.github.as_ref()?;
                let token = sealed::open(&id.token_key(), &record.account, sealed)?;
                Some(Caller::new(name, AuthMethod::GitHub, RightsSource::Person(token)))
            }
            SessionProof::TokenDigest(digest) => {
                let mut tokens = self.admission.tokens.iter();
                let token = tokens
                    .find(|token| token.name == *name && hex::encode(token.sha256) == *digest)?;
                let rights = RightsSource::Token(token.rights.clone());
                Some(Caller::new(name, AuthMethod::Token, rights))
            }
        }
    }

    /// Begins a session of somebody who has proved who they are; returns the header with its cookie.
    ///
    /// `good_for` is the time after which the person's token is good for nothing.
    pub(crate) async fn begin_session(
        &self,
        caller: &Caller,
        good_for: Option<SignedDuration>,
    ) -> Result<HeaderValue, Problem> {
        let id = SessionId(hex::encode(random_bytes().map_err(|error| no_session(&error))?));
        let now = self.deployments.clock.now();
        let account = caller.account();
        let proof = match &caller.standing {
            RightsSource::Person(token) => {
                let sealed = sealed::seal(&id.token_key(), &account, token);
                SessionProof::SealedToken(sealed.ok_or_else(|| no_session(&"no random numbers"))?)
            }
            RightsSource::Token(_) => {
                let token = self.admission.tokens.iter().find(|token| token.name == caller.name);
                let token = token.ok_or_else(|| no_session(&"the token is not configured"))?;
                SessionProof::TokenDigest(hex::encode(token.sha256))
            }
            RightsSource::Everybody | RightsSource::Account => {
                return Err(no_session(&"no sign-in is needed"));
            }
        };
        let longest = self.sessions.times.longest;
        let lasts = good_for.map_or(longest, |good_for| good_for.min(longest));
        let record = SessionRecord {
            id: id.stored(),
            account,
            name: caller.name.clone(),
            proof,
            began_at: now,
            seen_at: now,
            ends_at: now.checked_add(lasts).unwrap_or(now),
        };
        let unused_since = before(now, self.sessions.times.idle);
        let stored = self.deployments.store.begin_session(&record, unused_since).await;
        stored.map_err(|error| unreadable(&error))?;
        tracing::info!(account = record.account, "signed in");
        let cookie = self.sessions.jar.set(Cookie::Session, &id.0, lasts.as_secs());
        cookie.ok_or_else(|| no_session(&"the cookie cannot be written"))
    }

    /// Ends a session, or all of its account; returns the header that removes the cookie.
    pub(crate) async fn end_session(
        &self,
        session: &BrowserSession,
        everywhere: bool,
    ) -> Result<Option<HeaderValue>, Problem> {
        let store = &self.deployments.store;
        let account = session.caller.account();
        let ended = if everywhere {
            store.end_sessions_of(&account).await
        } else {
            store.end_session(&session.id).await.map(|()| 1)
        };
        let sessions = ended.map_err(|error| unreadable(&error))?;
        tracing::info!(account, sessions, "signed out");
        Ok(self.sessions.jar.remove(Cookie::Session))
    }

    /// Returns the token of the forms of callers without a session: where no token is needed at all.
    pub(crate) fn form_token_of_nobody(&self) -> String {
        self.form_token(None)
    }

    fn form_token(&self, id: Option<&SessionId>) -> String {
        let text = id.map_or("", |id| id.0.as_str());
        self.sessions.jar.key().sign("form", text)
    }

    /// Fails unless a form comes from a page of this service, as its browser says.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let from_elsewhere = || {
            tracing::warn!("form refused: it comes from another site");
            let detail = "the form was not sent by a page of this service; open the page again \
                          (a proxy must pass `Origin` on, and `Host` or `server.external_url` must be its address)";
            Problem::new(ProblemKind::Forbidden, detail)
        };
        if text(FETCH_SITE).is_some_and(|site| site != "same-origin") {
            return Err(from_elsewhere());
        }
        let origin = text(ORIGIN.as_str()).ok_or_else(from_elsewhere)?;
        let is_same = is_origin_of(origin, &self.sessions.external_url)
            || text(HOST.as_str()).is_some_and(|host| {
                origin.split_once("://").is_some_and(|(_, place)| place.eq_ignore_ascii_case(host))
            });
        if is_same { Ok(()) } else { Err(from_elsewhere()) }
    }
}

impl SessionId {
    /// The id under which the session is stored.
    fn stored(&self) -> String {
        hex::encode(Sha256::digest(&self.0))
    }

    /// The key of the person's token.
    fn token_key(&self) -> [u8; 32] {
        Sha256::new().chain_update(b"token\0").chain_update(&self.0).finalize().into()
    }
}

/// Returns whether the address is on that origin: scheme, host and port.
fn is_origin_of(origin: &str, address: &str) -> bool {
    let parse = |text: &str| reqwest::Url::parse(text).ok();
    match (parse(origin), parse(address)) {
        (Some(origin), Some(address)) => origin.origin() == address.origin(),
        _ => false,
    }
}

fn before(now: Timestamp, time: SignedDuration) -> Timestamp {
    now.checked_sub(time).unwrap_or(Timestamp::MIN)
}

fn unreadable(error: &StoreError) -> Problem {
    tracing::error!(%error, "sessions could not be read or stored");
    Problem::new(ProblemKind::Unavailable, "sessions cannot be read or stored now; try again later")
}

fn no_session(reason: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%reason, "session could not begin");
    Problem::new(ProblemKind::Internal, "you cannot be signed in now; the service's log has more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for (origin, address, is) in [
            ("https://d.example.com", "https://d.example.com", true),
            ("https://d.example.com:443", "https://D.example.com/x", true),
            ("http://d.example.com", "https://d.example.com", false),
            ("https://d.example.com:8443", "https://d.example.com", false),
            ("https://d.example.com.evil.net", "https://d.example.com", false),
            ("null", "https://d.example.com", false),
        ] {
            assert_eq!(is_origin_of(origin, address), is, "{origin} {address}");
        }
    }

    #[test]
    fn what_is_stored_does_not_lead_to_the_cookie_or_the_token() {
        let id = SessionId("ab".repeat(32));
        assert!(id.stored() != id.0 && id.stored() != hex::encode(id.token_key()));
    }
}
