//! The audit log. An entry is written in the same transaction as its act, so that there is none
//! without the other.

use futures::TryStreamExt as _;
use sqlx::AssertSqlSafe;

use crate::model::audit::{By, Entry, Found, Search, Via, Written};
use crate::model::id::{AppKey, Namespace, Slug};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::row::{Row, storable};
use crate::store::write::Write;

const DOING: &str = "writing the audit log";
const READING: &str = "reading the audit log";
/// Larger pages are cut to this: a page is answered from memory.
const MOST: u32 = 500;
/// A page that has so many bytes of text goes on with the next one.
const MOST_BYTES: usize = 1024 * 1024;

/// Adds an entry to the transaction of its act.
pub(super) async fn note(write: &mut Write, entry: &Entry) -> Result<(), StoreError> {
    let Entry { id, at, by, act, target, app, subject, reason, outcome } = entry;
    let By { name, via, from, request } = by;
    sqlx::query(
        "INSERT INTO audit (id, at, name, via, address, request, act, target, namespace, slug, \
         subject, reason, outcome) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(id.as_str())
    .bind(at.as_millisecond())
    .bind(storable(name))
    .bind(via.as_str())
    .bind(from.as_deref().map(storable))
    .bind(request.as_deref().map(storable))
    .bind(*act)
    .bind(target.as_ref().map(ToString::to_string))
    .bind(app.as_ref().map(|app| app.namespace.to_string()))
    .bind(app.as_ref().map(|app| app.slug.to_string()))
    .bind(storable(subject))
    .bind(storable(reason))
    .bind(storable(outcome))
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(DOING))
}

impl Store {
    /// Adds an entry for an act that is not the database's.
    pub async fn audit(&self, entry: &Entry) -> Result<(), StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        note(&mut write, entry).await?;
        write.commit().await
    }

    /// The newest entries that are looked for.
    pub async fn audited(&self, search: &Search) -> Result<Found, StoreError> {
        let limit = search.limit.clamp(1, MOST);
        let (clauses, values) = conditions(search);
        let sql = format!("SELECT * FROM audit {clauses} ORDER BY id DESC LIMIT {}", limit + 1);
        // Only placeholders and a number are put into the text.
        let query = sqlx::query(AssertSqlSafe(sql));
        let query = values.into_iter().fold(query, |query, value| match value {
            Value::Text(text) => query.bind(text),
            Value::Time(millis) => query.bind(millis),
        });
        let mut rows = query.fetch(&self.pool);
        let (mut entries, mut bytes): (Vec<Written>, _) = (Vec::new(), 0);
        while let Some(row) = rows.try_next().await.map_err(StoreError::doing(READING))? {
            if entries.len() == limit as usize || bytes >= MOST_BYTES {
                let next = entries.last().map(|last| last.id.clone());
                return Ok(Found { entries, next });
            }
            let entry = written(&Row::new(row))?;
            let Written { by, subject, reason, outcome, .. } = &entry;
            bytes += by.name.len() + subject.len() + reason.len() + outcome.len() + 500;
            entries.push(entry);
        }
        Ok(Found { entries, next: None })
    }
}

/// What a condition compares with.
enum Value {
    Text(String),
    Time(i64),
}

/// The conditions with numbered placeholders, and their values in that order.
fn conditions(search: &Search) -> (String, Vec<Value>) {
    let Search { by, act, target, app, since, until, before, limit: _ } = search;
    let text = |text: Option<String>| text.map(|text| Value::Text(storable(&text)));
    let time = |at: &Option<jiff::Timestamp>| at.map(|at| Value::Time(at.as_millisecond()));
    let given = [
        ("name =", text(by.clone())),
        ("act =", text(act.clone())),
        ("target =", text(target.as_ref().map(ToString::to_string))),
        ("namespace =", text(app.as_ref().map(|app| app.namespace.to_string()))),
        ("slug =", text(app.as_ref().map(|app| app.slug.to_string()))),
        ("at >=", time(since)),
        ("at <", time(until)),
        ("id <", text(before.as_ref().map(ToString::to_string))),
    ];
    let given = given.into_iter().filter_map(|(test, value)| Some((test, value?)));
    let (tests, values): (Vec<_>, Vec<_>) = given.unzip();
    let tests: Vec<_> =
        tests.iter().zip(1..).map(|(test, number)| format!("{test} ${number}")).collect();
    if tests.is_empty() {
        return (String::new(), values);
    }
    (format!("WHERE {}", tests.join(" AND ")), values)
}

fn written(row: &Row) -> Result<Written, StoreError> {
    let via = row.text("via")?;
    let by = By {
        name: row.text("name")?,
        via: Via::parse(&via).ok_or_else(|| row.corrupt("via", &via))?,
        from: row.maybe_text("address")?,
        request: row.maybe_text("request")?,
    };
    let namespace: Option<Namespace> = row.maybe_id("namespace")?;
    let slug: Option<Slug> = row.maybe_id("slug")?;
    Ok(Written {
        id: row.id("id")?,
        at: row.time("at")?,
        by,
        act: row.text("act")?,
        target: row.maybe_id("target")?,
        app: namespace.zip(slug).map(|(namespace, slug)| AppKey { namespace, slug }),
        subject: row.text("subject")?,
        reason: row.text("reason")?,
        outcome: row.text("outcome")?,
    })
}
