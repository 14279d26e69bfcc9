//! Claims: a deployment that begins to push takes its app, its namespace, and the routes and objects that it
//! will make live, in the transaction that gives it the turn. Rules judge what was live when they ran;
//! of two that ran at the same moment, one is told here, and planned again.
//!
//! A claim counts by the state of its deployment: while that pushes, and some minutes after its
//! success. So nothing has to be released for a claim to end, whatever ends its deployment. What is
//! live for longer, the manifest repository shows and the table of owners has: an empty table, as
//! after an upgrade, loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sqlx::{Any, AssertSqlSafe, Executor};

use crate::model::deployment::Deployment;
use crate::model::facts::{NotOwned, Ownership};
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::route::{Route, hosts_over, normal_host};
use crate::store::connect::Kind;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::findings::Findings;
use crate::store::lease::Claim;
use crate::store::object_claims;
use crate::store::object_claims::{ClaimConflict, SETTLES};
use crate::store::row::Row;
use crate::store::write::Write;

/// With more hosts than this, all claims on a target are read.
const MOST_HOSTS: usize = 300;

/// How many rows one statement writes: a statement takes some hundred values.
const ROWS: usize = 50;

const DOING: &str = "claiming an app and its routes";

impl Store {
    /// Whose the app and its namespace are on a target, or are about to become: also by deployments
    /// that push.
    pub async fn claimed_ownership(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Ownership, StoreError> {
        ownership(&self.pool, target, app).await
    }

    /// Routes that are live, with whose they are by the record; and those that deployments of other
    /// apps have claimed and that may take requests of these hosts.
    pub async fn with_claims(
        &self,
        target: &TargetName,
        app: &AppKey,
        hosts: &[String],
        live: Vec<Route>,
        now: Timestamp,
    ) -> Result<Vec<Route>, StoreError> {
        let claimed = claimed(&self.pool, target, app, hosts, now).await?;
        let apps: BTreeSet<&AppKey> = live.iter().map(|route| &route.app).collect();
        let mut owners = BTreeMap::new();
        for app in apps {
            if let Some(repository) = self.ownership(target, app).await?.app {
                owners.insert(app.clone(), repository);
            }
        }
        let with_owner = |route: Route| {
            let repository = owners.get(&route.app).cloned().or(route.repository);
            Route { repository, ..route }
        };
        let mut routes: Vec<Route> = live.into_iter().map(with_owner).collect();
        let is_new = |claim: &Route| {
            let is_it = |live: &Route| live.app == claim.app && live.host == claim.host;
            !routes.iter().any(|live| is_it(live) && live.path == claim.path)
        };
        let new: Vec<Route> = claimed.into_iter().filter(is_new).collect();
        routes.extend(new);
        Ok(routes)
    }
}

/// What keeps the deployment from claiming what it needs; `None` where it may. Nobody else claims
/// anything on the target until the transaction ends.
pub(super) async fn conflict(
    store: &Store,
    write: &mut Write,
    claim: &Claim,
    known: &Findings,
    now: Timestamp,
) -> Result<Option<ClaimConflict>, StoreError> {
    let Deployment { app, request, rollback, .. } = &claim.deployment;
    let Some(app) = known.app.as_ref().or(app.as_ref()) else { return Ok(None) };
    let (target, repository) = (&request.target, &request.release.repository);
    lock(store, write, target).await?;
    // Who may roll an app back was asked; its former revisions may be of a former owner.
    if rollback.is_none() {
        match ownership(write.sql(), target, app).await?.allow(repository) {
            Err(NotOwned::App) => return Ok(Some(ClaimConflict::App)),
            Err(NotOwned::Namespace) => return Ok(Some(ClaimConflict::Namespace)),
            Ok(()) => {}
        }
    }
    let hosts: Vec<String> = known.routes.iter().map(|route| route.host.clone()).collect();
    let others = claimed(write.sql(), target, app, &hosts, now).await?;
    let is_in_the_way =
        |theirs: &Route| known.routes.iter().any(|ours| ours.is_refused_beside(theirs, repository));
    if let Some(route) = others.into_iter().find(is_in_the_way) {
        return Ok(Some(ClaimConflict::Route(route)));
    }
    object_claims::conflict(write, (target, app), &known.objects, now).await
}

/// Writes down what the deployment takes, in place of what an earlier attempt at it took.
pub(super) async fn take(
    write: &mut Write,
    claim: &Claim,
    known: &Findings,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Deployment { id, app, request, .. } = &claim.deployment;
    let Some(app) = known.app.as_ref().or(app.as_ref()) else { return Ok(()) };
    if claim.deployment.attempts > 1 {
        drop_those_of(write, id).await?;
    }
    let routes = known.routes.iter().map(|route| (normal_host(&route.host), route.path.clone()));
    let mut rows: BTreeSet<(String, String)> = routes.collect();
    rows.insert((String::new(), String::new()));
    let rows: Vec<(String, String)> = rows.into_iter().collect();
    for rows in rows.chunks(ROWS) {
        let place = |n: usize| format!("($1, $2, $3, $4, $5, ${}, ${}, $6)", 7 + 2 * n, 8 + 2 * n);
        let places: Vec<String> = (0..rows.len()).map(place).collect();
        let sql = format!(
            "INSERT INTO claims (deployment, target, namespace, slug, repository, host, path, \
             claimed_at) VALUES {} ON CONFLICT DO NOTHING",
            places.join(", ")
        );
        // Only placeholders are put into the text.
        let mut insert = sqlx::query(AssertSqlSafe(sql))
            .bind(id.to_string())
            .bind(request.target.to_string())
            .bind(app.namespace.to_string())
            .bind(app.slug.to_string())
            .bind(request.release.repository.to_string())
            .bind(now.as_millisecond());
        for (host, path) in rows {
            insert = insert.bind(host.clone()).bind(path.clone());
        }
        insert.execute(write.sql()).await.map_err(StoreError::doing(DOING))?;
    }
    object_claims::take(write, id, (&request.target, app), &known.objects, now).await
}

/// The deployment has come to its end. After a success its claims stand for the app's, in place of
/// older ones; of a failure they go.
pub(super) async fn settle(
    store: &Store,
    write: &mut Write,
    deployment: &Deployment,
    app: Option<&AppKey>,
    succeeded: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    if !succeeded {
        return drop_those_of(write, &deployment.id).await;
    }
    let Some(app) = app.or(deployment.app.as_ref()) else { return Ok(()) };
    let settled = now.checked_sub(SETTLES).unwrap_or(Timestamp::MIN);
    let sql = store.skipping_locked(
        "DELETE FROM claims WHERE (deployment, host, path) IN (",
        "SELECT c.deployment, c.host, c.path FROM claims c WHERE c.deployment <> $1 \
         AND ((c.target = $2 AND c.namespace = $3 AND c.slug = $4) OR c.claimed_at < $5) \
         AND NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = c.deployment \
         AND (d.finished_at IS NULL OR (d.finished_at >= $5 AND NOT (c.target = $2 \
         AND c.namespace = $3 AND c.slug = $4))))",
    );
    sqlx::query(sql)
        .bind(deployment.id.as_str())
        .bind(deployment.request.target.as_str())
        .bind(app.namespace.as_str())
        .bind(app.slug.as_str())
        .bind(settled.as_millisecond())
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    let target = &deployment.request.target;
    object_claims::settle(store, write, &deployment.id, (target, app), settled).await
}

/// The app was taken off the target: what deployments of it had claimed is free, but for one that
/// pushes.
pub(super) async fn free(
    write: &mut Write,
    target: &TargetName,
    app: &AppKey,
) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM claims WHERE target = $1 AND namespace = $2 AND slug = $3 AND NOT EXISTS \
         (SELECT 1 FROM deployments d WHERE d.id = claims.deployment AND d.finished_at IS NULL)",
    )
    .bind(target.as_str())
    .bind(app.namespace.as_str())
    .bind(app.slug.as_str())
    .execute(write.sql())
    .await
    .map_err(StoreError::doing("freeing what an app had claimed"))?;
    object_claims::free(write, target, app).await
}

/// Two that claim on one target come one after the other. On SQLite whoever writes has locked
/// everything.
async fn lock(store: &Store, write: &mut Write, target: &TargetName) -> Result<(), StoreError> {
    if store.kind == Kind::Sqlite {
        return Ok(());
    }
    let sql = "SELECT target FROM claim_turns WHERE target = $1";
    for _ in 0..2 {
        let found = sqlx::query(store.locking(sql, "FOR UPDATE"))
            .bind(target.as_str())
            .fetch_optional(write.sql())
            .await
            .map_err(StoreError::doing(DOING))?;
        if found.is_some() {
            break;
        }
        // Another one may make it at the same moment: this waits for that, and finds the row.
        sqlx::query("INSERT INTO claim_turns (target) VALUES ($1) ON CONFLICT DO NOTHING")
            .bind(target.as_str())
            .execute(write.sql())
            .await
            .map_err(StoreError::doing(DOING))?;
    }
    Ok(())
}

async fn drop_those_of(write: &mut Write, id: &DeployId) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM claims WHERE deployment = $1")
        .bind(id.as_str())
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    object_claims::drop_those_of(write, id).await
}

/// By the record; where that has nothing, by those who push.
async fn ownership<'e>(
    database: impl Executor<'e, Database = Any>,
    target: &TargetName,
    app: &AppKey,
) -> Result<Ownership, StoreError> {
    let rows = sqlx::query(
        "SELECT 0 AS claimed, repository AS id, repository, slug FROM owners \
         WHERE target = $1 AND namespace = $2 \
         UNION ALL SELECT 1 AS claimed, c.repository AS id, c.repository, c.slug FROM claims c \
         JOIN deployments d ON d.id = c.deployment AND d.state = 'pushing' \
         WHERE c.target = $1 AND c.namespace = $2 AND c.host = '' \
         ORDER BY claimed, repository, slug",
    )
    .bind(target.as_str().to_owned())
    .bind(app.namespace.as_str().to_owned())
    .fetch_all(database)
    .await
    .map_err(StoreError::doing("asking whose an app is"))?;
    let mut owners = Ownership::default();
    for row in rows.into_iter().map(Row::new) {
        let repository: RepoName = row.id("repository")?;
        if owners.app.is_none() && row.text("slug")? == app.slug.as_str() {
            owners.app = Some(repository.clone());
        }
        if !owners.namespace.contains(&repository) {
            owners.namespace.push(repository);
        }
    }
    Ok(owners)
}

/// The routes that deployments of other apps have claimed and that may take requests of the hosts.
async fn claimed<'e>(
    database: impl Executor<'e, Database = Any>,
    target: &TargetName,
    app: &AppKey,
    hosts: &[String],
    now: Timestamp,
) -> Result<Vec<Route>, StoreError> {
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    let names: BTreeSet<String> = hosts.iter().flat_map(|host| hosts_over(host)).collect();
    // A star stands for names that nobody can list.
    let by_name = names.len() <= MOST_HOSTS && !hosts.iter().any(|host| host.starts_with('*'));
    let condition = if by_name {
        let places: Vec<String> = (0..names.len()).map(|n| format!("${}", n + 5)).collect();
        format!("c.host IN ({})", places.join(", "))
    } else {
        "c.host <> ''".to_owned()
    };
    let sql = format!(
        "SELECT c.deployment AS id, c.namespace, c.slug, c.repository, c.host, c.path FROM claims c \
         JOIN deployments d ON d.id = c.deployment \
         AND (d.state = 'pushing' OR (d.state = 'succeeded' AND d.finished_at >= $4)) \
         WHERE c.target = $1 AND NOT (c.namespace = $2 AND c.slug = $3) AND {condition} \
         ORDER BY c.host, c.path, c.deployment"
    );
    let settled = now.checked_sub(SETTLES).unwrap_or(Timestamp::MIN);
    // Only placeholders are put into the text.
    let query = sqlx::query(AssertSqlSafe(sql))
        .bind(target.to_string())
        .bind(app.namespace.to_string())
        .bind(app.slug.to_string())
        .bind(settled.as_millisecond());
    let names = names.into_iter().filter(|_| by_name);
    let rows = names.fold(query, sqlx::query::Query::bind).fetch_all(database).await;
    let rows = rows.map_err(StoreError::doing("asking which routes are claimed"))?;
    rows.into_iter().map(|row| route(&Row::new(row))).collect()
}

fn route(row: &Row) -> Result<Route, StoreError> {
    Ok(Route {
        host: row.text("host")?,
        path: row.text("path")?,
        app: AppKey { namespace: row.id("namespace")?, slug: row.id("slug")? },
        repository: Some(row.id("repository")?),
    })
}
