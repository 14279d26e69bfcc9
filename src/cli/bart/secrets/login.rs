//! `bart secrets login`.

use clap::Args;
use secrecy::SecretString;
use serde_json::json;

use crate::cli::bart::deploy;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{BOLD, Format, GOOD};
use crate::cli::secret_store::target_secrets::StoreArgs;
use crate::cli::secret_store::vault_login::{
    VaultLoginMethod, VaultLoginRequest, location_key, log_in,
};
use crate::cli::settings::{logins, vault_logins};
use crate::cli::times::TimeFormatter;
use crate::config;
use crate::model::id::TargetName;

/// Logs in at the Vault of a target, and stores the token on this machine, for that Vault alone.
///
/// Without it, `VAULT_TOKEN` and `~/.vault-token` count if `VAULT_ADDR` names the same Vault; else the token is asked for.
/// Where secrets are in the cluster, your kubeconfig is the login.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart secrets login prod-cluster-1 --method oidc
  bart secrets login prod-cluster-1 --method github
  vault print token | bart secrets login prod-cluster-1 --method token")]
pub(in crate::cli::bart) struct VaultLogIn {
    /// The target
    target: TargetName,
    /// The way to log in
    #[arg(long, value_enum, default_value = "oidc")]
    method: VaultLoginMethod,
    /// The mount path of the auth method in Vault. Default: the method's name
    #[arg(long, value_name = "PATH")]
    mount: Option<String>,
    /// The role of the OIDC method. Default: the method's own
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// The port of this machine to which the browser comes back; the role in Vault must allow it
    #[arg(long, value_name = "PORT", default_value_t = 8250)]
    port: u16,
    #[command(flatten)]
    store: StoreArgs,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl VaultLogIn {
    pub(super) async fn run(self) -> CommandOutcome {
        let vault = self.store.find_vault(&self.target).await?;
        let request = VaultLoginRequest {
            method: self.method,
            github_token: self.github_token()?,
            mount: self.mount,
            role: self.role,
            port: self.port,
        };
        let login = log_in(&vault, &request).await?;
        let path = vault_logins::store(&location_key(&vault), &login)?.display().to_string();
        let address = &vault.address;
        let data =
            json!({"vault": address, "name": login.name, "until": login.until, "path": path});
        self.output.print(&data, || {
            let until = login.until.map(|until| format!(", which ends {}", TimeFormatter::system().ahead(until)));
            let until = until.unwrap_or_default();
            let name = &login.name;
            format!("{GOOD}ok{GOOD:#} logged in at {address} as {BOLD}{name}{BOLD:#}{until}\n   the token is in {path}\n")
        })
    }

    /// Finds the GitHub token for the method of that name: of a variable, else of `bart login`.
    fn github_token(&self) -> Result<Option<SecretString>, CliError> {
        if self.method != VaultLoginMethod::Github {
            return Ok(None);
        }
        let environment = config::environment();
        match deploy::create::pick_variable(&environment, true) {
            Some(token) => Ok(Some(token.into())),
            None => Ok(logins::at(self.store.server.url())?.map(|login| login.token)),
        }
    }
}
