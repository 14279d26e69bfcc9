//! The web flow of the App: a person in a browser allows it to act for them, and it gets a token for the code that they
//! bring back. Codes are good once, for ten minutes, and with their verifier only.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::harness::github::World;
use crate::harness::github::answer::{Answer, Answered, ok};
use crate::harness::github::app::Grant;
use crate::harness::github::call::Call;
use crate::harness::github::state::State;

/// The App's client id.
pub(crate) const CLIENT_ID: &str = "Iv23liOfTheWebFlow";
/// The App's client secret.
pub(crate) const CLIENT_SECRET: &str = "c1ient-s3cret-of-the-web-flow";
/// What a code is good for.
const CODE_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// What a token of a person is good for.
const TOKEN_LIFE: u64 = 8 * 3600;

/// The App as an OAuth client.
#[derive(Default)]
pub(super) struct OAuth {
    callback: String,
    /// Who has signed in at GitHub in the browser.
    reader: Option<String>,
    codes: BTreeMap<String, Code>,
}

impl OAuth {
    /// Who has signed in at GitHub in the browser.
    pub(super) fn reader(&self) -> Option<String> {
        self.reader.clone()
    }
}

struct Code {
    login: String,
    challenge: String,
    redirect_uri: String,
    made_at: Timestamp,
}

impl World {
    /// The App leads people back to that address.
    pub(crate) fn leads_back_to(&self, callback: &str) {
        callback.clone_into(&mut self.state().oauth.callback);
    }

    /// In the browser sits this person, who has signed in at GitHub.
    pub(crate) fn sits_at_browser(&self, login: &str) {
        let mut state = self.state();
        state.people.entry(login.to_owned()).or_default();
        state.oauth.reader = Some(login.to_owned());
    }
}

/// `GET /login/oauth/authorize`: asks the person first.
pub(super) fn authorize(state: &mut State, call: &Call) -> Answered {
    let value = |name: &str| call.query.get(name).cloned().unwrap_or_default();
    let (redirect_uri, challenge) = (value("redirect_uri"), value("code_challenge"));
    let is_known = value("client_id") == CLIENT_ID && redirect_uri == state.oauth.callback;
    if !is_known || value("code_challenge_method") != "S256" || challenge.len() != 43 {
        return Err(Answer::refusal(
            400,
            "The redirect_uri is not associated with this application.",
        ));
    }
    let Some(login) = state.oauth.reader.clone() else {
        return Err(Answer::refusal(401, "Sign in to GitHub"));
    };
    let back = |query: String| {
        let location = format!("{redirect_uri}?{query}&state={}", value("state"));
        Ok(Answer::empty(302).with("location", location))
    };
    match &*value("allow") {
        "" => {
            let page = format!(
                "<!doctype html><html lang=en><title>GitHub</title><link rel=icon href=\"data:,\"><h1>Authorize the-deployer, {login}?</h1>\
                 <p><a href=\"/{0}&allow=yes\">Authorize</a> <a href=\"/{0}&allow=no\">Cancel</a></p></html>",
                call.target.trim_start_matches('/').replace('&', "&amp;")
            );
            let kind = ("content-type", "text/html; charset=utf-8".to_owned());
            Ok(Answer { status: 200, headers: vec![kind], body: page.into_bytes() })
        }
        "yes" => {
            let code = format!("c0de-{}", state.next_id());
            let made_at = state.now();
            let entry = Code { login, challenge, redirect_uri: redirect_uri.clone(), made_at };
            state.oauth.codes.insert(code.clone(), entry);
            back(format!("code={code}"))
        }
        _ => back(
            "error=access_denied&error_description=The+user+has+denied+your+application+access."
                .to_owned(),
        ),
    }
}

/// `POST /login/oauth/access_token`: errors have status 200, too.
pub(super) fn access_token(state: &mut State, call: &Call) -> Answered {
    let refusal = |word: &str| ok(&json!({"error": word, "error_description": "as GitHub says"}));
    let text = |name: &str| call.text(name).unwrap_or_default();
    if call.header("accept") != Some("application/json") {
        return Err(Answer::refusal(406, "it would answer with a form"));
    }
    if text("client_id") != CLIENT_ID || text("client_secret") != CLIENT_SECRET {
        return refusal("incorrect_client_credentials");
    }
    let now = state.now();
    let Some(code) = state.oauth.codes.remove(&text("code")) else {
        return refusal("bad_verification_code");
    };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(text("code_verifier")));
    if challenge != code.challenge || now.duration_since(code.made_at) > CODE_LIFE {
        return refusal("bad_verification_code");
    }
    if text("redirect_uri") != code.redirect_uri {
        return refusal("redirect_uri_mismatch");
    }
    let token = format!("ghu_{:036}", state.next_id());
    state.grants.insert(token.clone(), Grant::Personal { login: code.login });
    ok(
        &json!({"access_token": token, "token_type": "bearer", "scope": "", "expires_in": TOKEN_LIFE,
        "refresh_token": "ghr_of-no-use", "refresh_token_expires_in": 15_897_600}),
    )
}
