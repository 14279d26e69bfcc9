//! `bart secrets copy`.

use clap::Args;
use serde_json::json;

use crate::api::secrets::SecretAct;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, Format, GOOD};
use crate::cli::secret_store::app_secrets::AppSecret;
use crate::cli::secret_store::contents::plan_copy;
use crate::cli::secret_store::target_secrets::{StoreArgs, TargetSecrets};
use crate::model::id::TargetName;
use crate::model::secret_key::SecretKeyName;

/// Copies the secrets that the app wants on a target from another target; what is there already stays.
///
/// Each secret is written once, and only if nobody has changed it since it was read. The first that cannot be written
/// ends the command; the others before it stay copied, and the command can be run again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart secrets copy staging prod-cluster-1
  bart secrets copy staging prod-cluster-1 db --overwrite

Exit codes: 0 copied, 1 refused (also if another writer was first), 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct SecretCopyArgs {
    /// The target to copy from
    from: TargetName,
    /// The target to copy to
    to: TargetName,
    /// The secrets to copy. Default: all that the WAML wants there
    #[arg(value_name = "SECRET")]
    secrets: Vec<String>,
    /// Copy keys that are there already, too
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// The context of the kubeconfig for the target to copy from. Default: the one with its name
    #[arg(long, value_name = "NAME")]
    from_context: Option<String>,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl SecretCopyArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        if self.from == self.to {
            return Err(CliError::usage("name two targets"));
        }
        let from = self.store.of_other(self.from_context.clone()).open(&self.from).await?;
        let to = self.store.open(&self.to).await?;
        for name in &self.secrets {
            to.settings.find(name)?;
        }
        let is_chosen =
            |secret: &&AppSecret| self.secrets.is_empty() || self.secrets.contains(&secret.name);
        let (mut copied, mut left, mut absent) = (Vec::new(), Vec::new(), Vec::new());
        for secret in to.settings.secrets.iter().filter(is_chosen) {
            let (keys, rest) = copy_secret(&from, &to, secret, self.overwrite).await?;
            copied.extend(keys);
            let named = |key: &String| format!("{}/{key}", secret.name);
            left.extend(rest.left.iter().map(named));
            absent.extend(rest.absent.iter().map(named));
        }
        let (from, to) = (&from.cluster, &to.cluster);
        let names: Vec<&str> = copied.iter().map(SecretKeyName::as_str).collect();
        let data = json!({"from": from, "to": to, "copied": names, "left": left, "absent": absent});
        self.output.print(&data, || {
            let mut text =
                format!("{GOOD}ok{GOOD:#} copied {} keys from {from} to {to}\n", names.len());
            for name in &names {
                text += &format!("   {BOLD}{name}{BOLD:#}\n");
            }
            if !left.is_empty() {
                text += &output::note_line(format!(
                    "there already, see --overwrite: {}",
                    left.join(", ")
                ));
            }
            if !absent.is_empty() {
                text += &output::note_line(format!("not on {from}: {}", absent.join(", ")));
            }
            text
        })
    }
}

/// Copies one secret; returns the keys that were copied, and the plan with the others.
async fn copy_secret(
    from: &TargetSecrets,
    to: &TargetSecrets,
    secret: &AppSecret,
    overwrite: bool,
) -> Result<(Vec<SecretKeyName>, crate::cli::secret_store::contents::CopyPlan), CliError> {
    // A secret may have another path on the other target; one that the WAML does not want there has the usual one.
    let source = from.settings.find(&secret.name).unwrap_or(secret);
    if from.store.place(source) == to.store.place(secret) {
        return Err(CliError::usage(format!(
            "both targets have {} in the same place: {}",
            secret.name,
            to.store.place(secret)
        )));
    }
    let mut values = from.store.read(source).await?;
    let mut stored = to.store.read(secret).await?;
    let wanted_keys = secret.wanted_keys();
    let mut plan =
        plan_copy(&values.state.keys, &stored.state.keys, wanted_keys.as_ref(), overwrite);
    // What Kubernetes cannot take as a key is no key of an app.
    plan.copied.retain(|key| SecretKeyName::join(&secret.name, key).is_ok());
    let names = plan.copied.iter().filter_map(|key| SecretKeyName::join(&secret.name, key).ok());
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        return Ok((names, plan));
    }
    to.check_act(SecretAct::Copy, &names).await?;
    for key in &plan.copied {
        if let Some(value) = values.values.remove(key) {
            stored.set(key, value);
        }
    }
    to.store.write(secret, &stored).await?;
    to.tell_act(SecretAct::Copy, &names, Some(&from.cluster)).await?;
    Ok((names, plan))
}
