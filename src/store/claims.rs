//! Claims: a deployment that begins to push reserves its app, its namespace, and the routes and objects that it
//! will make live, in the transaction that gives it the turn. Rules judge the state that was live when they ran;
//! of two deployments that ran at the same moment, the claim stops one, which is planned again.
//!
//! A claim counts by the state of its deployment: while that pushes, and some minutes after its
//! success. So nothing has to be released for a claim to end, whatever ends its deployment. The names
//! that are live for longer are in the manifest repository and in the table of owners: an empty table of claims, as
//! after an upgrade, loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::Deployment;
use crate::model::facts::{ClaimedObject, ObjectName, Ownership, OwnershipError};
use crate::model::id::{AppKey, DeployId, RepoName, Slug, TargetName};
use crate::model::route::{Route, hosts_over, normal_host};
use crate::store::connect::DatabaseBackend;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{Claim, Findings};
use crate::store::query::{Answer, Query, placeholders, query, query_of};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

/// The time for which a claim counts after a success: longer than any replica takes to see a push
/// of another one, and than their clocks may differ.
const SETTLE_TIME: SignedDuration = SignedDuration::from_mins(10);

/// A name that another deployment has claimed, or another repository owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimConflict {
    /// The app belongs to another repository.
    App,
    /// The app's namespace belongs to another owner.
    Namespace,
    /// A route that collides with one of the deployment's.
    Route(Route),
    /// An object of the namespace that another app has.
    Object {
        /// The object.
        object: ObjectName,
        /// The other app.
        app: AppKey,
    },
}

/// The number of host or object names up to which a query names them; above it, all claims on a
/// target, or in a namespace, are read.
const MAX_NAMES: usize = 300;

/// The number of rows that one statement writes: a statement takes some hundred values.
const ROWS: usize = 50;

/// The tables of claims: of apps, namespaces and routes; and of objects.
const TABLES: [&str; 2] = ["claims", "object_claims"];

const DOING: &str = "reading claimed routes";
const DOING_OBJECTS: &str = "reading claimed objects";

impl Store {
    /// Returns the live routes with their recorded owners, and the routes that deployments of other
    /// apps have claimed and that may take requests of these hosts.
    pub async fn with_claims(
        &self,
        target: &TargetName,
        app: &AppKey,
        hosts: &[String],
        live: Vec<Route>,
        now: Timestamp,
    ) -> Result<Vec<Route>, StoreError> {
        let rows =
            claimed_routes((target, app), hosts, now).fetch_all(&self.readers, DOING).await?;
        self.with_claimed(target, live, read_claimed_routes(&rows)?).await
    }

    /// Does the same with claimed routes that [`Store::recorded_facts`] has found.
    pub async fn with_claimed(
        &self,
        target: &TargetName,
        live: Vec<Route>,
        claims: Vec<Route>,
    ) -> Result<Vec<Route>, StoreError> {
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
            let is_same = |live: &Route| live.app == claim.app && live.host == claim.host;
            !routes.iter().any(|live| is_same(live) && live.path == claim.path)
        };
        let new_routes: Vec<Route> = claims.into_iter().filter(is_new).collect();
        routes.extend(new_routes);
        Ok(routes)
    }

    /// Returns the objects that deployments of other apps of the namespace have claimed.
    pub async fn claimed_objects(
        &self,
        target: &TargetName,
        app: &AppKey,
        now: Timestamp,
    ) -> Result<Vec<ClaimedObject>, StoreError> {
        let query = claimed_objects((target, app), None, now);
        read_claimed_objects(&query.fetch_all(&self.readers, DOING_OBJECTS).await?)
    }
}

/// Locks the claims of the target, and returns the queries for everything that could keep the deployment
/// from its own: the owners of the app, and the claimed routes and objects. No other deployment claims
/// anything on the target until the transaction ends.
pub(super) fn conflict_queries(
    store: &Store,
    write: &mut WriteTransaction,
    (target, app): (&TargetName, &AppKey),
    findings: &Findings,
    now: Timestamp,
) -> [Query; 3] {
    lock(store, write, target);
    let hosts: Vec<String> = findings.routes.iter().map(|route| route.host.clone()).collect();
    let names: BTreeSet<&str> = new_objects(findings).map(|object| &*object.name).collect();
    let objects = claimed_objects((target, app), Some(&names), now);
    [ownership(target, app), claimed_routes((target, app), &hosts, now), objects]
}

/// Returns the conflict that keeps the deployment from its claims, by those answers; `None` where it
/// may have them.
pub(super) fn find_conflict(
    [owners, routes, objects]: &[Answer; 3],
    claim: &Claim,
    app: &AppKey,
    findings: &Findings,
) -> Result<Option<ClaimConflict>, StoreError> {
    let Deployment { request, rollback, .. } = &claim.deployment;
    let repository = &request.release.repository;
    // The right to roll the app back was checked; its former revisions may be of a former owner.
    if rollback.is_none() {
        match read_ownership(owners)?.allow(repository) {
            Err(OwnershipError::App) => return Ok(Some(ClaimConflict::App)),
            Err(OwnershipError::Namespace) => return Ok(Some(ClaimConflict::Namespace)),
            Ok(()) => {}
        }
    }
    let is_in_the_way = |other: &Route| {
        findings.routes.iter().any(|route| route.is_refused_beside(other, repository))
    };
    if let Some(route) = read_claimed_routes(&routes.rows)?.into_iter().find(is_in_the_way) {
        return Ok(Some(ClaimConflict::Route(route)));
    }
    // Of two apps of a namespace whose deployments would create an object of one kind and name at the
    // same moment, one gets the turn to push; the rule `collision` judges by what was live before.
    let own_objects: BTreeSet<&ObjectName> = new_objects(findings).collect();
    let mut others = read_claimed_objects(&objects.rows)?.into_iter();
    let claimed_object = others.find(|other| own_objects.contains(&other.object));
    Ok(claimed_object.map(|ClaimedObject { app: slug, object }| {
        let namespace = app.namespace.clone();
        ClaimConflict::Object { object, app: AppKey { namespace, slug } }
    }))
}

/// Returns the claimed objects that the app does not have already.
fn new_objects(findings: &Findings) -> impl Iterator<Item = &ObjectName> {
    findings.objects.iter().filter(|claim| !claim.live).map(|claim| &claim.object)
}

/// Writes the deployment's claims, in place of those of an earlier attempt.
pub(super) fn take(
    write: &mut WriteTransaction,
    claim: &Claim,
    findings: &Findings,
    now: Timestamp,
) {
    let Deployment { id, app, request, .. } = &claim.deployment;
    let Some(app) = findings.app.as_ref().or(app.as_ref()) else { return };
    if claim.deployment.attempts > 1 {
        delete_claims(write, id);
    }
    let routes = findings.routes.iter().map(|route| (normal_host(&route.host), route.path.clone()));
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
        let app = (id, &request.target, app, &request.release.repository, now);
        write.later(query_of(sql, (app, rows.to_vec())));
    }
    let objects: BTreeSet<&ObjectName> =
        findings.objects.iter().map(|claim| &claim.object).collect();
    let objects: Vec<&ObjectName> = objects.into_iter().collect();
    for objects in objects.chunks(ROWS) {
        let place = |n: usize| {
            format!("($1, $2, $3, $4, $5, ${}, ${}, ${})", 6 + 3 * n, 7 + 3 * n, 8 + 3 * n)
        };
        let places: Vec<String> = (0..objects.len()).map(place).collect();
        let sql = format!(
            "INSERT INTO object_claims (deployment, target, namespace, slug, claimed_at, api_group, \
             kind, name) VALUES {} ON CONFLICT DO NOTHING",
            places.join(", ")
        );
        let names = objects.iter().map(|object| (&*object.group, &*object.kind, &*object.name));
        write.later(query_of(sql, ((id, &request.target, app, now), names.collect::<Vec<_>>())));
    }
}

/// Settles the claims of a deployment that has ended. After a success they replace the app's older
/// claims; after a failure they are deleted.
pub(super) fn settle(
    store: &Store,
    write: &mut WriteTransaction,
    deployment: &Deployment,
    app: Option<&AppKey>,
    has_succeeded: bool,
    now: Timestamp,
) {
    if !has_succeeded {
        return delete_claims(write, &deployment.id);
    }
    let Some(app) = app.or(deployment.app.as_ref()) else { return };
    let horizon = now.checked_sub(SETTLE_TIME).unwrap_or(Timestamp::MIN);
    let target = &deployment.request.target;
    // Objects first: the row of the app itself leads to them, and is locked before them, as everywhere.
    for (delete, selection, row) in [
        (
            "DELETE FROM object_claims WHERE deployment IN (",
            "SELECT c.deployment FROM claims c",
            "AND c.host = ''",
        ),
        (
            "DELETE FROM claims WHERE (deployment, host, path) IN (",
            "SELECT c.deployment, c.host, c.path FROM claims c",
            "",
        ),
    ] {
        let selection = format!(
            "{selection} WHERE c.deployment <> $1 {row} \
             AND ((c.target = $2 AND c.namespace = $3 AND c.slug = $4) OR c.claimed_at < $5) \
             AND NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = c.deployment \
             AND (d.finished_at IS NULL OR (d.finished_at >= $5 AND NOT (c.target = $2 \
             AND c.namespace = $3 AND c.slug = $4))))"
        );
        let values = (&deployment.id, target, app, horizon);
        write.later(query(store.skipping_locked(delete, &selection), values));
    }
}

/// Deletes the claims of an app that was removed from the target, except those of a deployment that
/// pushes.
pub(super) fn free(write: &mut WriteTransaction, target: &TargetName, app: &AppKey) {
    for table in TABLES {
        let sql = format!(
            "DELETE FROM {table} WHERE target = $1 AND namespace = $2 AND slug = $3 AND NOT EXISTS \
             (SELECT 1 FROM deployments d WHERE d.id = {table}.deployment AND d.finished_at IS NULL)"
        );
        write.later(query_of(sql, (target, app)));
    }
}

/// Locks the claims of a target, so that deployments claim one after the other. On SQLite the
/// writer has locked everything.
fn lock(store: &Store, write: &mut WriteTransaction, target: &TargetName) {
    if store.kind == DatabaseBackend::Sqlite {
        return;
    }
    // The update changes nothing; PostgreSQL locks the row for it.
    let sql = "INSERT INTO claim_turns (target) VALUES ($1) \
         ON CONFLICT (target) DO UPDATE SET target = excluded.target";
    write.later(query(sql, target));
}

/// Deletes the claims of the deployment.
pub(super) fn delete_claims(write: &mut WriteTransaction, id: &DeployId) {
    for table in TABLES {
        write.later(query_of(format!("DELETE FROM {table} WHERE deployment = $1"), id));
    }
}

/// Returns the query for the owners of the app and its namespace, also those that a deployment that
/// pushes is about to make: the owners by the record; where that has none, by the deployments that push.
pub(super) fn ownership(target: &TargetName, app: &AppKey) -> Query {
    // One row, as for objects.
    let sql = "SELECT COALESCE(STRING_AGG(repository, ' ' ORDER BY claimed, repository), '') AS id, \
         COALESCE(STRING_AGG(CASE WHEN slug = $3 THEN repository END, ' ' \
         ORDER BY claimed, repository), '') AS app \
         FROM (SELECT 0 AS claimed, repository, slug FROM owners \
         WHERE target = $1 AND namespace = $2 \
         UNION ALL SELECT 1 AS claimed, c.repository, c.slug FROM claims c \
         JOIN deployments d ON d.id = c.deployment AND d.state = 'pushing' \
         WHERE c.target = $1 AND c.namespace = $2 AND c.host = '') AS claimants";
    query(sql, (target, app))
}

pub(super) fn read_ownership(answer: &Answer) -> Result<Ownership, StoreError> {
    let Some(row) = answer.rows.first() else { return Ok(Ownership::default()) };
    let names = |column: &'static str| {
        let names = row.text(column)?;
        let parsed = names
            .split_whitespace()
            .map(|name| RepoName::parse(name).map_err(|error| row.corrupt(column, &error)));
        parsed.collect::<Result<Vec<RepoName>, StoreError>>()
    };
    let mut owners = Ownership { app: names("app")?.into_iter().next(), namespace: Vec::new() };
    for repository in names("id")? {
        if !owners.namespace.contains(&repository) {
            owners.namespace.push(repository);
        }
    }
    Ok(owners)
}

/// Returns the query for the routes that deployments of other apps have claimed and that may take
/// requests of the hosts.
pub(super) fn claimed_routes(
    (target, app): (&TargetName, &AppKey),
    hosts: &[String],
    now: Timestamp,
) -> Query {
    let names: BTreeSet<String> = hosts.iter().flat_map(|host| hosts_over(host)).collect();
    // A wildcard stands for more names than a list can hold.
    let is_by_name = names.len() <= MAX_NAMES && !hosts.iter().any(|host| host.starts_with('*'));
    let condition = match names.len() {
        0 => "FALSE".to_owned(),
        count if is_by_name => format!("c.host IN ({})", placeholders(5, count)),
        _ => "c.host <> ''".to_owned(),
    };
    let sql = format!(
        "SELECT c.deployment AS id, c.namespace, c.slug, c.repository, c.host, c.path FROM claims c \
         JOIN deployments d ON d.id = c.deployment \
         AND (d.state = 'pushing' OR (d.state = 'succeeded' AND d.finished_at >= $4)) \
         WHERE c.target = $1 AND NOT (c.namespace = $2 AND c.slug = $3) AND {condition} \
         ORDER BY c.host, c.path, c.deployment"
    );
    let horizon = now.checked_sub(SETTLE_TIME).unwrap_or(Timestamp::MIN);
    let names: Vec<String> = names.into_iter().filter(|_| is_by_name).collect();
    query_of(sql, (target, app, horizon, names))
}

pub(super) fn read_claimed_routes(rows: &[Row]) -> Result<Vec<Route>, StoreError> {
    rows.iter().map(read_route).collect()
}

fn read_route(row: &Row) -> Result<Route, StoreError> {
    Ok(Route {
        host: row.text("host")?,
        path: row.text("path")?,
        app: row.app()?,
        repository: Some(row.id("repository")?),
    })
}

/// Returns the query for the objects that deployments of other apps of the namespace have claimed:
/// all, or those of some names.
pub(super) fn claimed_objects(
    (target, app): (&TargetName, &AppKey),
    names: Option<&BTreeSet<&str>>,
    now: Timestamp,
) -> Query {
    let horizon = now.checked_sub(SETTLE_TIME).unwrap_or(Timestamp::MIN);
    let names = names.filter(|names| names.len() <= MAX_NAMES);
    // One row an app or a deployment: a row of each object costs more than all else of a deployment, where a namespace
    // has many apps. No part of a name has a space or an end of line.
    let objects = "STRING_AGG(c.api_group || ' ' || c.kind || ' ' || c.name, '\n')";
    let counts = "(d.state = 'pushing' OR (d.state = 'succeeded' AND d.finished_at >= $4))";
    let sql = if let Some(names) = names {
        let condition = match names.len() {
            0 => "FALSE".to_owned(),
            count => format!("c.name IN ({})", placeholders(5, count)),
        };
        format!(
            "SELECT c.slug AS id, {objects} AS objects FROM object_claims c \
             JOIN deployments d ON d.id = c.deployment AND {counts} \
             WHERE c.target = $1 AND c.namespace = $2 AND c.slug <> $3 AND {condition} \
             GROUP BY c.slug ORDER BY c.slug"
        )
    } else {
        // The claim of the app itself leads to all of its objects, which lie in a row in one index.
        format!(
            "SELECT a.slug AS id, COALESCE((SELECT {objects} FROM object_claims c \
             WHERE c.deployment = a.deployment), '') AS objects FROM claims a \
             JOIN deployments d ON d.id = a.deployment AND {counts} \
             WHERE a.target = $1 AND a.namespace = $2 AND a.slug <> $3 AND a.host = '' \
             ORDER BY a.slug, a.deployment"
        )
    };
    let names: Vec<&str> = names.into_iter().flatten().copied().collect();
    query_of(sql, (target, app, horizon, names))
}

pub(super) fn read_claimed_objects(rows: &[Row]) -> Result<Vec<ClaimedObject>, StoreError> {
    let mut claims = Vec::new();
    for row in rows {
        let (app, objects) = (row.id::<Slug>("id")?, row.text("objects")?);
        let parsed = objects.lines().map(|line| {
            parse_object_name(line).ok_or_else(|| row.corrupt("objects", &format!("`{line}`")))
        });
        for object in parsed {
            claims.push(ClaimedObject { app: app.clone(), object: object? });
        }
    }
    claims.sort_by(|a, b| a.object.cmp(&b.object));
    // An app may have claimed an object twice, by one deployment after the other.
    claims.dedup();
    Ok(claims)
}

fn parse_object_name(line: &str) -> Option<ObjectName> {
    let mut parts = line.splitn(3, ' ');
    let mut part = || parts.next();
    let (group, kind, name) = (part()?, part()?, part()?);
    Some(ObjectName { group: group.into(), kind: kind.into(), name: name.into() })
}
