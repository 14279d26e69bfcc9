//! The registration of the service's GitHub App from a manifest ("Registering a GitHub App from a manifest", GitHub
//! Docs): the manifest, the page of GitHub that takes it, and the exchange of the code for the App's keys.

use std::ops::RangeInclusive;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::ACCEPT;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::forge::github::address::web_url;
use crate::forge::github::auth::key::{AppCredentials, AppKeyError};
use crate::support::cause::innermost_cause;
use crate::support::host::is_encrypted_or_local;
use crate::support::http::body::read_bounded;
use crate::support::percent::encode_segment;

/// The permissions of the App, and the level of each; `contents` is `write` if the App pushes to the manifest
/// repository.
pub const APP_PERMISSIONS: [(&str, &str); 6] = [
    ("checks", "write"),
    ("contents", "read"),
    ("deployments", "write"),
    ("metadata", "read"),
    ("pull_requests", "read"),
    ("statuses", "write"),
];
/// The events that the App gets.
pub const APP_EVENTS: [&str; 3] = ["deployment", "pull_request", "push"];
/// The longest name of an App.
pub const MAX_APP_NAME: usize = 34;
/// The path of the service that takes events.
const HOOK_PATH: &str = "/webhooks/github";
/// The path of the service to which GitHub sends people back who sign in.
const CALLBACK_PATH: &str = "/sign-in/callback";
/// The answer has two keys of some kilobytes.
const LIMIT: usize = 256 * 1024;
/// The longest exchange, with its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The lengths of a code; GitHub's have 40 characters.
const CODE_LENGTHS: RangeInclusive<usize> = 20..=256;

/// The description of an App that does not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppManifest {
    /// The name, unique on its GitHub.
    pub name: String,
    /// The service's public address, without a slash at its end.
    pub service_url: String,
    /// The address to which GitHub leads the browser back, with the code.
    pub redirect_url: String,
    /// True if the App also pushes to the manifest repository.
    pub pushes: bool,
}

/// An App that GitHub has just registered. The secrets do not print.
#[derive(Debug)]
pub struct RegisteredApp {
    /// Its number.
    pub id: u64,
    /// Its name, as a person confirmed it.
    pub name: String,
    /// The account that owns it.
    pub owner: String,
    /// Its page.
    pub html_url: Option<String>,
    /// The client id, which is no secret.
    pub client_id: String,
    /// The client secret, for people who sign in.
    pub client_secret: SecretString,
    /// The secret that signs events.
    pub webhook_secret: SecretString,
    /// The private key, as PEM.
    pub private_key: SecretString,
}

/// The reason why a code brought no App.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The text is no code.
    #[error("this is no code of GitHub's: it has letters, digits, `_` and `-`")]
    NoCode,
    /// The code would go over an unencrypted connection.
    #[error("the code would go to {0} in the clear: use its https address")]
    InTheClear(String),
    /// GitHub does not know the code.
    #[error(
        "{0} does not know the code: a code works once, and for one hour; register the App again"
    )]
    UnknownCode(String),
    /// GitHub refuses for another reason.
    #[error("{host} refuses to register the App (HTTP {status}){message}")]
    Refused {
        /// The address of the API.
        host: String,
        /// The status.
        status: u16,
        /// The reason in its words, with `: ` before it, or nothing.
        message: String,
    },
    /// There was no connection: the code still counts.
    #[error("{host} cannot be reached: {problem}; the code was not sent, and counts for an hour")]
    NotSent {
        /// The address of the API.
        host: String,
        /// The cause.
        problem: String,
    },
    /// GitHub gives no answer.
    #[error(
        "{host} cannot be reached: {problem}; the code may be used up: if the App is in GitHub's list of Apps now, \
         delete it there, and register it again"
    )]
    Unreachable {
        /// The address of the API.
        host: String,
        /// The cause.
        problem: String,
    },
    /// The answer has no App that can be used.
    #[error("the answer of {host} cannot be used: {problem}")]
    Unusable {
        /// The address of the API.
        host: String,
        /// The part that is missing or wrong.
        problem: String,
    },
}

impl RegistrationError {
    /// Returns whether a person may paste another code, or the same one again.
    pub fn allows_another_code(&self) -> bool {
        matches!(self, Self::NoCode | Self::UnknownCode(_) | Self::NotSent { .. })
    }
}

impl AppManifest {
    /// Returns the manifest as GitHub reads it.
    pub fn to_json(&self) -> Json {
        let permissions =
            app_permissions(self.pushes).map(|(name, level)| (name.to_owned(), json!(level)));
        json!({
            "name": self.name,
            "url": self.service_url,
            "description": "Deploys what GitHub Deployments ask for",
            "hook_attributes": {"url": format!("{}{HOOK_PATH}", self.service_url), "active": true},
            "redirect_url": self.redirect_url,
            "callback_urls": [format!("{}{CALLBACK_PATH}", self.service_url)],
            "public": false,
            "default_permissions": Json::Object(permissions.into_iter().collect()),
            "default_events": APP_EVENTS,
        })
    }
}

/// Returns the permissions of an App, and the level of each: one that pushes to the manifest repository writes contents.
pub fn app_permissions(pushes: bool) -> [(&'static str, &'static str); APP_PERMISSIONS.len()] {
    APP_PERMISSIONS.map(|(name, level)| match name {
        "contents" if pushes => (name, "write"),
        _ => (name, level),
    })
}

/// Returns the page of GitHub that takes the manifest, for an organization or for the person's own account.
pub fn registration_page(api_url: &str, organization: Option<&str>, state: &str) -> String {
    let owner = organization.map(|name| format!("/organizations/{}", encode_segment(name)));
    let (web, owner) = (web_url(api_url), owner.unwrap_or_default());
    format!("{web}{owner}/settings/apps/new?state={}", encode_segment(state))
}

/// Exchanges the code that GitHub gave to the browser for the App and its keys. GitHub takes a code once.
///
/// # Errors
/// [`RegistrationError`]
pub async fn exchange_code(
    http: &reqwest::Client,
    api_url: &str,
    code: &str,
) -> Result<RegisteredApp, RegistrationError> {
    let host = api_url.trim_end_matches('/').to_owned();
    if !is_code(code) {
        return Err(RegistrationError::NoCode);
    }
    if !is_encrypted_or_local(&host) {
        return Err(RegistrationError::InTheClear(host));
    }
    let unreachable = |error: &reqwest::Error| {
        let (host, problem) = (host.clone(), innermost_cause(error).to_string());
        if error.is_connect() {
            RegistrationError::NotSent { host, problem }
        } else {
            RegistrationError::Unreachable { host, problem }
        }
    };
    let request = http.post(format!("{host}/app-manifests/{}/conversions", encode_segment(code)));
    let request = request.header(ACCEPT, "application/vnd.github+json").timeout(TIMEOUT);
    let answer = request.send().await.map_err(|error| unreachable(&error.without_url()))?;
    let status = answer.status();
    let body = read_bounded(reqwest::Body::from(answer), LIMIT).await;
    let body = body.map_err(|error| unreachable(&error.without_url()))?;
    match status {
        StatusCode::CREATED | StatusCode::OK if !body.is_cut => read_app(&host, &body.bytes),
        StatusCode::NOT_FOUND => Err(RegistrationError::UnknownCode(host)),
        status => {
            let message = read_message(&body.bytes);
            Err(RegistrationError::Refused { host, status: status.as_u16(), message })
        }
    }
}

/// Returns whether the text can be a code.
pub fn is_code(text: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    CODE_LENGTHS.contains(&text.len()) && text.bytes().all(is_legal)
}

/// Reads the words of a refusal, shortened.
fn read_message(body: &[u8]) -> String {
    let body: Json = serde_json::from_slice(body).unwrap_or_default();
    let text = body.get("message").and_then(Json::as_str).unwrap_or_default();
    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// Reads the App, and checks what is written to files or shown.
fn read_app(host: &str, body: &[u8]) -> Result<RegisteredApp, RegistrationError> {
    #[derive(Deserialize)]
    struct Answer {
        id: u64,
        name: String,
        owner: Owner,
        html_url: String,
        client_id: String,
        client_secret: SecretString,
        webhook_secret: Option<SecretString>,
        pem: SecretString,
    }
    #[derive(Deserialize)]
    struct Owner {
        login: String,
    }
    let unusable = |problem: &str| RegistrationError::Unusable {
        host: host.to_owned(),
        problem: problem.to_owned(),
    };
    // The parser's own words may repeat a secret.
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|_| unusable("it has no App with its keys; a proxy may be in the way"))?;
    AppCredentials::parse(&answer.id.to_string(), &answer.pem)
        .map_err(|error: AppKeyError| unusable(&error.to_string()))?;
    let is_id = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if answer.client_id.is_empty() || !answer.client_id.bytes().all(is_id) {
        return Err(unusable("it has no client id"));
    }
    // The App exists by now: a page elsewhere is not shown, and the keys count.
    let page = Some(answer.html_url).filter(|page| is_page_of(page, &web_url(host)));
    let webhook_secret = answer.webhook_secret.ok_or_else(|| {
        unusable("it has no secret for the webhook: delete the App, and register it again")
    })?;
    Ok(RegisteredApp {
        id: answer.id,
        name: answer.name,
        owner: answer.owner.login,
        html_url: page.map(|page| page.trim_end_matches('/').to_owned()),
        client_id: answer.client_id,
        client_secret: answer.client_secret,
        webhook_secret,
        private_key: answer.pem,
    })
}

/// Returns whether an address is one of that GitHub.
fn is_page_of(address: &str, web_url: &str) -> bool {
    let origin = |text: &str| reqwest::Url::parse(text).ok().map(|url| url.origin());
    let (address, web) = (origin(address), origin(web_url));
    address.is_some_and(|origin| origin.is_tuple() && Some(origin) == web)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = include_str!("auth/tests/app.pem");

    fn answer(change: impl FnOnce(&mut Json)) -> Vec<u8> {
        let mut answer = json!({
            "id": 7, "name": "the-deployer", "owner": {"login": "acme"},
            "html_url": "https://github.com/apps/the-deployer", "client_id": "Iv23li", "client_secret": "s3cret",
            "webhook_secret": "h00k", "pem": KEY,
        });
        change(&mut answer);
        answer.to_string().into_bytes()
    }

    #[test]
    fn only_an_app_with_all_its_keys_is_used_and_no_error_shows_one() {
        type Change = fn(&mut Json);
        let read = |change: Change| read_app("https://api.github.com", &answer(change));
        let app = read(|_| {}).unwrap();
        assert_eq!((app.id, &*app.owner, &*app.client_id), (7, "acme", "Iv23li"));
        assert!(!format!("{app:?}").contains("s3cret"), "{app:?}");
        let pages: [Change; 2] = [
            |it| it["html_url"] = json!("https://evil.example/apps/x"),
            |it| it["html_url"] = json!("javascript:alert(1)"),
        ];
        for change in pages {
            assert_eq!(read(change).unwrap().html_url, None, "the App is there, and its page not");
        }
        let changes: [(Change, &str); 4] = [
            (|it| it["pem"] = json!("s3cret"), "no private key"),
            (|it| it["webhook_secret"] = Json::Null, "no secret for the webhook"),
            (|it| it["client_id"] = json!("a\nb"), "no client id"),
            (|it| it["id"] = json!("s3cret"), "no App with its keys"),
        ];
        for (change, problem) in changes {
            let error = read(change).unwrap_err().to_string();
            assert!(error.contains(problem) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_page_is_that_of_the_account_on_its_github() {
        for (api, organization, page) in [
            ("https://api.github.com", None, "https://github.com/settings/apps/new?state=s"),
            (
                "https://git.acme.com/api/v3",
                Some("a/b?c"),
                "https://git.acme.com/organizations/a%2Fb%3Fc/settings/apps/new?state=s",
            ),
            (
                "https://api.acme.ghe.com",
                Some("acme"),
                "https://acme.ghe.com/organizations/acme/settings/apps/new?state=s",
            ),
        ] {
            assert_eq!(registration_page(api, organization, "s"), page);
        }
    }

    #[test]
    fn a_code_is_nothing_that_leads_elsewhere() {
        assert!(is_code("a180b1a3d263c81bc6441d7b990bae27d4c10679"));
        let long = "a".repeat(30);
        for text in ["", "-", "yes", "a/b", "a?b", "../x", "a b", "ä"] {
            assert!(!is_code(text), "{text}");
        }
        for text in ["/", "?", "../", " ", "ä"] {
            assert!(!is_code(&format!("{long}{text}{long}")), "{text}");
        }
        assert!(!is_code(&"a".repeat(257)));
    }
}
