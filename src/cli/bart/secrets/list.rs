//! `bart secrets list`.

use clap::Args;
use serde_json::json;

use crate::api::secrets::SecretAct;
use crate::cli::error::CommandOutcome;
use crate::cli::output::Format;
use crate::cli::secret_store::app_secrets::SecretRow;
use crate::cli::secret_store::target_secrets::{StoreArgs, TargetSecrets};
use crate::cli::table::{Column, table};
use crate::cli::times::TimeFormatter;
use crate::model::id::TargetName;
use crate::model::secret_key::SecretKeyName;

/// Lists the keys that the WAML wants on a target and those that are there, with version and age; no values.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart secrets list prod-cluster-1
  bart secrets list prod-cluster-1 --output json
  bart secrets list dev --reveal

The version and the age are those of the whole secret: Vault and Kubernetes count them for all of its keys.
Exit codes: 0 listed, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct SecretListArgs {
    /// The target
    target: TargetName,
    /// Show the values, too. The audit log has that you did
    #[arg(long)]
    reveal: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl SecretListArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let opened = self.store.open(&self.target).await?;
        let mut rows = Vec::new();
        for secret in &opened.settings.secrets {
            if self.reveal {
                let stored = opened.store.read(secret).await?;
                let value = |row: SecretRow| {
                    let value = row.key.as_ref().and_then(|key| stored.values.get(key));
                    let value = value.map(|value| match value.expose_text() {
                        Some(text) => text.to_owned(),
                        None => format!("({} bytes, no text)", value.expose().len()),
                    });
                    SecretRow { value, ..row }
                };
                rows.extend(secret.rows(&stored.state).into_iter().map(value));
            } else {
                rows.extend(secret.rows(&opened.store.state(secret).await?));
            }
        }
        self.record(&opened, &rows).await?;
        let data = json!({"target": opened.cluster, "app": opened.settings.waml.app.to_string(), "secrets": rows});
        self.output.print(&data, || text(&rows, self.reveal))
    }

    /// Tells the service which values are about to be shown.
    async fn record(&self, opened: &TargetSecrets, rows: &[SecretRow]) -> CommandOutcome {
        let revealed = rows.iter().filter(|row| row.value.is_some());
        let names =
            revealed.filter_map(|row| SecretKeyName::join(&row.secret, row.key.as_deref()?).ok());
        let names: Vec<_> = names.collect();
        if names.is_empty() {
            Ok(())
        } else {
            opened.tell_act(SecretAct::Reveal, &names, None).await
        }
    }
}

fn text(rows: &[SecretRow], reveal: bool) -> String {
    if rows.is_empty() {
        return "the WAML wants no secrets here\n".to_owned();
    }
    let times = TimeFormatter::system();
    let name = |row: &SecretRow| match &row.key {
        Some(key) => format!("{}/{key}", row.secret),
        None => row.secret.clone(),
    };
    let used = |row: &SecretRow| match (&row.file, row.wanted) {
        (_, false) => "no".to_owned(),
        (Some(file), true) => file.clone(),
        (None, true) if row.variables.is_empty() => "yes".to_owned(),
        (None, true) => row.variables.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let there = |row: &SecretRow| match (row.exists, row.optional) {
        (true, _) => "yes",
        (false, true) => "no (optional)",
        (false, false) => "MISSING",
    };
    let cells = rows.iter().map(|row| {
        let version = row.version.clone().unwrap_or_default();
        let age = row.since.map(|since| times.ago(since)).unwrap_or_default();
        let value = if reveal { row.value.clone().unwrap_or_default() } else { String::new() };
        [name(row), used(row), there(row).to_owned(), version, age, value]
    });
    let last = if reveal { "VALUE" } else { "" };
    let columns = [
        Column::whole("KEY"),
        Column::whole("USED BY"),
        Column::whole("THERE"),
        Column::whole("VERSION"),
        Column::whole("AGE"),
        Column::whole(last),
    ];
    table(columns, cells.collect())
}
