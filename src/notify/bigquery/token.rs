//! Access tokens for BigQuery: by a service account's key, from the metadata server of Google's machines, or none for an
//! emulator. A token is kept until shortly before its end.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::model::status::one_line;
use crate::notify::bigquery::error::{BigQueryError, ServiceKeyError};
use crate::notify::bigquery::key::{SCOPE, ServiceAccountKey};
use crate::support::cause::innermost_cause;
use crate::support::credential::Credential;
use crate::support::http::body::read_bounded;
use crate::support::http::retry_after::retry_after;
use crate::support::percent::encode_segment;
use crate::support::time::saturating_add;

const TOKEN_SERVER: &str = "Google's token server";
const METADATA_SERVER: &str = "the metadata server";

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const FORM: &str = "application/x-www-form-urlencoded";
/// The header by which the metadata server tells its own requests and answers from others.
const FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");
/// The time before its end at which a token is not used any more.
const RESERVE: SignedDuration = SignedDuration::from_secs(60);
/// The largest answer, in bytes; a token has about a thousand.
const LARGEST_ANSWER: usize = 64 * 1024;
/// The longest text of an answer that is shown, in characters.
const LONGEST_TEXT: usize = 200;

/// The origin of tokens.
#[derive(Debug, Clone)]
pub enum BigQueryAccess {
    /// The key of a service account. A file is read anew for each token, so that it may be renewed.
    Key(Credential),
    /// The metadata server of Google's machines, at that host: the machine's or pod's own service account.
    Metadata(String),
    /// None: an emulator on this machine.
    Open,
}

/// The tokens of one receiver. One request at a time makes a new token, and the others wait for it.
#[derive(Debug)]
pub(super) struct BigQueryTokens {
    access: BigQueryAccess,
    /// The client for the token server.
    client: Client,
    /// The client for the metadata server, which no proxy reaches.
    direct: Client,
    timeout: Duration,
    token: Mutex<Option<AccessToken>>,
}

#[derive(Debug, Clone)]
struct AccessToken {
    text: SecretString,
    until: Timestamp,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: u32,
}

/// The answer of the token server to a request that it refuses.
#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenRefusal {
    error: String,
    error_description: String,
}

impl BigQueryTokens {
    pub(super) fn new(
        access: BigQueryAccess,
        client: Client,
        direct: Client,
        timeout: Duration,
    ) -> Self {
        Self { access, client, direct, timeout, token: Mutex::default() }
    }

    /// Adds a token to the request, where requests have one; returns it, so that it can be given back as refused.
    pub(super) async fn authorize(
        &self,
        request: RequestBuilder,
        now: Timestamp,
    ) -> Result<(RequestBuilder, Option<SecretString>), BigQueryError> {
        let mut token = self.token.lock().await;
        let text = if let Some(token) = token.as_ref().filter(|token| token.until > now) {
            token.text.clone()
        } else {
            let Some((server, token_request)) = self.token_request(now).await? else {
                return Ok((request, None));
            };
            let new_token = self.read_token(token_request, server, now).await?;
            token.insert(new_token).text.clone()
        };
        Ok((request.bearer_auth(text.expose_secret()), Some(text)))
    }

    /// Drops a token that was refused, unless there is another one by now.
    pub(super) async fn refuse(&self, refused: &SecretString) {
        let mut token = self.token.lock().await;
        let is_it = |token: &mut AccessToken| token.text.expose_secret() == refused.expose_secret();
        let _refused = token.take_if(is_it);
    }

    /// Builds the request for a token, with the server that it is for; `None` where requests have no token.
    async fn token_request(
        &self,
        now: Timestamp,
    ) -> Result<Option<(&'static str, RequestBuilder)>, BigQueryError> {
        Ok(match &self.access {
            BigQueryAccess::Key(credential) => {
                let content = credential.content().await;
                let content =
                    content.map_err(|error| ServiceKeyError::Unreadable(error.to_string()))?;
                let key = ServiceAccountKey::parse(&content)?;
                let assertion = key.assertion(now)?;
                // A JWT has only letters, digits, `-`, `_` and `.`, which a form takes as they are.
                let (grant, assertion) = (encode_segment(GRANT), assertion.expose_secret());
                let form = format!("grant_type={grant}&assertion={assertion}");
                let request = self.client.post(key.token_server());
                Some((TOKEN_SERVER, request.header(CONTENT_TYPE, FORM).body(form)))
            }
            BigQueryAccess::Metadata(host) => {
                let path = "computeMetadata/v1/instance/service-accounts/default/token";
                let request = self.direct.get(format!("http://{host}/{path}?scopes={SCOPE}"));
                Some((METADATA_SERVER, request.header(FLAVOR, HeaderValue::from_static("Google"))))
            }
            BigQueryAccess::Open => None,
        })
    }

    async fn read_token(
        &self,
        request: RequestBuilder,
        server: &'static str,
        now: Timestamp,
    ) -> Result<AccessToken, BigQueryError> {
        let exchange = exchange(request, server, now);
        let late = || BigQueryError::Unreachable {
            server,
            reason: format!("no answer within {:?}", self.timeout),
        };
        tokio::time::timeout(self.timeout, exchange).await.unwrap_or_else(|_| Err(late()))
    }
}

async fn exchange(
    request: RequestBuilder,
    server: &'static str,
    now: Timestamp,
) -> Result<AccessToken, BigQueryError> {
    let unreachable = |error: reqwest::Error| BigQueryError::Unreachable {
        server,
        reason: innermost_cause(&error.without_url()).to_string(),
    };
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let after = retry_after(response.headers(), now);
    let body = read_bounded(reqwest::Body::from(response), LARGEST_ANSWER).await;
    let body = body.map_err(unreachable)?.bytes;
    if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
        let reason = format!("it answered {}", status.as_u16());
        return Err(BigQueryError::Busy { server, reason, after });
    }
    let answer = serde_json::from_slice::<TokenAnswer>(&body).ok();
    let Some(TokenAnswer { access_token, expires_in }) = answer.filter(|_| status.is_success())
    else {
        return Err(refusal(status, &body, server));
    };
    let lifetime = SignedDuration::from_secs(i64::from(expires_in)) - RESERVE;
    // A token without a future is used once.
    let until = saturating_add(now, lifetime);
    Ok(AccessToken { text: access_token.into(), until })
}

fn refusal(status: StatusCode, body: &[u8], server: &'static str) -> BigQueryError {
    let TokenRefusal { error, error_description } =
        serde_json::from_slice(body).unwrap_or_default();
    let text = [error, error_description].join(" ");
    let reason = match text.trim() {
        "" => format!("it answered {}", status.as_u16()),
        text => one_line(&format!("it answered {}, {text}", status.as_u16()), LONGEST_TEXT),
    };
    let hint = if server == METADATA_SERVER {
        "give the machine or pod a service account, or set notify.bigquery.key"
    } else {
        "see if the service account and its key of notify.bigquery.key are still there, and if this machine's clock is right"
    };
    BigQueryError::Refused { server, reason, hint }
}
