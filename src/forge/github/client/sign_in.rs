//! The web flow by which a person signs in with a browser: the address at GitHub, and the token for its answer
//! ("Generating a user access token for a GitHub App", GitHub Docs).
//!
//! The exchange is bound to this service's request by PKCE (RFC 7636): a code that somebody else has seen is of no use.

use std::time::Duration;

use reqwest::header::ACCEPT;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::forge::Forge;
use crate::forge::github::client::{AGENT, VISITORS_TIMEOUT};
use crate::model::person::IdentityError;
use crate::support::cause::innermost_cause;
use crate::support::http::body::read_bounded;
use crate::support::percent::encode_segment;

/// The answer has a token of some hundred bytes.
const LIMIT: usize = 64 * 1024;

/// The service as an OAuth client of the code host.
#[derive(Debug, Clone)]
pub struct OAuthClient {
    /// The client id, which is no secret.
    pub client_id: String,
    /// The client secret.
    pub client_secret: SecretString,
    /// The address to which the code host sends people back.
    pub callback_url: String,
}

/// A token for a person.
#[derive(Debug, Clone)]
pub struct PersonToken {
    /// The token.
    pub token: SecretString,
    /// The time for which it is good; `None` if it does not end by itself.
    pub good_for: Option<Duration>,
}

/// The answer: GitHub sends errors with status 200, too.
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: Option<SecretString>,
    expires_in: Option<u64>,
    error: Option<String>,
}

impl OAuthClient {
    /// Returns the address at which a person allows the service to act for them.
    pub fn authorize_url(&self, web_url: &str, state: &str, code_challenge: &str) -> String {
        let [client, callback, state, challenge] =
            [&*self.client_id, &self.callback_url, state, code_challenge].map(encode_segment);
        format!(
            "{web_url}/login/oauth/authorize?client_id={client}&redirect_uri={callback}&state={state}\
             &code_challenge={challenge}&code_challenge_method=S256&allow_signup=false"
        )
    }
}

impl Forge {
    /// Exchanges the code that a person brings back for a token of theirs.
    ///
    /// # Errors
    /// [`IdentityError::Forbidden`] if the code is not good, or the client is wrongly configured.
    pub async fn exchange_code(
        &self,
        client: &OAuthClient,
        code: &SecretString,
        verifier: &SecretString,
    ) -> Result<PersonToken, IdentityError> {
        let Self::GitHub(github) = self else {
            return Err(IdentityError::Forbidden("a local forge knows no people".to_owned()));
        };
        let _turn = github.visitors.at_once.acquire().await.expect("nobody closes it");
        let body = serde_json::json!({
            "client_id": client.client_id,
            "client_secret": client.client_secret.expose_secret(),
            "code": code.expose_secret(),
            "redirect_uri": client.callback_url,
            "code_verifier": verifier.expose_secret(),
        });
        let request = github.http.post(format!("{}/login/oauth/access_token", github.web_url));
        let request = request.header(ACCEPT, "application/json").header("user-agent", AGENT);
        let answer = request.timeout(VISITORS_TIMEOUT).json(&body).send().await;
        let answer = answer.map_err(|error| unavailable(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(IdentityError::Unavailable(format!("it answers {status} to a sign-in")));
        }
        let body = read_bounded(reqwest::Body::from(answer), LIMIT).await;
        let body = body.map_err(|error| unavailable(&error))?;
        read_answer(&body.bytes)
    }
}

fn unavailable(error: &reqwest::Error) -> IdentityError {
    IdentityError::Unavailable(innermost_cause(error).to_string())
}

fn read_answer(body: &[u8]) -> Result<PersonToken, IdentityError> {
    let unreadable = || IdentityError::Unavailable("its answer cannot be read".to_owned());
    let answer: TokenAnswer = serde_json::from_slice(body).map_err(|_| unreadable())?;
    match answer {
        TokenAnswer { access_token: Some(token), expires_in, error: None } => {
            Ok(PersonToken { token, good_for: expires_in.map(Duration::from_secs) })
        }
        TokenAnswer { error: Some(word), .. } => Err(IdentityError::Forbidden(explain(&word))),
        TokenAnswer { .. } => Err(unreadable()),
    }
}

/// Explains an error of GitHub's ("Troubleshooting OAuth app access token request errors", GitHub Docs).
fn explain(word: &str) -> String {
    match word {
        "bad_verification_code" => {
            "GitHub does not know the code any more: sign in again".to_owned()
        }
        "incorrect_client_credentials" => {
            "GitHub does not take the service's client secret: its operator checks \
             `forge.github.login`"
                .to_owned()
        }
        "redirect_uri_mismatch" => {
            "the App has another callback URL: its operator sets it to `server.external_url` and \
             `/sign-in/callback`"
                .to_owned()
        }
        "unverified_user_email" => "GitHub wants your e-mail address verified first".to_owned(),
        _ => "GitHub refuses the sign-in".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_has_everything_that_github_needs_encoded() {
        let client = OAuthClient {
            client_id: "Iv23".to_owned(),
            client_secret: "s3cret".into(),
            callback_url: "https://d.example.com/sign-in/callback".to_owned(),
        };
        assert_eq!(
            client.authorize_url("https://github.com", "a&b", "c=d"),
            "https://github.com/login/oauth/authorize?client_id=Iv23&redirect_uri=https%3A%2F%2Fd.example.com\
             %2Fsign-in%2Fcallback&state=a%26b&code_challenge=c%3Dd&code_challenge_method=S256&allow_signup=false"
        );
        assert!(!format!("{client:?}").contains("s3cret"));
    }

    #[test]
    fn an_answer_is_a_token_or_says_why_not() {
        let read = |text: &str| read_answer(text.as_bytes());
        let token = read(r#"{"access_token": "ghu_x", "expires_in": 28800, "scope": ""}"#).unwrap();
        assert_eq!(
            (token.token.expose_secret(), token.good_for),
            ("ghu_x", Some(Duration::from_hours(8)))
        );
        assert_eq!(read(r#"{"access_token": "ghu_x"}"#).unwrap().good_for, None);
        for (text, expected) in [
            (r#"{"error": "bad_verification_code"}"#, "sign in again"),
            (r#"{"error": "incorrect_client_credentials"}"#, "client secret"),
            (r#"{"error": "redirect_uri_mismatch"}"#, "callback URL"),
            (r#"{"error": "<b>"}"#, "refuses the sign-in"),
            ("{}", "cannot be read"),
            ("<html>", "cannot be read"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
