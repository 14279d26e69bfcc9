//! Tokens for Vault: those that a person has, and logins that grant one.
//!
//! A token goes to the Vault that it is for and to no other. The service names a target's Vault, so a token of Vault's own
//! variables and file counts only if `VAULT_ADDR` names the same Vault.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value as Json, json};

use super::location::VaultLocation;
use super::oidc;
use super::prompt;
use super::vault::{PersonalVault, VaultAnswer, login_refusal};
use crate::cli::error::CliError;
use crate::cli::settings::vault_logins::{self, VaultLogin};
use crate::config;
use crate::support::clock::Clock;

/// The way to log in at Vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum VaultLoginMethod {
    /// A token that you type or pipe in
    Token,
    /// Your company's accounts, in the browser
    Oidc,
    /// A GitHub token: of the variables, of `bart login`, or typed
    Github,
}

/// The arguments of a login.
#[derive(Debug)]
pub(in crate::cli) struct VaultLoginRequest {
    pub(in crate::cli) method: VaultLoginMethod,
    /// The mount path of the auth method; absent: the method's usual one.
    pub(in crate::cli) mount: Option<String>,
    /// The role of the OIDC method; absent: its default.
    pub(in crate::cli) role: Option<String>,
    /// The port of this machine to which the browser comes back.
    pub(in crate::cli) port: u16,
    /// The GitHub token, where a login or a variable has one.
    pub(in crate::cli) github_token: Option<SecretString>,
}

/// The source of a token that a person has, by Vault's own rules and ours. Pure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum VaultTokenSource {
    Variable,
    Saved,
    File(PathBuf),
    Ask,
}

/// Chooses the source of the token for the Vault at that address.
fn choose_source(
    address: &str,
    environment: &BTreeMap<String, String>,
    is_saved: bool,
    has_file: bool,
) -> VaultTokenSource {
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let is_same = variable("VAULT_ADDR").is_some_and(|own| {
        own.trim_end_matches('/').eq_ignore_ascii_case(address.trim_end_matches('/'))
    });
    if is_same && variable("VAULT_TOKEN").is_some() {
        return VaultTokenSource::Variable;
    }
    if is_saved {
        return VaultTokenSource::Saved;
    }
    match token_file(environment) {
        Some(file) if is_same && has_file => VaultTokenSource::File(file),
        _ => VaultTokenSource::Ask,
    }
}

fn token_file(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let home = environment.get("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".vault-token"))
}

/// Finds the token that a person has for that Vault, or asks for it.
pub(super) async fn find_token(location: &VaultLocation) -> Result<SecretString, CliError> {
    let environment = config::environment();
    let saved = vault_logins::find(location_key(location).as_str())?;
    let now = Clock::system().now();
    let saved = saved.filter(|login| login.until.is_none_or(|until| until > now));
    let has_file = token_file(&environment).is_some_and(|file| file.is_file());
    match choose_source(&location.address, &environment, saved.is_some(), has_file) {
        VaultTokenSource::Variable => {
            Ok(environment.get("VAULT_TOKEN").map(|token| token.trim()).unwrap_or_default().into())
        }
        VaultTokenSource::Saved => Ok(saved.map(|login| login.token).unwrap_or_default()),
        VaultTokenSource::File(file) => {
            let text = std::fs::read_to_string(&file).map_err(CliError::file("read", &file))?;
            Ok(text.trim().into())
        }
        VaultTokenSource::Ask => {
            let address = &location.address;
            let token =
                prompt::read_token(&format!("Token for Vault at {address} (not shown): ")).await?;
            token.ok_or_else(|| {
                CliError::refused(format!("you are not logged in at Vault ({address})")).hint(format!(
                    "`bart secrets login TARGET`; or set VAULT_TOKEN, with VAULT_ADDR={address} to say that it is for this Vault"
                ))
            })
        }
    }
}

/// Returns the name under which a login at that Vault is saved.
pub(in crate::cli) fn location_key(location: &VaultLocation) -> String {
    let VaultLocation { address, namespace, .. } = location;
    format!("{address} {}", namespace.as_deref().unwrap_or_default()).trim_end().to_owned()
}

/// Logs in at that Vault; the token is not stored yet.
pub(in crate::cli) async fn log_in(
    location: &VaultLocation,
    request: &VaultLoginRequest,
) -> Result<VaultLogin, CliError> {
    let mut vault = PersonalVault { location: location.clone(), token: None };
    match request.method {
        VaultLoginMethod::Token => {
            let question = format!("Token for Vault at {} (not shown): ", location.address);
            let token = prompt::read_value(&question, None).await?;
            let token = token.expose_text().map(|text| text.trim().to_owned());
            let token: SecretString = token.unwrap_or_default().into();
            vault.token = Some(token.clone());
            let answer = vault.request(Method::GET, "auth/token/lookup-self", &[], None).await?;
            if !answer.status.is_success() {
                return Err(login_refusal(location, "token", &answer, &token));
            }
            let name = answer.part("/data/display_name").and_then(Json::as_str).unwrap_or("token");
            let seconds = answer.part("/data/ttl").and_then(Json::as_i64);
            Ok(VaultLogin { name: name.to_owned(), token, until: end(seconds) })
        }
        VaultLoginMethod::Github => {
            let token = if let Some(token) = &request.github_token {
                token.clone()
            } else {
                let question =
                    format!("GitHub token for Vault at {} (not shown): ", location.address);
                prompt::read_token(&question).await?.ok_or_else(|| {
                    CliError::usage("there is no GitHub token")
                        .hint("set BART_GITHUB_TOKEN or GH_TOKEN, or `bart login` first")
                })?
            };
            let mount = request.mount.as_deref().unwrap_or("github");
            let body = json!({"token": token.expose_secret()});
            let answer = vault
                .request(Method::POST, &format!("auth/{mount}/login"), &[], Some(&body))
                .await?;
            granted(location, mount, &answer, &token)
        }
        VaultLoginMethod::Oidc => {
            let mount = request.mount.as_deref().unwrap_or("oidc");
            let role = request.role.as_deref().unwrap_or_default();
            let answer = oidc::log_in(&vault, mount, role, request.port).await?;
            granted(location, mount, &answer, &SecretString::default())
        }
    }
}

/// Reads the token that Vault grants.
fn granted(
    location: &VaultLocation,
    mount: &str,
    answer: &VaultAnswer,
    presented: &SecretString,
) -> Result<VaultLogin, CliError> {
    let token = answer.part("/auth/client_token").and_then(Json::as_str);
    let (true, Some(token)) = (answer.status.is_success(), token) else {
        return Err(login_refusal(location, mount, answer, presented));
    };
    let metadata = |key: &str| answer.part(&format!("/auth/metadata/{key}")).and_then(Json::as_str);
    let name = metadata("username").or(metadata("role")).unwrap_or(mount).to_owned();
    let seconds = answer.part("/auth/lease_duration").and_then(Json::as_i64);
    Ok(VaultLogin { name, token: token.into(), until: end(seconds) })
}

fn end(seconds: Option<i64>) -> Option<Timestamp> {
    let life = seconds.filter(|seconds| *seconds > 0).map(SignedDuration::from_secs)?;
    Clock::system().now().checked_add(life).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_the_vault_that_it_is_for() {
        let environment = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let vault = "https://vault.example.com";
        let own = environment(&[
            ("HOME", "/h"),
            ("VAULT_ADDR", "https://Vault.example.com/"),
            ("VAULT_TOKEN", "t"),
        ]);
        assert_eq!(choose_source(vault, &own, true, true), VaultTokenSource::Variable);
        let other =
            environment(&[("HOME", "/h"), ("VAULT_ADDR", "https://other"), ("VAULT_TOKEN", "t")]);
        assert_eq!(choose_source(vault, &other, true, true), VaultTokenSource::Saved);
        assert_eq!(choose_source(vault, &other, false, true), VaultTokenSource::Ask);
        let unknown = environment(&[("HOME", "/h"), ("VAULT_TOKEN", "t")]);
        assert_eq!(choose_source(vault, &unknown, false, true), VaultTokenSource::Ask);
        let file = environment(&[("HOME", "/h"), ("VAULT_ADDR", vault)]);
        assert_eq!(
            choose_source(vault, &file, false, true),
            VaultTokenSource::File("/h/.vault-token".into())
        );
        assert_eq!(choose_source(vault, &file, false, false), VaultTokenSource::Ask);
        assert_eq!(choose_source(vault, &file, true, true), VaultTokenSource::Saved);
    }
}
