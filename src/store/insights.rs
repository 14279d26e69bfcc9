//! Queries about all deployments of a window of time, for insights. Read-only.
//!
//! Exact percentiles need every value. The rule of skewed clocks is written once, over marks, so SQL does not compute
//! the intervals: they are recorded beside the marks. The driver takes several microseconds for each value of each row, so
//! that 100,000 rows would take half a second; here the database joins the lengths of thousands of rows to one text, which
//! takes a tenth of that. A slice of the window is in memory at a time. The lengths are read from an index of narrow columns
//! and not from the rows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::model::deploy_clock::DeployLapses;
use crate::model::deployment::State;
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::rollback::Rollback;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::mark_text;
use crate::store::overview::{entries, read_time};
use crate::store::query::{Bind, Condition, placeholders, query_of};
use crate::store::row::Row;

/// The deployments that insights are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsightScope {
    /// Received at this time or later.
    pub since: Timestamp,
    /// Received before this time.
    pub until: Timestamp,
    /// Only deployments to this target.
    pub target: Option<TargetName>,
    /// Only deployments of this app.
    pub app: Option<AppKey>,
    /// Only deployments at one of these places, at least one: the caller may see no others.
    pub places: Option<Vec<DeploymentPlace>>,
}

/// A repository's app on a target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeploymentPlace {
    /// The target.
    pub target: TargetName,
    /// The service repository.
    pub repository: RepoName,
    /// The app; `None` for deployments whose WAML could not be read.
    pub app: Option<AppKey>,
}

/// The kinds of deployments, of which each has an index of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeploymentKind {
    /// A deployment of a release, which workers have ended.
    Change,
    /// A rollback, which workers have ended.
    Rollback,
    /// Either, and a worker has not ended it.
    Unfinished,
}

impl DeploymentKind {
    fn test(self) -> &'static str {
        match self {
            Self::Change => {
                "finished_at IS NOT NULL AND rollback IS NULL AND fleet IS NULL AND app_name <> '*'"
            }
            Self::Rollback => "finished_at IS NOT NULL AND rollback IS NOT NULL AND fleet IS NULL",
            Self::Unfinished => "finished_at IS NULL AND fleet IS NULL AND app_name <> '*'",
        }
    }
}

/// The number of deployments of one outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutcomeCount {
    /// The state that people see.
    pub state: State,
    /// True if they are in the manifest repository.
    pub is_pushed: bool,
    /// Their number.
    pub count: u64,
}

/// The lengths of many deployments, as the database joins them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedLapses {
    /// The number of deployments.
    pub count: u64,
    text: String,
}

impl PackedLapses {
    /// Returns the lengths of each deployment that has any.
    pub fn iter(&self) -> impl Iterator<Item = DeployLapses> {
        let texts = self.text.split(' ').filter(|text| !text.is_empty());
        texts.map(mark_text::decode_lapses)
    }
}

/// Many deployments with their lengths, as the database joins them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedDeployments(String);

/// A deployment of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowDeployment<'a> {
    /// The time at which it was received.
    pub received_at: Timestamp,
    /// `namespace/slug`; empty where the WAML could not be read.
    pub app: &'a str,
    /// The state that people see.
    pub state: State,
    /// True if it is in the manifest repository.
    pub is_pushed: bool,
    /// How long it took.
    pub lapses: DeployLapses,
}

impl PackedDeployments {
    /// Returns each deployment. One that cannot be read is left out.
    pub fn iter(&self) -> impl Iterator<Item = WindowDeployment<'_>> {
        self.0.split('\n').filter_map(read_deployment)
    }
}

fn read_deployment(text: &str) -> Option<WindowDeployment<'_>> {
    let mut parts = text.splitn(5, ' ');
    let mut next = || parts.next();
    let received_at = read_time(next()?)?;
    let (app, state, in_cluster) = (next()?, State::parse(next()?)?, next()?);
    // One whose WAML could not be read has neither namespace nor slug.
    let app = if app == "/" { "" } else { app };
    Some(WindowDeployment {
        received_at,
        app,
        state: State::parse(in_cluster).unwrap_or(state),
        is_pushed: state == State::Succeeded,
        lapses: mark_text::decode_lapses(next()?),
    })
}

/// What is known of why a deployment failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureReason {
    /// The first rule that it broke; `None` if it broke none.
    pub rule: Option<String>,
    /// The beginning of its summary.
    pub summary: String,
}

/// A change that failed, and what came after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeFailure {
    /// The time at which the change ended.
    pub ended_at: Timestamp,
    /// The time at which the next deployment of the app to the target succeeded.
    pub restored_at: Option<Timestamp>,
}

/// The outcome of a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutOutcome {
    /// The word of its state.
    pub state: String,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
}

const READING: &str = "reading insights";
/// What stands between two fields, and between two entries, of texts that may contain anything else.
const FIELD: &str = "\u{1f}";
const ENTRY: &str = "\u{1e}";
/// The number of ids in one statement.
const AT_ONCE: usize = 200;

impl Store {
    /// Returns the places that have deployments in the window, at most so many.
    pub async fn deployment_places(
        &self,
        scope: &InsightScope,
        limit: u32,
    ) -> Result<Vec<DeploymentPlace>, StoreError> {
        let (tests, values) = scope.tests();
        let kinds = [DeploymentKind::Change, DeploymentKind::Rollback, DeploymentKind::Unfinished];
        let of_kind = |kind: DeploymentKind| {
            format!(
                "SELECT DISTINCT target AS id, target, repository, namespace, slug \
                 FROM deployments WHERE {} AND {tests}",
                kind.test()
            )
        };
        let sql = format!("{} LIMIT {limit}", kinds.map(of_kind).join(" UNION "));
        let rows = query_of(sql, values).fetch_all(&self.readers, READING).await?;
        let place = |row: &Row| {
            Ok(DeploymentPlace {
                target: row.id("target")?,
                repository: row.id("repository")?,
                app: row.maybe_app()?,
            })
        };
        rows.iter().map(place).collect()
    }

    /// Returns the time from which the window has so many deployments of a kind; `None` if it has fewer.
    pub async fn slice_start(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
        count: u32,
    ) -> Result<Option<Timestamp>, StoreError> {
        let (tests, values) = scope.tests();
        let sql = format!(
            "SELECT 'slice' AS id, received_at FROM deployments WHERE {} AND {tests} \
             ORDER BY received_at DESC LIMIT 1 OFFSET {}",
            kind.test(),
            count.saturating_sub(1)
        );
        let row = query_of(sql, values).first(&self.readers, READING).await?;
        row.map(|row| row.time("received_at")).transpose()
    }

    /// Returns the lengths of the deployments of a kind.
    pub async fn packed_lapses(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
    ) -> Result<PackedLapses, StoreError> {
        let (tests, values) = scope.tests();
        let sql = format!(
            "SELECT 'lapses' AS id, COUNT(*) AS n, string_agg(lapses, ' ') AS lapses \
             FROM deployments WHERE {} AND {tests}",
            kind.test()
        );
        let row = query_of(sql, values).fetch_one(&self.readers, READING).await?;
        let text = row.maybe_text("lapses")?.unwrap_or_default();
        Ok(PackedLapses { count: row.count("n")?, text })
    }

    /// Returns the deployments of a kind with their lengths.
    pub async fn packed_deployments(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
    ) -> Result<PackedDeployments, StoreError> {
        let (tests, values) = scope.tests();
        let sql = format!(
            "SELECT 'deployments' AS id, string_agg(format('%s %s/%s %s %s %s', received_at, \
             namespace, slug, state, cluster_state, lapses), '\n') AS packed \
             FROM deployments WHERE {} AND {tests}",
            kind.test()
        );
        let row = query_of(sql, values).fetch_one(&self.readers, READING).await?;
        Ok(PackedDeployments(row.packed()?))
    }

    /// Returns the reasons of the deployments that failed, at most so many, the newest.
    pub async fn failure_reasons(
        &self,
        scope: &InsightScope,
        limit: u32,
    ) -> Result<Vec<FailureReason>, StoreError> {
        let (tests, mut values) = scope.tests();
        let (between, after) = (values.len() + 1, values.len() + 2);
        values.extend([FIELD, ENTRY].map(|text| Condition::Text(text.to_owned())));
        // The rule is the first key of a violation.
        let sql = format!(
            "SELECT 'failures' AS id, string_agg(f.violation || ${between} || f.sentence, ${after}) AS packed FROM \
             (SELECT SUBSTR(violations, 1, 100) AS violation, SUBSTR(summary, 1, 400) AS sentence FROM deployments \
             WHERE COALESCE(cluster_state, state) = 'failed' AND app_name <> '*' AND {tests} \
             ORDER BY received_at DESC LIMIT {limit}) AS f"
        );
        let row = query_of(sql, values).fetch_one(&self.readers, READING).await?;
        let packed = row.packed()?;
        let reason = |text: &str| {
            let (violation, summary) = text.split_once(FIELD)?;
            let rule =
                violation.strip_prefix("[{\"rule\":\"").and_then(|rest| rest.split_once('"'));
            let rule = rule.map(|(rule, _)| rule.to_owned());
            Some(FailureReason { rule, summary: summary.to_owned() })
        };
        Ok(packed.split(ENTRY).filter_map(reason).collect())
    }

    /// Counts the deployments of a kind by their outcome.
    pub async fn outcome_counts(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
    ) -> Result<Vec<OutcomeCount>, StoreError> {
        let (tests, values) = scope.tests();
        let sql = format!(
            "SELECT state AS id, state, cluster_state, COUNT(*) AS n FROM deployments \
             WHERE {} AND {tests} GROUP BY state, cluster_state",
            kind.test()
        );
        let rows = query_of(sql, values).fetch_all(&self.readers, READING).await?;
        let count = |row: &Row| {
            let state = row.word("state", State::parse)?;
            let in_cluster = match row.maybe_text("cluster_state")? {
                Some(_) => Some(row.word("cluster_state", State::parse)?),
                None => None,
            };
            Ok(OutcomeCount {
                state: in_cluster.unwrap_or(state),
                is_pushed: state == State::Succeeded,
                count: row.count("n")?,
            })
        };
        rows.iter().map(count).collect()
    }

    /// Returns the changes that failed in their cluster or were rolled back, with what came after them; at most so many
    /// of either, the newest.
    pub async fn failed_changes(
        &self,
        scope: &InsightScope,
        limit: u32,
    ) -> Result<Vec<ChangeFailure>, StoreError> {
        let (tests, values) = scope.tests();
        let failed = format!(
            "SELECT id, target, namespace, slug, cluster_at, finished_at FROM deployments \
             WHERE rollback IS NULL AND fleet IS NULL AND state = 'succeeded' AND cluster_state = 'failed' \
             AND {tests} ORDER BY received_at DESC LIMIT {limit}"
        );
        let mut failures = self.packed_failures(&failed, values).await?;
        // The index of states would be asked for all that have succeeded. An expression is in no index.
        let (tests, mut values) = scope.tests();
        let entry = values.len() + 1;
        values.push(Condition::Text(ENTRY.to_owned()));
        let rollbacks = format!(
            "SELECT 'rollbacks' AS id, string_agg(r.rollback, ${entry}) AS packed FROM \
             (SELECT rollback FROM deployments WHERE {} AND {tests} \
             AND COALESCE(cluster_state, state) || '' = 'succeeded' ORDER BY received_at DESC LIMIT {limit}) AS r",
            DeploymentKind::Rollback.test()
        );
        let row = query_of(rollbacks, values).fetch_one(&self.readers, READING).await?;
        let packed = row.packed()?;
        // One that cannot be read must not hide all others.
        let rollbacks = packed.split(ENTRY).filter_map(|text| serde_json::from_str(text).ok());
        let rolled_back: BTreeSet<DeployId> =
            rollbacks.filter_map(|rollback: Rollback| rollback.from).collect();
        let rolled_back: Vec<_> =
            rolled_back.iter().filter(|id| !failures.contains_key(*id)).collect();
        for ids in rolled_back.chunks(AT_ONCE) {
            let changes = format!(
                "SELECT id, target, namespace, slug, cluster_at, finished_at FROM deployments \
                 WHERE rollback IS NULL AND state = 'succeeded' AND received_at >= $1 AND id IN ({})",
                placeholders(2, ids.len())
            );
            failures.extend(self.packed_failures(&changes, (scope.since, ids.to_vec())).await?);
        }
        Ok(failures.into_values().collect())
    }

    /// Returns the rollouts that were started in the window, at most so many, the newest.
    pub async fn rollout_outcomes(
        &self,
        scope: &InsightScope,
        limit: u32,
    ) -> Result<Vec<RolloutOutcome>, StoreError> {
        let InsightScope { since, until, target, app, places } = scope;
        let sql = format!(
            "SELECT id, repository, namespace, slug, targets, state, created_at, ended_at FROM rollouts \
             WHERE created_at >= $1 AND created_at < $2 AND ($3 = '' OR namespace = $3) \
             AND ($4 = '' OR slug = $4) ORDER BY created_at DESC LIMIT {limit}"
        );
        let namespace = app.as_ref().map_or("", |app| app.namespace.as_str());
        let slug = app.as_ref().map_or("", |app| app.slug.as_str());
        let values = (since, until, namespace, slug);
        let mut outcomes = Vec::new();
        for row in query_of(sql, values).fetch_all(&self.readers, READING).await? {
            let targets: Vec<TargetName> = row.json("targets")?;
            let (repository, app) = (row.id::<RepoName>("repository")?, row.app()?);
            let is_visible = |place: &DeploymentPlace| {
                place.repository == repository
                    && place.app.as_ref() == Some(&app)
                    && targets.contains(&place.target)
            };
            let has_target = target.as_ref().is_none_or(|target| targets.contains(target));
            if has_target && places.as_ref().is_none_or(|places| places.iter().any(is_visible)) {
                outcomes.push(RolloutOutcome {
                    state: row.text("state")?,
                    started_at: row.time("created_at")?,
                    ended_at: row.maybe_time("ended_at")?,
                });
            }
        }
        Ok(outcomes)
    }

    /// Returns the failures of the changes that a query selects.
    async fn packed_failures(
        &self,
        changes: &str,
        values: impl Bind,
    ) -> Result<BTreeMap<DeployId, ChangeFailure>, StoreError> {
        let sql = format!(
            "SELECT 'failures' AS id, string_agg(format('%s %s %s', f.id, COALESCE(f.cluster_at, f.finished_at), \
             (SELECT COALESCE(s.cluster_at, s.finished_at) FROM deployments s \
             WHERE s.target = f.target AND s.namespace = f.namespace AND s.slug = f.slug \
             AND s.id > f.id AND COALESCE(s.cluster_state, s.state) = 'succeeded' \
             ORDER BY s.id LIMIT 1)), ';') AS packed FROM ({changes}) AS f"
        );
        let row = query_of(sql, values).fetch_one(&self.readers, READING).await?;
        let packed = row.packed()?;
        let failure = |entry| read_failure(entry).ok_or_else(|| row.corrupt("packed", &entry));
        entries(&packed).map(failure).collect()
    }
}

/// Reads the id of a change, and the times of its end and of the next success.
fn read_failure(entry: &str) -> Option<(DeployId, ChangeFailure)> {
    let mut parts = entry.split(' ');
    let mut next = || parts.next();
    let (id, ended_at, restored_at) = (next()?, read_time(next()?)?, next()?);
    Some((
        DeployId::parse(id).ok()?,
        ChangeFailure { ended_at, restored_at: read_time(restored_at) },
    ))
}

impl InsightScope {
    /// Returns the tests of a deployment, with placeholders from `$1` on, and their values.
    fn tests(&self) -> (String, Vec<Condition>) {
        let Self { since, until, target, app, places } = self;
        let times = [("received_at >=", since), ("received_at <", until)];
        let mut tests =
            Vec::from(times.map(|(test, at)| (test, Condition::Number(at.as_millisecond()))));
        // The index of apps would be asked for all deployments to a target, and the rows be read. An expression is in no
        // index.
        let target_test = if app.is_some() { "target =" } else { "target || '' =" };
        let names = [
            (target_test, target.as_ref().map(ToString::to_string)),
            ("namespace =", app.as_ref().map(|app| app.namespace.to_string())),
            ("slug =", app.as_ref().map(|app| app.slug.to_string())),
        ];
        let names = names.into_iter().filter_map(|(test, name)| Some((test, name?)));
        tests.extend(names.map(|(test, name)| (test, Condition::Text(name))));
        let (mut sql, mut values) = (Vec::new(), Vec::new());
        for ((test, value), n) in tests.into_iter().zip(1..) {
            sql.push(format!("{test} ${n}"));
            values.push(value);
        }
        if let Some(places) = places {
            let first = values.len() + 1;
            let rows = (0..places.len()).map(|n| format!("({})", placeholders(first + 4 * n, 4)));
            sql.push(format!(
                "(target, repository, COALESCE(namespace, ''), COALESCE(slug, '')) IN (VALUES {})",
                rows.collect::<Vec<_>>().join(", ")
            ));
            for DeploymentPlace { target, repository, app } in places {
                let app = app.as_ref();
                let namespace = app.map(|app| app.namespace.to_string()).unwrap_or_default();
                let slug = app.map(|app| app.slug.to_string()).unwrap_or_default();
                let columns = [target.to_string(), repository.to_string(), namespace, slug];
                values.extend(columns.map(Condition::Text));
            }
        }
        (sql.join(" AND "), values)
    }
}
