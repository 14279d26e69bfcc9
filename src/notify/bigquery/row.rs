//! The row of a deployment that has ended, and the schema of its table: one list of columns has both. Pure.
//!
//! A column is never renamed and never changes its type. A new one is added to the list: tables get it, and rows that
//! are there have null.

use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};

use crate::model::deploy_clock::{DeployInterval, DeployMark};
use crate::model::deployment::{Deployment, State};
use crate::model::status::one_line;
use crate::model::violation::Severity;

/// The column by whose days the table is partitioned.
pub(super) const PARTITIONED_BY: &str = "finished_at";

/// Texts of people are cut after so many characters.
const LONGEST_TEXT: usize = 500;
/// The same for the cause, which is the most useful of them.
const LONGEST_CAUSE: usize = 2000;

/// A deployment that has ended, and what the row says of it.
#[derive(Debug, Clone, Copy)]
pub struct EndedDeployment<'a> {
    /// The deployment.
    pub deployment: &'a Deployment,
    /// The time of its end.
    pub finished_at: Timestamp,
    /// The service's address: several services may share a table.
    pub service: &'a str,
}

/// A row, ready to be inserted.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentRow {
    /// The id by which BigQuery drops a repeat: the deploy id, since a deployment ends once.
    pub insert_id: String,
    /// The values by column. Absent ones are null.
    pub values: Json,
}

/// A column of the table.
#[derive(Clone, Copy)]
pub struct TableColumn {
    /// The name.
    pub name: &'static str,
    /// The type, in BigQuery's words.
    pub kind: &'static str,
    /// True if every row has it. A column that is added later is never required.
    pub is_required: bool,
    /// The description that BigQuery shows.
    pub description: &'static str,
    value: fn(EndedDeployment<'_>) -> Json,
}

/// The fault of a table that has the name of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its column `{column}` is of the type {found}, not {expected}")]
pub(super) struct ForeignColumn {
    column: &'static str,
    found: String,
    expected: &'static str,
}

const fn column(
    name: &'static str,
    kind: &'static str,
    description: &'static str,
    value: fn(EndedDeployment<'_>) -> Json,
) -> TableColumn {
    TableColumn { name, kind, is_required: false, description, value }
}

const fn required(column: TableColumn) -> TableColumn {
    TableColumn { is_required: true, ..column }
}

/// The columns, in the order of the table. `docs/bigquery.md` shows them.
pub const COLUMNS: &[TableColumn] = &[
    required(column("deployment", "STRING", "The deploy id", |ended| json!(ended.deployment.id))),
    column("service", "STRING", "The address of the-deployer", |ended| json!(ended.service)),
    column("repository", "STRING", "The service repository, OWNER/NAME", |ended| {
        json!(ended.deployment.request.release.repository)
    }),
    column("target", "STRING", "The target: the cluster", |ended| {
        json!(ended.deployment.request.target)
    }),
    column(
        "production",
        "BOOLEAN",
        "Whether GitHub was told that the target is production",
        |ended| json!(ended.deployment.request.production),
    ),
    column(
        "namespace",
        "STRING",
        "The app's namespace; null while no WAML could be read",
        |ended| json!(ended.deployment.app.as_ref().map(|app| &app.namespace)),
    ),
    column("app", "STRING", "The app's slug; null while no WAML could be read", |ended| {
        json!(ended.deployment.app.as_ref().map(|app| &app.slug))
    }),
    column("owner", "STRING", "The owning team's address, from the WAML", |ended| {
        json!(ended.deployment.contact.as_ref().map(|contact| text(&contact.owner)))
    }),
    column("tag", "STRING", "The image tag", |ended| json!(ended.deployment.request.release.tag)),
    column("commit", "STRING", "The commit of the service repository", |ended| {
        json!(ended.deployment.request.release.commit)
    }),
    column("ref", "STRING", "The branch or tag of the request", |ended| {
        json!(text(&ended.deployment.request.git_ref))
    }),
    column("actor", "STRING", "The login of the person or program that requested it", |ended| {
        json!(text(&ended.deployment.request.actor))
    }),
    column("automatic", "BOOLEAN", "Whether a program requested it, and no person", |ended| {
        json!(ended.deployment.request.automatic)
    }),
    column("rollback_to", "STRING", "Of a rollback: the revision that it went to", |ended| {
        json!(ended.deployment.rollback.as_ref().map(|rollback| &rollback.to))
    }),
    column(
        "rollback_from",
        "STRING",
        "Of a rollback: the revision that was live before",
        |ended| json!(ended.deployment.rollback.as_ref().map(|rollback| &rollback.from)),
    ),
    column("outcome", "STRING", "succeeded, failed, superseded or cancelled", |ended| {
        json!(ended.deployment.state)
    }),
    column("failed_in", "STRING", "Of a failure: rules, service or cluster", |ended| {
        json!(failed_in(ended.deployment))
    }),
    column("rule", "STRING", "Of a failure by a rule: the first broken rule", |ended| {
        let mut errors = ended.deployment.violations.iter();
        let first = errors.find(|violation| violation.severity == Severity::Error);
        json!(first.map(|violation| text(&violation.rule)))
    }),
    column("cause", "STRING", "Why it did not succeed, in one sentence", |ended| {
        let is_success = ended.deployment.state == State::Succeeded;
        json!((!is_success).then(|| one_line(&ended.deployment.summary, LONGEST_CAUSE)))
    }),
    column("errors", "INTEGER", "Broken rules", |ended| {
        json!(ended.deployment.violations.errors())
    }),
    column("warnings", "INTEGER", "Warnings", |ended| {
        json!(ended.deployment.violations.warnings())
    }),
    column("attempts", "INTEGER", "Attempts that workers began", |ended| {
        json!(ended.deployment.attempts)
    }),
    column("manifests_commit", "STRING", "The commit in the manifest repository", |ended| {
        json!(ended.deployment.pushed.as_ref().map(|pushed| &pushed.commit))
    }),
    column(
        "changed",
        "BOOLEAN",
        "Whether it changed manifests; null where nothing was pushed",
        |ended| json!(ended.deployment.pushed.as_ref().map(|pushed| pushed.changed)),
    ),
    column("requested_at", "TIMESTAMP", "GitHub's time of the request", |ended| {
        mark(ended, DeployMark::Requested)
    }),
    column("received_at", "TIMESTAMP", "When the event was stored", |ended| {
        json!(ended.deployment.received_at)
    }),
    column("pushed_at", "TIMESTAMP", "When the revision was in the manifest repository", |ended| {
        json!(ended.deployment.pushed_at)
    }),
    required(column(
        PARTITIONED_BY,
        "TIMESTAMP",
        "When it ended; in a watched cluster, when its pods ran or did not",
        |ended| json!(ended.finished_at),
    )),
    column("deployer_ms", "INTEGER", "Deploy clock: from the receipt to the push", |ended| {
        interval(ended, DeployInterval::Deployer)
    }),
    column(
        "pickup_ms",
        "INTEGER",
        "Deploy clock: from the request until Argo CD knew of the push",
        |ended| interval(ended, DeployInterval::Pickup),
    ),
    column(
        "wait_ms",
        "INTEGER",
        "Deploy clock: from the request until Argo CD began to sync",
        |ended| interval(ended, DeployInterval::Wait),
    ),
    column(
        "sync_ms",
        "INTEGER",
        "Deploy clock: from the pickup until Argo CD had synced",
        |ended| interval(ended, DeployInterval::Sync),
    ),
    column(
        "total_ms",
        "INTEGER",
        "Deploy clock: from the request until Argo CD had synced",
        |ended| interval(ended, DeployInterval::Total),
    ),
];

/// Builds the row.
pub fn build_row(ended: EndedDeployment<'_>) -> DeploymentRow {
    let values = COLUMNS.iter().map(|column| (column.name.to_owned(), (column.value)(ended)));
    let values: Map<String, Json> = values.filter(|(_, value)| !value.is_null()).collect();
    DeploymentRow { insert_id: ended.deployment.id.to_string(), values: Json::Object(values) }
}

/// Returns the fields of the table, as the API wants them.
pub(super) fn schema_fields() -> Vec<Json> {
    COLUMNS.iter().copied().map(field).collect()
}

/// Returns the fields that a table lacks, by the fields that it has.
///
/// # Errors
/// [`ForeignColumn`] where a column is of another type: rows would be refused.
pub(super) fn missing_fields(fields: &[Json]) -> Result<Vec<Json>, ForeignColumn> {
    let mut missing = Vec::new();
    for column in COLUMNS {
        // BigQuery does not tell names apart by case.
        let is_it = |field: &&Json| {
            field["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(column.name))
        };
        let Some(found) = fields.iter().find(is_it) else {
            // A table with rows takes no required column.
            missing.push(field(TableColumn { is_required: false, ..*column }));
            continue;
        };
        let kind = found["type"].as_str().unwrap_or_default();
        if standard_type(kind) != standard_type(column.kind) {
            let (column, expected) = (column.name, column.kind);
            return Err(ForeignColumn { column, found: one_line(kind, LONGEST_TEXT), expected });
        }
    }
    Ok(missing)
}

fn field(column: TableColumn) -> Json {
    let TableColumn { name, kind, is_required, description, value: _ } = column;
    let mode = if is_required { "REQUIRED" } else { "NULLABLE" };
    json!({"name": name, "type": kind, "mode": mode, "description": description})
}

/// Returns the one name of a type that has two.
fn standard_type(kind: &str) -> &str {
    match kind {
        "INTEGER" => "INT64",
        "BOOLEAN" => "BOOL",
        other => other,
    }
}

/// Returns the part that a deployment failed in.
fn failed_in(deployment: &Deployment) -> Option<&'static str> {
    let part = if deployment.pushed.is_some() {
        "cluster"
    } else if deployment.violations.errors() > 0 {
        "rules"
    } else {
        "service"
    };
    (deployment.state == State::Failed).then_some(part)
}

fn mark(ended: EndedDeployment<'_>, mark: DeployMark) -> Json {
    json!(ended.deployment.marks.get(mark).map(|time| time.at))
}

/// Returns the length of an interval; null while a mark is not known, or where clocks contradict each other.
fn interval(ended: EndedDeployment<'_>, interval: DeployInterval) -> Json {
    json!(ended.deployment.marks.interval(interval).and_then(|time| time.millis))
}

fn text(text: &str) -> String {
    one_line(text, LONGEST_TEXT)
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
