//! Logs in by GitHub's device flow (RFC 8628): bart shows a code, and the person types it into any browser.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::client;
use crate::cli::error::CliError;
use crate::cli::output::{self, BOLD};
use crate::support::clock::Clock;

/// The scopes of an OAuth App: read and deploy private repositories, and read the person's teams. A GitHub App has
/// permissions of its own and ignores them.
const SCOPES: &str = "repo read:org";
/// The specification's default (RFC 8628, 3.2), in seconds.
const INTERVAL: u64 = 5;
/// The seconds that `slow_down` adds (RFC 8628, 3.5).
const SLOWER: u64 = 5;
/// The longest life of a code, in seconds; GitHub's live a quarter of an hour.
const MAX_LIFE: u64 = 30 * 60;

/// A token that GitHub granted.
#[derive(Debug)]
pub(super) struct GrantedToken {
    pub(super) token: SecretString,
    /// The time when it expires, if it does.
    pub(super) until: Option<Timestamp>,
}

/// The codes of a login: one to show, one to poll with.
#[derive(Deserialize)]
struct Codes {
    device_code: SecretString,
    user_code: String,
    verification_uri: String,
    expires_in: u64,
    interval: Option<u64>,
}

/// GitHub's answer to a poll.
#[derive(Deserialize)]
struct Answer {
    access_token: Option<SecretString>,
    expires_in: Option<i64>,
    error: Option<String>,
    interval: Option<u64>,
}

/// The next step after an answer: the login is done, or is polled again after so many seconds.
type Next = ControlFlow<GrantedToken, u64>;

/// Shows a code and waits until the person has typed it at GitHub.
pub(super) async fn log_in(
    web_url: &str,
    client_id: &str,
    clock: &Clock,
) -> Result<GrantedToken, CliError> {
    client::only_safely(web_url)?;
    let codes: Codes =
        post(web_url, "login/device/code", &[("client_id", client_id), ("scope", SCOPES)]).await?;
    show(&codes, web_url)?;
    let life = Duration::from_secs(codes.expires_in.min(MAX_LIFE));
    let asking = ask(web_url, client_id, &codes, clock);
    tokio::time::timeout(life, asking).await.unwrap_or_else(|_| Err(too_late()))
}

/// Prints the address as GitHub gave it, if it is GitHub's.
fn show(codes: &Codes, web_url: &str) -> Result<(), CliError> {
    let Codes { user_code, verification_uri, .. } = codes;
    let is_plain = user_code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_plain || user_code.len() > 40 || !is_below(verification_uri, web_url) {
        return Err(client::not_github(web_url));
    }
    output::note(&format!(
        "Open {BOLD}{verification_uri}{BOLD:#}\nand type the code {BOLD}{user_code}{BOLD:#}\n\
         Waiting for your confirmation there; Ctrl-C cancels the login.\n"
    ));
    Ok(())
}

/// Returns whether an address has the same host and port as another.
fn is_below(address: &str, web_url: &str) -> bool {
    let origin = |text: &str| reqwest::Url::parse(text).ok().map(|url| url.origin());
    let (address, web) = (origin(address), origin(web_url));
    address.is_some_and(|origin| origin.is_tuple() && Some(origin) == web)
}

async fn ask(
    web_url: &str,
    client_id: &str,
    codes: &Codes,
    clock: &Clock,
) -> Result<GrantedToken, CliError> {
    use secrecy::ExposeSecret as _;
    let mut seconds = codes.interval.unwrap_or(INTERVAL);
    let form = [
        ("client_id", client_id),
        ("device_code", codes.device_code.expose_secret()),
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
    ];
    loop {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let answer = post(web_url, "login/oauth/access_token", &form).await?;
        match next(answer, seconds, clock.now())? {
            Next::Break(granted) => return Ok(granted),
            Next::Continue(longer) => seconds = longer,
        }
    }
}

/// Returns the next step after an answer. Pure.
fn next(answer: Answer, seconds: u64, now: Timestamp) -> Result<Next, CliError> {
    let Answer { access_token, expires_in, error, interval } = answer;
    if let Some(token) = access_token {
        let life = expires_in.filter(|life| *life > 0).map(SignedDuration::from_secs);
        let until = life.and_then(|life| now.checked_add(life).ok());
        return Ok(Next::Break(GrantedToken { token, until }));
    }
    Err(match error.as_deref() {
        Some("authorization_pending") => return Ok(Next::Continue(seconds)),
        Some("slow_down") => return Ok(Next::Continue(interval.unwrap_or(seconds + SLOWER))),
        Some("expired_token") => too_late(),
        Some("access_denied") => CliError::refused("the login was denied at GitHub"),
        Some("device_flow_disabled") => {
            CliError::refused("the App does not let people log in from a terminal")
                .hint("ask its owner to tick `Enable Device Flow` in the App's settings")
        }
        Some("incorrect_client_credentials") => {
            CliError::refused("GitHub does not know the client id")
                .hint("compare it with `Client ID` in the App's settings")
        }
        other => {
            let word: String = other.unwrap_or("nothing that is known").chars().take(60).collect();
            CliError::io(format!("GitHub answers {word:?}"))
        }
    })
}

fn too_late() -> CliError {
    CliError::refused("the code was not entered in time").hint("run `bart login` again")
}

/// Posts a form to GitHub; it refuses with status 200, or 400 and above.
async fn post<T: DeserializeOwned>(
    web_url: &str,
    path: &str,
    form: &[(&str, &str)],
) -> Result<T, CliError> {
    let body: BTreeMap<_, _> = form.iter().copied().collect();
    let request = client::client()?.post(format!("{web_url}/{path}"));
    let request = request.header("accept", "application/json").json(&body);
    let answer = request.send().await.map_err(|error| client::unreachable(web_url, &error))?;
    let status = answer.status();
    client::read_json(web_url, answer).await?.ok_or_else(|| {
        if !status.is_client_error() {
            return CliError::io(format!("{web_url} does not answer like GitHub ({status})"));
        }
        CliError::refused(format!("{web_url} rejects this client id ({status})"))
            .hint("compare it with `Client ID` in the App's settings, where `Enable Device Flow` must be ticked")
    })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn after(json: &str) -> Result<Next, CliError> {
        next(serde_json::from_str(json).unwrap(), 5, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_code_is_typed_at_github_and_nowhere_else() {
        for (address, is_github) in [
            ("https://github.com/login/device", true),
            ("https://github.com:443/login/device", true),
            ("https://github.com.evil.example/login/device", false),
            ("https://github.com@evil.example/login/device", false),
            ("http://github.com/login/device", false),
            ("https://github.com:8443/login/device", false),
            ("javascript:alert(1)", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_below(address, "https://github.com"), is_github, "{address}");
        }
    }

    #[test]
    fn a_token_is_taken_with_its_end() {
        let Ok(Next::Break(granted)) = after(r#"{"access_token": "t", "token_type": "bearer"}"#)
        else {
            panic!("done")
        };
        assert_eq!((granted.token.expose_secret(), granted.until), ("t", None));
        let Ok(Next::Break(granted)) = after(r#"{"access_token": "t", "expires_in": 28800}"#)
        else {
            panic!("done")
        };
        assert_eq!(granted.until.unwrap().as_second(), 28_800);
    }

    #[test]
    fn github_is_asked_as_often_as_it_likes() {
        for (json, seconds) in [
            (r#"{"error": "authorization_pending"}"#, 5),
            (r#"{"error": "slow_down"}"#, 10),
            (r#"{"error": "slow_down", "interval": 30}"#, 30),
        ] {
            let Ok(Next::Continue(longer)) = after(json) else { panic!("{json}") };
            assert_eq!(longer, seconds, "{json}");
        }
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        for (json, expected) in [
            (r#"{"error": "expired_token"}"#, "in time"),
            (r#"{"error": "access_denied"}"#, "was denied"),
            (r#"{"error": "device_flow_disabled"}"#, "from a terminal"),
            (r#"{"error": "incorrect_client_credentials"}"#, "client id"),
            (r#"{"error": "\u001b[31m"}"#, "GitHub answers"),
            ("{}", "nothing that is known"),
        ] {
            let message = after(json).unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains('\u{1b}'), "{message}");
        }
    }
}
