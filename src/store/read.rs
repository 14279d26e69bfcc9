//! Queries for pages and people. Read-only.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::app_instance::AppInstance;
use crate::model::deployment::{Deployment, State};
use crate::model::id::{AppKey, DeployId, ImageTag, RepoName, TargetName};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::{Condition, LONGEST_PAGE, conditions, placeholders, query, query_of};
use crate::store::row::{self, Row, deployment_columns, overview_columns, picture_columns};

/// The filter of a list of deployments; an absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only this state.
    pub state: Option<State>,
    /// Only this target.
    pub target: Option<TargetName>,
    /// Only this repository.
    pub repository: Option<RepoName>,
    /// Only this app; it is known once the WAML has been read.
    pub app: Option<AppKey>,
    /// Only this actor, by the code host's name.
    pub actor: Option<String>,
    /// Only this image tag.
    pub tag: Option<ImageTag>,
    /// Only the deployment with this number at the code host.
    pub forge_id: Option<i64>,
    /// Only deployments that were received at this time or later.
    pub since: Option<Timestamp>,
    /// Only deployments that were received before this time.
    pub until: Option<Timestamp>,
    /// Only deployments that have not ended.
    pub unfinished: bool,
    /// Only deployments whose revision is in the manifest repository, however it went on in the cluster.
    pub pushed: bool,
}

impl Filter {
    /// Returns the filter for deployments of the app to the target that were pushed.
    pub fn pushed(target: &TargetName, app: &AppKey) -> Self {
        let (target, app) = (Some(target.clone()), Some(app.clone()));
        Self { pushed: true, target, app, ..Self::default() }
    }
}

/// One page of a list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The deployments.
    pub deployments: Vec<Deployment>,
    /// The cursor of the next page, if there is one.
    pub next: Option<DeployId>,
}

/// The number of deployments of each state; a state without any is absent.
pub type StateCounts = BTreeMap<&'static str, u64>;

/// The depth of the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    /// Deployments that wait for a worker or for their next attempt.
    pub queued: u64,
    /// Deployments that a worker has claimed.
    pub running: u64,
    /// The time since which the oldest unfinished deployment waits.
    pub oldest: Option<Timestamp>,
    /// Messages that are not sent yet.
    pub unsent: u64,
    /// Parked messages.
    pub parked: u64,
}

/// The number of ids in one statement.
const AT_ONCE: usize = 200;

const LISTING: &str = "listing deployments";

/// Selects deployments that wait for their cluster.
const WAITING: &str =
    "id IN (SELECT id FROM deployments WHERE cluster_state IN ('syncing', 'progressing'))";
/// Selects deployments without an end.
const UNFINISHED: &str = "id IN (SELECT id FROM deployments WHERE finished_at IS NULL UNION ALL \
     SELECT id FROM deployments WHERE cluster_state IN ('syncing', 'progressing'))";

impl Store {
    /// Returns the deployment of an id.
    pub async fn deployment(&self, id: &DeployId) -> Result<Option<Deployment>, StoreError> {
        let sql = concat!("SELECT ", deployment_columns!(), " FROM deployments WHERE id = $1");
        let row = query(sql, id).first(&self.readers, "reading a deployment").await?;
        row.as_ref().map(row::deployment).transpose()
    }

    /// Returns the same without its large parts: its violations are counted and not listed, and its
    /// manual edit is not read. For callers that poll.
    pub async fn deployment_picture(
        &self,
        id: &DeployId,
    ) -> Result<Option<Deployment>, StoreError> {
        let sql = concat!("SELECT ", picture_columns!(), " FROM deployments WHERE id = $1");
        let row = query(sql, id).first(&self.readers, "reading a deployment").await?;
        row.as_ref().map(row::picture).transpose()
    }

    /// Returns the image tag of each of these deployments, and the time at which it was received;
    /// unknown ones are left out.
    pub async fn releases(
        &self,
        ids: &[DeployId],
    ) -> Result<BTreeMap<DeployId, (ImageTag, Timestamp)>, StoreError> {
        let mut releases = BTreeMap::new();
        for chunk in ids.chunks(AT_ONCE) {
            let places = placeholders(1, chunk.len());
            let sql =
                format!("SELECT id, tag, received_at FROM deployments WHERE id IN ({places})");
            let ids: Vec<&DeployId> = chunk.iter().collect();
            for row in query_of(sql, ids).fetch_all(&self.readers, "reading what is live").await? {
                releases.insert(row.id("id")?, (row.id("tag")?, row.time("received_at")?));
            }
        }
        Ok(releases)
    }

    /// Returns, of those apps whose newest deployment has failed, its id and its tag.
    pub async fn newest_failed(
        &self,
        instances: &[&AppInstance],
    ) -> Result<BTreeMap<AppInstance, (DeployId, ImageTag)>, StoreError> {
        let mut failures = BTreeMap::new();
        for chunk in instances.chunks(AT_ONCE / 3) {
            let place = |n: usize| format!("(${}, ${}, ${})", 3 * n + 1, 3 * n + 2, 3 * n + 3);
            let places: Vec<_> = (0..chunk.len()).map(place).collect();
            let sql = format!(
                "SELECT id, target, namespace, slug, tag FROM deployments \
                 WHERE COALESCE(cluster_state, state) = 'failed' \
                 AND id IN (SELECT MAX(id) FROM deployments \
                 WHERE (target, namespace, slug) IN (VALUES {}) GROUP BY target, namespace, slug)",
                places.join(", ")
            );
            let instances: Vec<_> =
                chunk.iter().map(|instance| (&instance.target, &instance.app)).collect();
            for row in
                query_of(sql, instances).fetch_all(&self.readers, "reading what has failed").await?
            {
                let instance = AppInstance { target: row.id("target")?, app: row.app()? };
                failures.insert(instance, (row.id("id")?, row.id("tag")?));
            }
        }
        Ok(failures)
    }

    /// Returns a version that changes whenever the picture of a deployment changes; it costs less
    /// to read.
    pub async fn deployment_version(&self, id: &DeployId) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id, COALESCE(cluster_state, state) AS state, attempts, failures, forge_id, \
             COALESCE(cluster_at, finished_at) AS finished_at, \
             SUBSTR(summary, 1, 4000) AS summary, COALESCE(slug, '') AS slug, \
             COALESCE(waiting, '') AS waiting, LENGTH(stages) + LENGTH(marks) AS stages, \
             COALESCE((SELECT STRING_AGG(COALESCE(p.cluster_state, p.state) || SUBSTR(p.summary, 1, 200), ' ' \
             ORDER BY p.target, p.app_name) FROM deployments p WHERE p.fleet = $1 OR p.parent = $1), '') AS parts, \
             COALESCE((SELECT MAX(c.number) FROM canary_samples c WHERE c.deployment = $1), 0) AS canary \
             FROM deployments WHERE id = $1";
        let row =
            query(sql, id).first(&self.readers, "reading the version of a deployment").await?;
        let Some(row) = row else { return Ok(None) };
        let numbers = ["attempts", "failures", "forge_id"].map(|column| row.number(column));
        let [attempts, failures, forge_id] = numbers;
        Ok(Some(format!(
            "{} {} {} {} {:?} {} {} {} {} {} {}",
            row.text("state")?,
            attempts?,
            failures?,
            forge_id?,
            row.maybe_number("finished_at")?,
            row.text("slug")?,
            row.number("stages")?,
            row.text("summary")?,
            row.text("waiting")?,
            row.text("parts")?,
            row.number("canary")?
        )))
    }

    /// Returns the newest deployments that pass the filter, before the cursor if one is given: as
    /// many as were requested, or as fit into a page. Stages, violations and manual edits are not
    /// read; violations are counted.
    pub async fn deployments(
        &self,
        filter: &Filter,
        before: Option<&DeployId>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let limit = limit.clamp(1, LONGEST_PAGE);
        let Filter { state, target, repository, app, actor, tag, forge_id, .. } = filter;
        let kind = match (filter.unfinished, filter.pushed) {
            (false, false) => None,
            (true, false) => Some(UNFINISHED),
            (false, true) => Some("state = 'succeeded'"),
            (true, true) => Some(WAITING),
        };
        // The parts of a fleet's deployment are deployments of their clusters; a list of all has the fleet's.
        let whole = target.is_none().then_some("fleet IS NULL");
        let last: Vec<&str> = kind.into_iter().chain(whole).collect();
        let last = last.join(" AND ");
        let (tests, values) = conditions(
            [
                ("COALESCE(cluster_state, state) =", Condition::text(state.map(State::as_str))),
                ("target =", Condition::text(target.as_ref())),
                ("repository =", Condition::text(repository.as_ref())),
                ("namespace =", Condition::text(app.as_ref().map(|app| &app.namespace))),
                ("slug =", Condition::text(app.as_ref().map(|app| &app.slug))),
                ("actor =", Condition::text(actor.as_ref())),
                ("tag =", Condition::text(tag.as_ref())),
                ("forge_id =", forge_id.map(Condition::Number)),
                ("received_at >=", Condition::time(filter.since)),
                ("received_at <", Condition::time(filter.until)),
                ("id <", Condition::text(before)),
            ],
            (!last.is_empty()).then_some(last.as_str()),
        );
        let columns = overview_columns!();
        // Whole rows are read only for the shown ones: all that match are sorted.
        let sql = format!(
            "SELECT {columns} FROM deployments WHERE id IN (SELECT id FROM deployments {tests} \
             ORDER BY id DESC LIMIT {}) ORDER BY id DESC",
            limit + 1
        );
        let page = query_of(sql, values).page(&self.readers, LISTING, limit, row::overview, size);
        let (deployments, has_more) = page.await?;
        let next = deployments
            .last()
            .filter(|_| has_more)
            .map(|deployment: &Deployment| deployment.id.clone());
        Ok(Page { deployments, next })
    }

    /// Counts the deployments of each state.
    pub async fn counts(&self) -> Result<StateCounts, StoreError> {
        let sql = "SELECT COALESCE(cluster_state, state) AS id, COALESCE(cluster_state, state) AS state, \
             COUNT(*) AS n FROM deployments WHERE fleet IS NULL AND app_name <> '*' GROUP BY COALESCE(cluster_state, state)";
        let rows = query(sql, ()).fetch_all(&self.readers, "counting deployments").await?;
        let count = |row: &Row| Ok((row.word("state", State::parse)?.as_str(), row.count("n")?));
        rows.iter().map(count).collect()
    }

    /// Returns the depth of the queues, for probes and metrics.
    pub async fn depth(&self) -> Result<QueueDepth, StoreError> {
        let sql = "SELECT 'depth' AS id, \
             (SELECT COUNT(*) FROM deployments WHERE finished_at IS NULL AND state = 'queued' AND app_name <> '*') AS queued, \
             (SELECT COUNT(*) FROM deployments WHERE finished_at IS NULL AND state <> 'queued' AND fleet IS NULL) AS running, \
             (SELECT MIN(received_at) FROM deployments WHERE finished_at IS NULL AND app_name <> '*') AS oldest, \
             (SELECT COUNT(*) FROM outbox WHERE outcome IS NULL) AS unsent, \
             (SELECT COUNT(*) FROM outbox WHERE outcome = 'parked') AS parked";
        let row = query(sql, ()).fetch_one(&self.readers, "measuring the queue").await?;
        Ok(QueueDepth {
            queued: row.count("queued")?,
            running: row.count("running")?,
            oldest: row.maybe_time("oldest")?,
            unsent: row.count("unsent")?,
            parked: row.count("parked")?,
        })
    }
}

/// Returns the size of an entry of a list: its texts, and as much again as a few names and numbers.
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
