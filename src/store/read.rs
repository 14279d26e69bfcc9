//! What pages and people ask. Nothing here changes anything.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use jiff::Timestamp;
use sqlx::AssertSqlSafe;

use crate::model::deployment::{Deployment, State};
use crate::model::id::{AppKey, DeployId, ImageTag, RepoName, TargetName};
use crate::model::placed::Spot;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::row::{
    self, Row, deployment_columns, overview_columns, picture_columns, storable,
};

/// Which deployments to list; what is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Of this state.
    pub state: Option<State>,
    /// To this target.
    pub target: Option<TargetName>,
    /// Of this repository.
    pub repository: Option<RepoName>,
    /// Of this app; it is known once the WAML has been read.
    pub app: Option<AppKey>,
    /// Asked for by this one, as the forge names them.
    pub actor: Option<String>,
    /// Of this image tag.
    pub tag: Option<ImageTag>,
    /// The forge's own number of it.
    pub forge_id: Option<i64>,
    /// Received at this time or later.
    pub since: Option<Timestamp>,
    /// Received before this time.
    pub until: Option<Timestamp>,
    /// Only those that have not ended.
    pub unfinished: bool,
}

impl Filter {
    /// Deployments of the app to the target that succeeded.
    pub fn succeeded(target: &TargetName, app: &AppKey) -> Self {
        let (target, app) = (Some(target.clone()), Some(app.clone()));
        Self { state: Some(State::Succeeded), target, app, ..Self::default() }
    }
}

/// One page of a list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The deployments.
    pub deployments: Vec<Deployment>,
    /// Where the next page begins, if there is one.
    pub next: Option<DeployId>,
}

/// How many deployments there are of each state; of none where it is absent.
pub type Counts = BTreeMap<&'static str, u64>;

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Deployments that wait for a worker or for their next attempt.
    pub queued: u64,
    /// Deployments that a worker is at.
    pub running: u64,
    /// Since when the oldest unfinished deployment waits.
    pub oldest: Option<Timestamp>,
    /// Statuses that the forge has not been told yet.
    pub unsent: u64,
    /// Statuses that nobody tries to send any more.
    pub parked: u64,
}

/// Larger pages are cut to this: a page is answered from memory.
const MOST: u32 = 500;
/// A page that has so many bytes of text goes on with the next one.
const MOST_BYTES: usize = 1024 * 1024;

/// So many ids are asked for in one statement.
const AT_ONCE: usize = 200;

const LISTING: &str = "listing deployments";

impl Store {
    /// The deployment of an id.
    pub async fn deployment(&self, id: &DeployId) -> Result<Option<Deployment>, StoreError> {
        let sql = concat!("SELECT ", deployment_columns!(), " FROM deployments WHERE id = $1");
        let row = sqlx::query(sql)
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::doing("reading a deployment"))?;
        row.map(|row| row::deployment(&Row::new(row))).transpose()
    }

    /// The same without what takes room: its violations are counted and not listed, and its hand edit is
    /// not read. For those who look again and again.
    pub async fn deployment_picture(
        &self,
        id: &DeployId,
    ) -> Result<Option<Deployment>, StoreError> {
        let sql = concat!("SELECT ", picture_columns!(), " FROM deployments WHERE id = $1");
        let row = sqlx::query(sql)
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::doing("reading a deployment"))?;
        row.map(|row| row::picture(&Row::new(row))).transpose()
    }

    /// Of which image tag deployments were, and when they were received; those that are not known are left out.
    pub async fn releases(
        &self,
        ids: &[DeployId],
    ) -> Result<BTreeMap<DeployId, (ImageTag, Timestamp)>, StoreError> {
        let mut found = BTreeMap::new();
        for some in ids.chunks(AT_ONCE) {
            let places: Vec<_> = (1..=some.len()).map(|number| format!("${number}")).collect();
            let places = places.join(", ");
            let sql =
                format!("SELECT id, tag, received_at FROM deployments WHERE id IN ({places})");
            // Only placeholders are put into the text.
            let query = sqlx::query(AssertSqlSafe(sql));
            let query = some.iter().fold(query, |query, id| query.bind(id.as_str()));
            let rows = query.fetch_all(&self.pool).await;
            for row in rows.map_err(StoreError::doing("reading what is live"))? {
                let row = Row::new(row);
                found.insert(row.id("id")?, (row.id("tag")?, row.time("received_at")?));
            }
        }
        Ok(found)
    }

    /// Of those apps whose newest deployment has failed: which one, and its tag.
    pub async fn newest_failed(
        &self,
        spots: &[&Spot],
    ) -> Result<BTreeMap<Spot, (DeployId, ImageTag)>, StoreError> {
        let mut found = BTreeMap::new();
        for some in spots.chunks(AT_ONCE / 3) {
            let place = |n: usize| format!("(${}, ${}, ${})", 3 * n + 1, 3 * n + 2, 3 * n + 3);
            let places: Vec<_> = (0..some.len()).map(place).collect();
            let sql = format!(
                "SELECT id, target, namespace, slug, tag FROM deployments WHERE state = 'failed' \
                 AND id IN (SELECT MAX(id) FROM deployments \
                 WHERE (target, namespace, slug) IN (VALUES {}) GROUP BY target, namespace, slug)",
                places.join(", ")
            );
            // Only placeholders are put into the text.
            let query = sqlx::query(AssertSqlSafe(sql));
            let query = some.iter().fold(query, |query, Spot { target, app }| {
                let AppKey { namespace, slug } = app;
                query.bind(target.as_str()).bind(namespace.as_str()).bind(slug.as_str())
            });
            let rows = query.fetch_all(&self.pool).await;
            for row in rows.map_err(StoreError::doing("reading what has failed"))? {
                let row = Row::new(row);
                let app = AppKey { namespace: row.id("namespace")?, slug: row.id("slug")? };
                let spot = Spot { target: row.id("target")?, app };
                found.insert(spot, (row.id("id")?, row.id("tag")?));
            }
        }
        Ok(found)
    }

    /// What is another whenever the picture of a deployment is another; costs less to read.
    pub async fn deployment_version(&self, id: &DeployId) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(
            "SELECT id, state, attempts, failures, forge_id, finished_at, \
             SUBSTR(summary, 1, 4000) AS summary, COALESCE(slug, '') AS slug, \
             LENGTH(stages) AS stages FROM deployments WHERE id = $1",
        )
        .bind(id.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::doing("looking whether a deployment has changed"))?;
        let Some(row) = row.map(Row::new) else { return Ok(None) };
        let numbers = ["attempts", "failures", "forge_id"].map(|column| row.number(column));
        let [attempts, failures, forge_id] = numbers;
        Ok(Some(format!(
            "{} {} {} {} {:?} {} {} {}",
            row.text("state")?,
            attempts?,
            failures?,
            forge_id?,
            row.maybe_number("finished_at")?,
            row.text("slug")?,
            row.number("stages")?,
            row.text("summary")?
        )))
    }

    /// The newest deployments that pass the filter, before the cursor if one is given: as many as were
    /// asked for, or as fit into a page. Stages, violations and hand edits are not read; violations are
    /// counted.
    pub async fn deployments(
        &self,
        filter: &Filter,
        before: Option<&DeployId>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let limit = limit.clamp(1, MOST);
        let (clauses, values) = conditions(filter, before);
        let columns = overview_columns!();
        let sql = format!(
            "SELECT {columns} FROM deployments {clauses} ORDER BY id DESC LIMIT {}",
            limit + 1
        );
        let query = values.into_iter().fold(
            // Only placeholders and a number are put into the text.
            sqlx::query(AssertSqlSafe(sql)),
            |query, value| match value {
                Value::Text(text) => query.bind(text),
                Value::Number(number) => query.bind(number),
            },
        );
        let mut rows = query.fetch(&self.pool);
        let (mut deployments, mut bytes): (Vec<Deployment>, _) = (Vec::new(), 0);
        // One at a time: a page of the largest rows must not be in memory before it is cut.
        while let Some(row) = rows.try_next().await.map_err(StoreError::doing(LISTING))? {
            if deployments.len() == limit as usize || bytes >= MOST_BYTES {
                let next = deployments.last().map(|last| last.id.clone());
                return Ok(Page { deployments, next });
            }
            let deployment = row::overview(&Row::new(row))?;
            bytes += size(&deployment);
            deployments.push(deployment);
        }
        Ok(Page { deployments, next: None })
    }

    /// How many deployments there are of each state.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        let rows =
            sqlx::query("SELECT state AS id, state, COUNT(*) AS n FROM deployments GROUP BY state")
                .fetch_all(&self.pool)
                .await
                .map_err(StoreError::doing("counting deployments"))?;
        let count = |row: Row| Ok((row.state()?.as_str(), row.count("n")?));
        rows.into_iter().map(|row| count(Row::new(row))).collect()
    }

    /// What waits, for probes and metrics.
    pub async fn depth(&self) -> Result<Depth, StoreError> {
        let row = sqlx::query(
            "SELECT 'depth' AS id, \
             (SELECT COUNT(*) FROM deployments WHERE finished_at IS NULL AND state = 'queued') AS queued, \
             (SELECT COUNT(*) FROM deployments WHERE finished_at IS NULL AND state <> 'queued') AS running, \
             (SELECT MIN(received_at) FROM deployments WHERE finished_at IS NULL) AS oldest, \
             (SELECT COUNT(*) FROM outbox WHERE outcome IS NULL) AS unsent, \
             (SELECT COUNT(*) FROM outbox WHERE outcome = 'parked') AS parked",
        )
        .fetch_one(&self.pool)
        .await
        .map_err(StoreError::doing("measuring the queue"))?;
        let row = Row::new(row);
        Ok(Depth {
            queued: row.count("queued")?,
            running: row.count("running")?,
            oldest: row.maybe_time("oldest")?,
            unsent: row.count("unsent")?,
            parked: row.count("parked")?,
        })
    }
}

/// What an entry of a list takes: its texts, and as much again as a few names and numbers.
fn size(deployment: &Deployment) -> usize {
    let Deployment { request, summary, pushed, rollback, contact, address, .. } = deployment;
    let files = pushed.iter().flat_map(|pushed| &pushed.files).map(|name| name.len() + 4);
    let contact = contact.as_ref().map_or(0, |contact| contact.name.len() + contact.owner.len());
    let texts = [&request.git_ref, &request.actor, &request.description, summary];
    texts.into_iter().map(String::len).chain(files).sum::<usize>()
        + rollback.as_ref().map_or(0, |rollback| rollback.reason.len())
        + address.as_ref().map_or(0, String::len)
        + contact
        + 1000
}

/// What stands for a placeholder.
enum Value {
    Text(String),
    Number(i64),
}

/// The conditions with numbered placeholders, and their values in that order.
fn conditions(filter: &Filter, before: Option<&DeployId>) -> (String, Vec<Value>) {
    let Filter { state, target, repository, app, actor, tag, forge_id, since, until, unfinished } =
        filter;
    let text = |text: Option<String>| text.map(Value::Text);
    let time = |at: &Option<Timestamp>| at.map(|at| Value::Number(at.as_millisecond()));
    let given = [
        ("state =", text(state.map(|state| state.as_str().to_owned()))),
        ("target =", text(target.as_ref().map(ToString::to_string))),
        ("repository =", text(repository.as_ref().map(ToString::to_string))),
        ("namespace =", text(app.as_ref().map(|app| app.namespace.to_string()))),
        ("slug =", text(app.as_ref().map(|app| app.slug.to_string()))),
        ("actor =", text(actor.as_deref().map(storable))),
        ("tag =", text(tag.as_ref().map(ToString::to_string))),
        ("forge_id =", forge_id.map(Value::Number)),
        ("received_at >=", time(since)),
        ("received_at <", time(until)),
        ("id <", text(before.map(ToString::to_string))),
    ];
    let given = given.into_iter().filter_map(|(test, value)| Some((test, value?)));
    let (tests, values): (Vec<_>, Vec<_>) = given.unzip();
    let numbered = tests.iter().zip(1..).map(|(test, number)| format!("{test} ${number}"));
    let mut tests: Vec<_> = numbered.collect();
    tests.extend(unfinished.then(|| "finished_at IS NULL".to_owned()));
    if tests.is_empty() {
        return (String::new(), values);
    }
    (format!("WHERE {}", tests.join(" AND ")), values)
}
