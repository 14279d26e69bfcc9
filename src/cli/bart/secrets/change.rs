//! `bart secrets set` and `bart secrets unset`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::api::secrets::SecretAct;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{BOLD, Format, GOOD};
use crate::cli::secret_store::prompt::read_value;
use crate::cli::secret_store::target_secrets::{StoreArgs, note_place};
use crate::model::id::TargetName;
use crate::model::secret_key::SecretKeyName;

/// Gives a key of a secret a value, which is typed without echo, or read from standard input or a file; never an
/// argument.
///
/// The other keys of the secret stay. If another person changes the secret between your look and your answer, nothing is
/// written.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart secrets set prod-cluster-1 db/password
  openssl rand -base64 24 | bart secrets set prod-cluster-1 db/password
  bart secrets set prod-cluster-1 tls/key.pem --from-file key.pem

Of standard input the last line end is no part of the value; of a file everything is.
Exit codes: 0 written, 1 refused (also if another writer was first), 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct SecretSetArgs {
    /// The target
    #[arg(index = 1)]
    target: TargetName,
    /// The key: SECRET/KEY, with a secret of the WAML
    #[arg(index = 2, value_name = "KEY")]
    name: SecretKeyArg,
    /// Read the value from this file, every byte of it; `-` is standard input
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// Removes a key from a secret; the others stay.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart secrets unset prod-cluster-1 db/old-password

Vault keeps earlier versions; the Secret of a cluster has none.
Exit codes: 0 removed, 1 refused (also if another writer was first), 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct SecretUnsetArgs {
    /// The target
    #[arg(index = 1)]
    target: TargetName,
    /// The key: SECRET/KEY
    #[arg(index = 2, value_name = "KEY")]
    name: SecretKeyArg,
    #[command(flatten)]
    store: StoreArgs,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// A key as an argument; what is no key is not repeated.
#[derive(Debug, Clone)]
struct SecretKeyArg(String);

impl From<String> for SecretKeyArg {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl SecretKeyArg {
    /// Reads the name; the parser of arguments would repeat a wrong one, which may be a value.
    fn name(&self) -> Result<SecretKeyName, CliError> {
        SecretKeyName::parse(self.0.as_str()).map_err(|error| {
            CliError::usage(error.to_string())
                .hint("the value is no argument: it is asked for, or piped in")
        })
    }
}

impl SecretSetArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let name = self.name.name()?;
        let opened = self.store.open(&self.target).await?;
        let secret = opened.settings.find(name.secret())?;
        opened.check_act(SecretAct::Set, std::slice::from_ref(&name)).await?;
        if secret.wanted_keys().is_some_and(|keys| !keys.contains(name.key())) {
            note_place(format!("no variable of the WAML uses {name}"));
        }
        // Read before the question: what another person writes meanwhile is not overwritten.
        let mut stored = opened.store.read(secret).await?;
        let question = format!("Value of {name} on {} (not shown): ", opened.cluster);
        stored.set(name.key(), read_value(&question, self.from_file.as_deref()).await?);
        let version = opened.store.write(secret, &stored).await?;
        opened.tell_act(SecretAct::Set, std::slice::from_ref(&name), None).await?;
        let (place, cluster) = (opened.store.place(secret), &opened.cluster);
        let data =
            json!({"target": cluster, "key": name.as_str(), "version": version, "place": place});
        self.output.print(&data, || {
            format!("{GOOD}set{GOOD:#} {BOLD}{name}{BOLD:#} on {cluster}: version {version} of {place}\n")
        })
    }
}

impl SecretUnsetArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let name = self.name.name()?;
        let opened = self.store.open(&self.target).await?;
        let secret = opened.settings.find(name.secret())?;
        opened.check_act(SecretAct::Unset, std::slice::from_ref(&name)).await?;
        let mut stored = opened.store.read(secret).await?;
        let place = opened.store.place(secret);
        if !stored.unset(name.key()) {
            return Err(CliError::refused(format!("there is no key {} in {place}", name.key()))
                .hint(format!("`bart secrets list {}` shows the keys", self.target)));
        }
        let version = opened.store.write(secret, &stored).await?;
        opened.tell_act(SecretAct::Unset, std::slice::from_ref(&name), None).await?;
        let cluster = &opened.cluster;
        let data =
            json!({"target": cluster, "key": name.as_str(), "version": version, "place": place});
        self.output.print(&data, || {
            format!("{GOOD}removed{GOOD:#} {BOLD}{name}{BOLD:#} on {cluster}: version {version} of {place}\n")
        })
    }
}
