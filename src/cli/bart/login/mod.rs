//! `bart login` and `bart logout` store a GitHub token for one service on this machine.

mod device; // GitHub's device flow

use std::io::{IsTerminal as _, Read as _};

use self::device::GrantedToken;
use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value as Json, json};

use crate::cli::client::{self, ServiceEndpoint};
use crate::cli::context::ServiceArgs;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::host::Host;
use crate::cli::output::{self, BOLD, GOOD, note_line};
use crate::cli::settings::BartSettings;
use crate::cli::settings::logins::{self, SavedLogin};
use crate::cli::times::TimeFormatter;
use crate::support::clock::Clock;

/// Logs in at the service with GitHub, and stores the token on this machine.
///
/// bart shows a code, which you type at GitHub in any browser, on any machine. The token that GitHub then grants is
/// stored in the system's folder for settings, readable by you alone, and is sent only to that GitHub and to this one
/// service. `BART_TOKEN` goes before it, and for creating deployments `BART_GITHUB_TOKEN`, `GH_TOKEN` and
/// `GITHUB_TOKEN`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart login --server https://deployer.example.com
  gh auth token | bart login --with-token
  bart logout")]
pub(super) struct LogIn {
    /// Read a GitHub token from standard input instead: a personal one, or another program's
    #[arg(long)]
    with_token: bool,
    /// The client id that is presented to GitHub, if the service does not name one
    #[arg(long, value_name = "ID", conflicts_with = "with_token")]
    client_id: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Removes the login at the service from this machine; at GitHub the token stays valid until it is revoked there.
#[derive(Debug, Args)]
pub(super) struct LogOut {
    #[command(flatten)]
    server: ServiceEndpoint,
}

impl LogIn {
    pub(super) async fn run(self, settings: BartSettings) -> CommandOutcome {
        let server = &self.service.server;
        let Host::GitHub { api_url, web_url, client_id } = Host::fetch(server).await? else {
            let message = format!("{} has local repositories and needs no login", server.url());
            return Err(CliError::refused(message));
        };
        client::only_safely(server.url())?;
        let new_token = if self.with_token {
            GrantedToken { token: read_token()?, until: None }
        } else {
            let configured = self.client_id.clone().or(client_id).or(settings.github_client_id);
            let client_id = configured.ok_or_else(|| no_client(server.url()))?;
            device::log_in(&web_url, &client_id, &Clock::system()).await?
        };
        let name = fetch_login(&api_url, &new_token.token).await?;
        let GrantedToken { token, until } = new_token;
        let login = SavedLogin { name, api_url, token, until };
        let path = logins::store(server.url(), &login)?.display().to_string();
        let (SavedLogin { name, until, .. }, server) = (&login, server.url());
        let data = json!({"name": name, "github": web_url, "server": server, "path": path, "until": until});
        self.service.output.print(&data, || {
            let ahead = until.map(|until| format!(", which ends {}", TimeFormatter::system().ahead(until)));
            let end = ahead.unwrap_or_default();
            format!(
                "{GOOD}ok{GOOD:#} logged in at {server} as {BOLD}{name}{BOLD:#} of {web_url}{end}\n   the token is in {path}\n"
            )
        })
    }
}

impl LogOut {
    pub(super) fn run(&self) -> CommandOutcome {
        let server = self.server.url();
        if logins::forget(server)? {
            return output::print(&format!("{GOOD}ok{GOOD:#} logged out at {server}\n"));
        }
        output::print(&note_line(format!("there was no login at {server}")))
    }
}

fn no_client(server: &str) -> CliError {
    CliError::refused(format!("{server} does not offer logins: it names no client id")).hint(
        "ask its operator to set `forge.github.login.client_id`; or give bart a token: \
         `gh auth token | bart login --with-token`",
    )
}

/// Reads a token from standard input: everybody on the machine can see arguments.
fn read_token() -> Result<SecretString, CliError> {
    const MAX: u64 = 4096;
    if std::io::stdin().is_terminal() {
        output::note("Paste a GitHub token, then press Enter and Ctrl-D:\n");
    }
    let mut text = String::new();
    let result = std::io::stdin().lock().take(MAX).read_to_string(&mut text);
    result.map_err(|_| CliError::io("standard input has no token"))?;
    let token = text.trim();
    if token.is_empty() || token.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(CliError::usage("standard input has no token")
            .hint("pipe one in: `gh auth token | bart login --with-token`"));
    }
    Ok(token.into())
}

/// Asks GitHub for the token's user: an invalid token is not stored.
async fn fetch_login(api_url: &str, token: &SecretString) -> Result<String, CliError> {
    client::only_safely(api_url)?;
    let request = client::client()?.get(format!("{api_url}/user"));
    let request = request.header("accept", "application/vnd.github+json");
    let answer = request.bearer_auth(token.expose_secret()).send().await;
    let answer = answer.map_err(|error| client::unreachable(api_url, &error))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(CliError::refused(format!("{api_url} does not take the token ({status})"))
            .hint("make sure that it is a token of that GitHub, and has not expired"));
    }
    let user: Option<Json> = client::read_json(api_url, answer).await?;
    let name = user.as_ref().and_then(|user| user["login"].as_str());
    name.map(str::to_owned).ok_or_else(|| client::not_github(api_url))
}
