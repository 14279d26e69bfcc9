//! `bart secrets` lists and changes the secrets of an app in the store of a target, with the person's own login.

mod list; // bart secrets list
mod change; // bart secrets set, unset
mod copy; // bart secrets copy
mod login; // bart secrets login

use clap::Subcommand;

use crate::cli::error::CommandOutcome;

/// Lists and changes the secrets of the app in a target's store, with your own login there.
///
/// The service says where the store is: a Vault (key-value engine, version 2) or the Secrets of the cluster. Values go
/// between this machine and the store; the service never sees them. It hears which keys were changed or read, for its
/// audit log. A change is written only if nobody has changed the secret since it was read.
#[derive(Debug, Subcommand)]
pub(super) enum SecretsArgs {
    List(list::SecretListArgs),
    Set(change::SecretSetArgs),
    Unset(change::SecretUnsetArgs),
    Copy(copy::SecretCopyArgs),
    #[command(name = "login")]
    LogIn(login::VaultLogIn),
}

impl SecretsArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        match self {
            Self::List(command) => command.run().await,
            Self::Set(command) => command.run().await,
            Self::Unset(command) => command.run().await,
            Self::Copy(command) => command.run().await,
            Self::LogIn(command) => command.run().await,
        }
    }
}
