//! Queries for the overview of all apps. Read-only.
//!
//! The driver takes several microseconds for each value of each row, so that the rows of some thousand apps would take
//! more than the page may. The database joins them to one text.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::app_instance::AppInstance;
use crate::model::deployment::State;
use crate::model::id::{DeployId, ImageTag};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::{placeholders, query_of};

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

/// The image tag of a deployment, and the time at which it was received.
type ReleaseTime = (ImageTag, Timestamp);

/// The number of apps in one statement; each has three values.
const APPS_AT_ONCE: usize = 1_000;
/// The number of ids in one statement.
const IDS_AT_ONCE: usize = 1_000;

const READING: &str = "reading the overview";

impl Store {
    /// Returns the newest deployment of each of these apps; apps without any are left out.
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
            let row = query_of(sql, values).fetch_one(&self.pool, READING).await?;
            for text in entries(&row.maybe_text("packed")?.unwrap_or_default()) {
                let (number, deployment) =
                    read_newest(text).ok_or_else(|| row.corrupt("packed", &text))?;
                if let Some(instance) = chunk.get(number) {
                    newest.insert((*instance).clone(), deployment);
                }
            }
        }
        Ok(newest)
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
            let row = query_of(sql, ids).fetch_one(&self.pool, READING).await?;
            for text in entries(&row.maybe_text("packed")?.unwrap_or_default()) {
                let release = read_release(text);
                releases.extend([release.ok_or_else(|| row.corrupt("packed", &text))?]);
            }
        }
        Ok(releases)
    }
}

/// Cuts a packed text. Neither ids nor tags have a space or a semicolon.
fn entries(packed: &str) -> impl Iterator<Item = &str> {
    packed.split(';').filter(|entry| !entry.is_empty())
}

fn read_newest(entry: &str) -> Option<(usize, NewestDeployment)> {
    let mut parts = entry.split(' ');
    let mut next = || parts.next();
    let (number, id, state) = (next()?.parse().ok()?, next()?, State::parse(next()?)?);
    let received_at = read_time(next()?)?;
    let (id, tag) = (DeployId::parse(id).ok()?, ImageTag::parse(next()?).ok()?);
    Some((number, NewestDeployment { id, tag, state, received_at }))
}

fn read_release(entry: &str) -> Option<(DeployId, ReleaseTime)> {
    let mut parts = entry.split(' ');
    let mut next = || parts.next();
    let (id, received_at) = (DeployId::parse(next()?).ok()?, read_time(next()?)?);
    Some((id, (ImageTag::parse(next()?).ok()?, received_at)))
}

fn read_time(millis: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(millis.parse().ok()?).ok()
}
