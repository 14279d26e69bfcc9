//! Queries for the overview of all apps. Read-only.
//!
//! The driver takes several microseconds for each value of each row, so that the rows of some thousand apps would take
//! more than the page may. The database joins them to one text.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::app_instance::AppInstance;
use crate::model::deployment::{Contact, State};
use crate::model::id::{AppKey, DeployId, ImageTag, Namespace, RepoName, Slug, TargetName};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::{placeholders, query_of};
use crate::store::row::Row;

/// The newest deployment of an app on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestDeployment {
    /// Its id.
    pub id: DeployId,
    /// The image tag.
    pub tag: ImageTag,
    /// The state that people see.
    pub state: State,
    /// The time at which it was received.
    pub received_at: Timestamp,
}

/// An app on a target of which nothing was ever pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpushedApp {
    /// The app and its target.
    pub instance: AppInstance,
    /// The repository of its newest deployment.
    pub repository: RepoName,
    /// The owning team's e-mail address, where the WAML could be read that far.
    pub owner: Option<String>,
}

/// The newest deployment of a repository to a target, where it has failed before its app was known: mostly, because its WAML
/// could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadDeployment {
    /// The repository.
    pub repository: RepoName,
    /// The target.
    pub target: TargetName,
    /// The deployment.
    pub newest: NewestDeployment,
    /// False if its WAML could be read, and names an app that is another repository's.
    pub is_waml_unreadable: bool,
    /// The app of the repository's newest deployment to that target whose app is known, unless it is another repository's
    /// by now.
    pub app: Option<AppKey>,
    /// True if that app was pushed at some time.
    pub was_pushed: bool,
}

/// The image tag of a deployment, and the time at which it was received.
type ReleaseTime = (ImageTag, Timestamp);

/// The number of apps in one statement; each has three values.
const APPS_AT_ONCE: usize = 1_000;
/// The number of ids in one statement.
const IDS_AT_ONCE: usize = 1_000;

/// The most apps that are read of which nothing was ever pushed.
const MAX_UNPUSHED: i64 = 500;

/// The most deployments that are read whose app is not known.
const MAX_UNREAD: i64 = 1_000;

const READING: &str = "reading the overview";

impl Store {
    /// Returns the newest deployment of each app that has an owner, on one target or on all; at most so many apps.
    pub async fn newest_of_owned(
        &self,
        target: Option<&TargetName>,
        limit: usize,
    ) -> Result<BTreeMap<AppInstance, NewestDeployment>, StoreError> {
        let test = target.map_or("", |_| "WHERE o.target = $1");
        // One search of the index of apps for each.
        let sql = format!(
            "SELECT 'overview' AS id, string_agg(format('%s %s %s %s %s %s %s', o.target, o.namespace, o.slug, \
             d.id, COALESCE(d.cluster_state, d.state), d.received_at, d.tag), ';') AS packed \
             FROM (SELECT o.target, o.namespace, o.slug, (SELECT e.id FROM deployments e WHERE e.target = o.target \
             AND e.namespace = o.namespace AND e.slug = o.slug ORDER BY e.id DESC LIMIT 1) AS newest \
             FROM owners o {test} LIMIT {limit}) AS o JOIN deployments d ON d.id = o.newest"
        );
        let values: Vec<&TargetName> = target.into_iter().collect();
        let row = query_of(sql, values).fetch_one(&self.readers, READING).await?;
        let packed = row.packed()?;
        // One that cannot be read must not hide all others.
        Ok(entries(&packed).filter_map(read_owned).collect())
    }

    /// Returns the newest deployment of each of these apps; apps without any are left out. Thousands are better asked for
    /// by [`Store::newest_of_owned`]: each has three values.
    pub async fn newest_deployments(
        &self,
        instances: &[&AppInstance],
    ) -> Result<BTreeMap<AppInstance, NewestDeployment>, StoreError> {
        let mut newest = BTreeMap::new();
        for chunk in instances.chunks(APPS_AT_ONCE) {
            let row = |n: usize| format!("({n}, {})", placeholders(3 * n + 1, 3));
            let rows: Vec<_> = (0..chunk.len()).map(row).collect();
            // One search of the index of apps for each.
            let sql = format!(
                "SELECT 'overview' AS id, string_agg(v.column1 || ' ' || d.id || ' ' || \
                 COALESCE(d.cluster_state, d.state) || ' ' || d.received_at || ' ' || d.tag, ';') AS packed \
                 FROM (VALUES {}) AS v JOIN deployments d ON d.id = (SELECT e.id FROM deployments e \
                 WHERE e.target = v.column2 AND e.namespace = v.column3 AND e.slug = v.column4 \
                 ORDER BY e.id DESC LIMIT 1)",
                rows.join(", ")
            );
            let values: Vec<_> =
                chunk.iter().map(|instance| (&instance.target, &instance.app)).collect();
            let row = query_of(sql, values).fetch_one(&self.readers, READING).await?;
            for text in entries(&row.packed()?) {
                let (number, deployment) =
                    read_newest(text).ok_or_else(|| row.corrupt("packed", &text))?;
                if let Some(instance) = chunk.get(number) {
                    newest.insert((*instance).clone(), deployment);
                }
            }
        }
        Ok(newest)
    }

    /// Returns the apps whose deployments have all failed before the push, on one target or on all. An app whose repository
    /// has pushed another one to that target since is left out: its WAML has another name or namespace by now.
    pub async fn unpushed_apps(
        &self,
        target: Option<&TargetName>,
    ) -> Result<Vec<UnpushedApp>, StoreError> {
        // The index of failed deployments has one group for each app, and few of those have no owner.
        let mut sql = "SELECT d.id, d.target, d.namespace, d.slug, d.repository, \
             CASE WHEN LENGTH(d.contact) <= 16384 THEN d.contact END AS contact \
             FROM (SELECT MAX(id) AS id FROM deployments WHERE state = 'failed' AND slug IS NOT NULL \
             GROUP BY target, namespace, slug) f JOIN deployments d ON d.id = f.id \
             WHERE NOT EXISTS (SELECT 1 FROM owners o WHERE o.target = d.target AND o.namespace = d.namespace \
             AND o.slug = d.slug) \
             AND NOT EXISTS (SELECT 1 FROM deployments s WHERE s.target = d.target AND s.namespace = d.namespace \
             AND s.slug = d.slug AND s.state = 'succeeded') \
             AND NOT EXISTS (SELECT 1 FROM deployments s WHERE s.repository = d.repository AND s.target = d.target \
             AND s.app_name = d.app_name AND s.id > d.id AND s.state = 'succeeded')"
            .to_owned();
        if target.is_some() {
            sql += " AND d.target = $1";
        }
        sql += &format!(" ORDER BY d.id DESC LIMIT {MAX_UNPUSHED}");
        let values: Vec<&TargetName> = target.into_iter().collect();
        let rows = query_of(sql, values).fetch_all(&self.readers, READING).await?;
        rows.iter().map(read_unpushed).collect()
    }

    /// Returns the newest deployments of repositories to targets that have failed before their app was known, the newest ones
    /// first; on request, of one target, or of one repository to it. One that was cancelled since has failed no more.
    pub async fn unread_deployments(
        &self,
        target: Option<&TargetName>,
        repository: Option<&RepoName>,
    ) -> Result<Vec<UnreadDeployment>, StoreError> {
        let test = match (target, repository) {
            (None, None) => "",
            (Some(_), None) => "AND target = $1",
            (None, Some(_)) => "AND repository = $1",
            (Some(_), Some(_)) => "AND target = $1 AND repository = $2",
        };
        // The conditions on `slug` and `state` are those of indexes, word for word, so that SQLite uses them.
        let sql = format!(
            "SELECT 'overview' AS id, string_agg(format('%s %s %s %s %s %s %s %s %s %s', u.repository, u.target, \
             u.is_waml_unreadable, u.owner, u.namespace, u.slug, u.id, u.state, u.received_at, u.tag), ';') AS packed \
             FROM (SELECT d.repository, d.target, CASE WHEN d.contact IS NULL THEN 1 ELSE 0 END AS is_waml_unreadable, \
             COALESCE(o.repository, '-') AS owner, COALESCE(k.namespace, '-') AS namespace, \
             COALESCE(k.slug, '-') AS slug, d.id, d.state, d.received_at, d.tag \
             FROM (SELECT MAX(id) AS id FROM deployments WHERE slug IS NULL AND state IN ('failed', 'cancelled') \
             AND app_name <> '*' {test} GROUP BY repository, target, app_name) f JOIN deployments d ON d.id = f.id \
             LEFT JOIN deployments k ON k.id = (SELECT MAX(s.id) FROM deployments s WHERE s.repository = d.repository \
             AND s.target = d.target AND s.slug IS NOT NULL AND (s.app_name = d.app_name OR d.app_name = '')) \
             LEFT JOIN owners o ON o.target = k.target AND o.namespace = k.namespace AND o.slug = k.slug \
             WHERE d.state = 'failed' AND (k.id IS NULL OR k.id < d.id) ORDER BY d.id DESC LIMIT {MAX_UNREAD}) AS u"
        );
        let values: Vec<&str> = [target.map(TargetName::as_str), repository.map(RepoName::as_str)]
            .into_iter()
            .flatten()
            .collect();
        let row = query_of(sql, values).fetch_one(&self.readers, READING).await?;
        let mut unread: Vec<_> = entries(&row.packed()?).filter_map(read_unread).collect();
        unread.sort_by(|one, other| other.newest.id.cmp(&one.newest.id));
        Ok(unread)
    }

    /// Returns the image tag of each of these deployments, and the time at which it was received; unknown ones are left
    /// out. The same as [`Store::releases`], for thousands.
    pub async fn packed_releases(
        &self,
        ids: &[DeployId],
    ) -> Result<BTreeMap<DeployId, ReleaseTime>, StoreError> {
        let mut releases = BTreeMap::new();
        for chunk in ids.chunks(IDS_AT_ONCE) {
            let sql = format!(
                "SELECT 'overview' AS id, string_agg(id || ' ' || received_at || ' ' || tag, ';') AS packed \
                 FROM deployments WHERE id IN ({})",
                placeholders(1, chunk.len())
            );
            let ids: Vec<&DeployId> = chunk.iter().collect();
            let row = query_of(sql, ids).fetch_one(&self.readers, READING).await?;
            for text in entries(&row.packed()?) {
                let release = read_release(text);
                releases.extend([release.ok_or_else(|| row.corrupt("packed", &text))?]);
            }
        }
        Ok(releases)
    }
}

/// Cuts a packed text. Neither ids nor tags have a space or a semicolon.
pub(super) fn entries(packed: &str) -> impl Iterator<Item = &str> {
    packed.split(';').filter(|entry| !entry.is_empty())
}

fn read_newest(entry: &str) -> Option<(usize, NewestDeployment)> {
    let (number, rest) = entry.split_once(' ')?;
    Some((number.parse().ok()?, read_deployment(rest)?))
}

fn read_owned(entry: &str) -> Option<(AppInstance, NewestDeployment)> {
    let mut parts = entry.splitn(4, ' ');
    let mut next = || parts.next();
    let target = TargetName::parse(next()?).ok()?;
    let (namespace, slug) = (Namespace::parse(next()?).ok()?, Slug::parse(next()?).ok()?);
    let instance = AppInstance { target, app: AppKey { namespace, slug } };
    Some((instance, read_deployment(next()?)?))
}

fn read_deployment(text: &str) -> Option<NewestDeployment> {
    let mut parts = text.split(' ');
    let mut next = || parts.next();
    let (id, state) = (DeployId::parse(next()?).ok()?, State::parse(next()?)?);
    let received_at = read_time(next()?)?;
    Some(NewestDeployment { id, tag: ImageTag::parse(next()?).ok()?, state, received_at })
}

fn read_unpushed(row: &Row) -> Result<UnpushedApp, StoreError> {
    let contact: Option<Contact> = row.json("contact")?;
    Ok(UnpushedApp {
        instance: AppInstance { target: row.id("target")?, app: row.app()? },
        repository: row.id("repository")?,
        owner: contact.map(|contact| contact.owner),
    })
}

fn read_unread(entry: &str) -> Option<UnreadDeployment> {
    let mut parts = entry.splitn(7, ' ');
    let mut next = || parts.next();
    let (repository, target) = (RepoName::parse(next()?).ok()?, TargetName::parse(next()?).ok()?);
    let (is_waml_unreadable, owner) = (next()? == "1", next()?);
    let (namespace, slug) = (Namespace::parse(next()?).ok(), Slug::parse(next()?).ok());
    let app = namespace.zip(slug).map(|(namespace, slug)| AppKey { namespace, slug });
    let was_pushed = owner == repository.as_str();
    Some(UnreadDeployment {
        newest: read_deployment(next()?)?,
        is_waml_unreadable,
        app: app.filter(|_| was_pushed || owner == "-"),
        was_pushed,
        repository,
        target,
    })
}

fn read_release(entry: &str) -> Option<(DeployId, ReleaseTime)> {
    let mut parts = entry.split(' ');
    let mut next = || parts.next();
    let (id, received_at) = (DeployId::parse(next()?).ok()?, read_time(next()?)?);
    Some((id, (ImageTag::parse(next()?).ok()?, received_at)))
}

/// Reads the time of a packed text.
pub(super) fn read_time(millis: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(millis.parse().ok()?).ok()
}
