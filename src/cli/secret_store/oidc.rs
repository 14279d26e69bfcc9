//! A login at Vault's OIDC method through the browser, as Vault's own program does it: Vault names the address of the
//! identity provider, the browser comes back to a port of this machine with a code, and Vault exchanges it for a token.

use std::time::Duration;

use reqwest::{Method, Url};
use secrecy::SecretString;
use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::vault::{PersonalVault, VaultAnswer, login_refusal};
use crate::cli::bart::open::open_browser;
use crate::cli::client;
use crate::cli::error::CliError;
use crate::cli::loopback::read_head;
use crate::cli::output::{self, BOLD};
use crate::support::random::random_bytes;

/// The path of the callback, as Vault's own program has it.
const CALLBACK: &str = "/oidc/callback";
/// The longest time that a person has in the browser.
const PATIENCE: Duration = Duration::from_mins(5);
/// The deadline of one request of a browser.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// The answer of the identity provider, as the browser brings it.
#[derive(Debug, PartialEq, Eq)]
enum Callback {
    /// A code for this login.
    Code { state: String, code: String },
    /// The provider refuses, in its words.
    Refused(String),
    /// Another request than the one that is waited for.
    Other,
}

/// Sends the person to the identity provider, and exchanges the code; the answer has the token.
pub(super) async fn log_in(
    vault: &PersonalVault,
    mount: &str,
    role: &str,
    port: u16,
) -> Result<VaultAnswer, CliError> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
        CliError::io(format!("the browser cannot come back to port {port} of this machine: {error}"))
            .hint("another login may be in progress; or name another port with --port, which the role in Vault must allow")
    })?;
    let port = listener.local_addr().map_or(port, |address| address.port());
    let nonce = random_bytes().map(hex::encode).map_err(CliError::failed)?;
    let redirect = format!("http://localhost:{port}{CALLBACK}");
    let body = json!({"role": role, "redirect_uri": redirect, "client_nonce": nonce});
    let path = format!("auth/{mount}/oidc/auth_url");
    let answer = vault.request(Method::POST, &path, &[], Some(&body)).await?;
    let nothing = SecretString::default();
    let address =
        answer.part("/data/auth_url").and_then(Json::as_str).filter(|text| !text.is_empty());
    let Some(address) = address.filter(|_| answer.status.is_success()) else {
        let error = login_refusal(&vault.location, mount, &answer, &nothing);
        return Err(error.hint(format!(
            "the role must allow the redirect {redirect}; name the role with --role, the mount path with --mount"
        )));
    };
    // A file or another program of this machine is no page of an identity provider.
    client::only_safely(address)?;
    let url =
        Url::parse(address).map_err(|_| CliError::io("Vault names no address for the login"))?;
    let state =
        url.query_pairs().find(|(key, _)| key == "state").map(|(_, value)| value.into_owned());
    let state = state
        .ok_or_else(|| CliError::io("Vault names an address without a state for the login"))?;
    output::note(&format!(
        "Log in in the browser; if none opens, go to\n{BOLD}{url}{BOLD:#}\nCtrl-C cancels the login.\n"
    ));
    let _by_hand = open_browser(&url);
    let waiting = tokio::time::timeout(PATIENCE, wait_for_code(&listener, &state));
    let code = waiting
        .await
        .map_err(|_| CliError::refused("nobody logged in in time").hint("run it again"))??;
    let query =
        [("state", state.as_str()), ("code", code.as_str()), ("client_nonce", nonce.as_str())];
    vault.request(Method::GET, &format!("auth/{mount}/oidc/callback"), &query, None).await
}

/// Waits for the browser with the state of this login; other requests are turned away.
async fn wait_for_code(listener: &TcpListener, state: &str) -> Result<String, CliError> {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let head = tokio::time::timeout(REQUEST_DEADLINE, read_head(&mut stream)).await;
        let callback = head.ok().flatten().map_or(Callback::Other, |head| parse_callback(&head));
        match callback {
            Callback::Code { state: own, code } if own == state => {
                answer(&mut stream, "200 OK", "You are logged in. You can close this page.").await;
                return Ok(code);
            }
            // Another page of the browser may know the port, but not the state.
            Callback::Code { .. } | Callback::Other => {
                answer(&mut stream, "404 Not Found", "This is not the login that bart waits for.")
                    .await;
            }
            Callback::Refused(words) => {
                answer(&mut stream, "200 OK", "The login was refused. You can close this page.")
                    .await;
                return Err(CliError::refused(format!(
                    "the identity provider refuses the login: {words}"
                )));
            }
        }
    }
}

/// Reads the request of a browser. Pure.
fn parse_callback(head: &str) -> Callback {
    let target = head.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let url = target.and_then(|target| Url::parse(&format!("http://localhost{target}")).ok());
    let Some(url) = url.filter(|url| url.path() == CALLBACK) else { return Callback::Other };
    let part = |name: &str| {
        let pair = url.query_pairs().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
    };
    match (part("state"), part("code"), part("error")) {
        (Some(state), Some(code), None) => Callback::Code { state, code },
        (_, _, Some(error)) => {
            let words = part("error_description").unwrap_or(error);
            Callback::Refused(words.chars().take(200).collect())
        }
        _ => Callback::Other,
    }
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    );
    // A browser that is gone needs no answer.
    let _is_gone = stream.write_all(answer.as_bytes()).await;
    let _is_gone = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_brings_a_code_or_a_refusal() {
        let parse =
            |target: &str| parse_callback(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"));
        let code = Callback::Code { state: "s".to_owned(), code: "c d".to_owned() };
        assert_eq!(parse("/oidc/callback?state=s&code=c%20d"), code);
        let refused = Callback::Refused("not you".to_owned());
        assert_eq!(
            parse("/oidc/callback?error=access_denied&error_description=not%20you&state=s"),
            refused
        );
        for target in
            ["/", "/oidc/callback", "/oidc/callback?state=s", "/favicon.ico?state=s&code=c"]
        {
            assert_eq!(parse(target), Callback::Other, "{target}");
        }
        assert_eq!(
            parse_callback("POST /oidc/callback?state=s&code=c HTTP/1.1\r\n\r\n"),
            Callback::Other
        );
    }
}
