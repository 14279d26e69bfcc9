//! Reads values from rows, each checked as if it came from outside.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::model::deploy_clock::{DeployMark, MarkClock};
use crate::model::deployment::{Deployment, State};
use crate::model::event::{DeploymentRequest, Recipient};
use crate::model::id::{AppKey, AppName, IdError};
use crate::model::release::Release;
use crate::model::violation::Violations;
use crate::store::error::StoreError;
use crate::store::mark_text;

/// One row with its name, for errors.
pub(super) struct Row {
    row: AnyRow,
    name: String,
}

impl Row {
    /// Wraps a row whose column `id` is its name.
    pub(super) fn new(row: AnyRow) -> Self {
        let name = row.try_get("id").unwrap_or_default();
        Self { row, name }
    }

    pub(super) fn text(&self, column: &'static str) -> Result<String, StoreError> {
        self.row.try_get(column).map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn maybe_text(&self, column: &'static str) -> Result<Option<String>, StoreError> {
        self.row.try_get(column).map_err(|error| self.corrupt(column, &error))
    }

    /// Returns the text to which the database has joined many rows; empty if there are none.
    pub(super) fn packed(&self) -> Result<String, StoreError> {
        Ok(self.maybe_text("packed")?.unwrap_or_default())
    }

    pub(super) fn number(&self, column: &'static str) -> Result<i64, StoreError> {
        self.row.try_get(column).map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn maybe_number(&self, column: &'static str) -> Result<Option<i64>, StoreError> {
        self.row.try_get(column).map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn count<N: TryFrom<i64>>(&self, column: &'static str) -> Result<N, StoreError> {
        let number = self.number(column)?;
        N::try_from(number).map_err(|_| self.corrupt(column, &number))
    }

    pub(super) fn time(&self, column: &'static str) -> Result<Timestamp, StoreError> {
        let time = Timestamp::from_millisecond(self.number(column)?);
        time.map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn maybe_time(&self, column: &'static str) -> Result<Option<Timestamp>, StoreError> {
        let time = self.maybe_number(column)?.map(Timestamp::from_millisecond).transpose();
        time.map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn flag(&self, column: &'static str) -> Result<bool, StoreError> {
        Ok(self.number(column)? != 0)
    }

    pub(super) fn id<T>(&self, column: &'static str) -> Result<T, StoreError>
    where
        T: TryFrom<String, Error = IdError>,
    {
        T::try_from(self.text(column)?).map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn maybe_id<T>(&self, column: &'static str) -> Result<Option<T>, StoreError>
    where
        T: TryFrom<String, Error = IdError>,
    {
        let parsed = self.maybe_text(column)?.map(T::try_from).transpose();
        parsed.map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn app(&self) -> Result<AppKey, StoreError> {
        Ok(AppKey { namespace: self.id("namespace")?, slug: self.id("slug")? })
    }

    pub(super) fn maybe_app(&self) -> Result<Option<AppKey>, StoreError> {
        let app = self.maybe_id("namespace")?.zip(self.maybe_id("slug")?);
        Ok(app.map(|(namespace, slug)| AppKey { namespace, slug }))
    }

    /// Returns a word that `parse` accepts.
    pub(super) fn word<T>(
        &self,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, StoreError> {
        let word = self.text(column)?;
        parse(&word).ok_or_else(|| self.corrupt(column, &word))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, StoreError> {
        let text = self.maybe_text(column)?.unwrap_or_else(|| "null".to_owned());
        serde_json::from_str(&text).map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn corrupt(
        &self,
        column: &'static str,
        reason: &impl std::fmt::Display,
    ) -> StoreError {
        StoreError::Corrupt { row: self.name.clone(), column, reason: reason.to_string() }
    }
}

/// Counts the violations of a severity in a JSON text. Inside of their texts there are no such
/// quotes.
macro_rules! violation_count {
    ($text:literal, $severity:literal) => {
        concat!(
            "(LENGTH(",
            $text,
            ") - LENGTH(REPLACE(",
            $text,
            ", '\"severity\":\"",
            $severity,
            "\"', ''))) / LENGTH('\"severity\":\"",
            $severity,
            "\"')"
        )
    };
}

/// The columns of [`overview`]. No value is read that is much longer than the service writes it:
/// former versions stored without a bound. Violations that were not counted when they were stored
/// are counted at the beginning of their text, until `Store::bound_violations` has counted all.
macro_rules! overview_columns {
    () => {
        concat!(
            "id, repository, target, forge_id, commit_id, tag, SUBSTR(git_ref, 1, 1000) AS git_ref, \
             SUBSTR(actor, 1, 1000) AS actor, SUBSTR(description, 1, 4000) AS description, \
             namespace, slug, template, templates_commit, COALESCE(cluster_state, state) AS state, \
             received_at, CASE WHEN cluster_state IS NULL THEN finished_at \
             WHEN cluster_state NOT IN ('syncing', 'progressing') THEN cluster_at END AS finished_at, \
             CASE WHEN pushed IS NOT NULL THEN finished_at END AS pushed_at, \
             CASE WHEN LENGTH(waiting) <= 16384 THEN waiting END AS waiting, \
             SUBSTR(summary, 1, 4000) AS summary, SUBSTR(marks, 1, 2000) AS marks, \
             CASE WHEN LENGTH(pushed) <= 262144 THEN pushed END AS pushed, rollback, rollout, fleet, \
             app_name, parent, \
             CASE WHEN LENGTH(contact) <= 16384 THEN contact END AS contact, \
             SUBSTR(address, 1, 4000) AS address, attempts, failures, refused_since, \
             production, automatic, recipient, ",
            "COALESCE(errors, ",
            $crate::store::row::violation_count!("SUBSTR(violations, 1, 16384)", "error"),
            ") AS errors, COALESCE(warnings, ",
            $crate::store::row::violation_count!("SUBSTR(violations, 1, 16384)", "warning"),
            ") AS warnings"
        )
    };
}

/// The columns of [`picture`].
macro_rules! picture_columns {
    () => {
        concat!(
            $crate::store::row::overview_columns!(),
            ", CASE WHEN LENGTH(stages) <= 65536 THEN stages ELSE '[]' END AS stages"
        )
    };
}

/// The columns of [`deployment`]. Of a list that is too long only the begin is read.
macro_rules! deployment_columns {
    () => {
        concat!(
            $crate::store::row::picture_columns!(),
            ", SUBSTR(violations, 1, 262144) AS violations, \
             CASE WHEN LENGTH(log_tail) <= 65536 THEN log_tail END AS log_tail, \
             CASE WHEN LENGTH(hand_edit) <= 1048576 THEN hand_edit END AS hand_edit"
        )
    };
}

pub(super) use {deployment_columns, overview_columns, picture_columns, violation_count};

/// Reads a deployment with all its data.
pub(super) fn deployment(row: &Row) -> Result<Deployment, StoreError> {
    let values = first_values(&row.text("violations")?);
    let violations = Violations::of_record(values, row.count("errors")?, row.count("warnings")?);
    let log_tail = row.json::<Option<Vec<String>>>("log_tail")?.unwrap_or_default();
    Ok(Deployment { violations, log_tail, hand_edit: row.json("hand_edit")?, ..picture(row)? })
}

/// Reads a deployment with its stages. Its violations are counted and not listed; its manual edit
/// is not read.
pub(super) fn picture(row: &Row) -> Result<Deployment, StoreError> {
    Ok(Deployment { stages: row.json("stages")?, ..overview(row)? })
}

/// Reads the values of a JSON list up to the place where it is cut, or invalid.
pub(super) fn first_values<T: DeserializeOwned>(list: &str) -> Vec<T> {
    let (mut values, mut rest) = (Vec::new(), list.trim_start_matches('['));
    loop {
        let mut reader = serde_json::Deserializer::from_str(rest).into_iter();
        let Some(Ok(value)) = reader.next() else { return values };
        values.push(value);
        let end = reader.byte_offset();
        rest = rest.get(end..).unwrap_or_default().trim_start_matches(',');
    }
}

/// Reads a deployment for a list: as [`picture`], without its stages.
pub(super) fn overview(row: &Row) -> Result<Deployment, StoreError> {
    Ok(Deployment {
        id: row.id("id")?,
        request: request(row)?,
        app: row.maybe_app()?,
        state: row.word("state", State::parse)?,
        received_at: row.time("received_at")?,
        pushed_at: row.maybe_time("pushed_at")?,
        finished_at: row.maybe_time("finished_at")?,
        waiting: row.json("waiting")?,
        log_tail: Vec::new(),
        stages: Vec::new(),
        marks: mark_text::decode(&row.text("marks")?),
        summary: row.text("summary")?,
        violations: Violations::of_record(Vec::new(), row.count("errors")?, row.count("warnings")?),
        pushed: row.json("pushed")?,
        rollback: row.json("rollback")?,
        rollout: row.maybe_id("rollout")?,
        fleet: row.maybe_id("fleet")?,
        all_apps: row.text("app_name")? == EVERY_APP,
        parent: row.maybe_id("parent")?,
        hand_edit: None,
        template: row.maybe_text("template")?,
        templates_commit: row.maybe_id("templates_commit")?,
        contact: row.json("contact")?,
        address: row.maybe_text("address")?,
        attempts: row.count("attempts")?,
    })
}

fn request(row: &Row) -> Result<DeploymentRequest, StoreError> {
    Ok(DeploymentRequest {
        forge_id: row.number("forge_id")?,
        release: Release {
            repository: row.id("repository")?,
            app: app_name(row)?,
            commit: row.id("commit_id")?,
            tag: row.id("tag")?,
        },
        target: row.id("target")?,
        git_ref: row.text("git_ref")?,
        actor: row.text("actor")?,
        description: row.text("description")?,
        production: row.flag("production")?,
        automatic: row.flag("automatic")?,
        recipient: Recipient::parse(row.maybe_text("recipient")?),
        identity: None,
        requested_at: mark_text::decode(&row.text("marks")?)
            .get(DeployMark::Requested)
            .filter(|time| time.clock == MarkClock::CodeHost)
            .map(|time| time.at),
    })
}

/// The word for all apps of a repository, in the place of one's name.
pub(super) const EVERY_APP: &str = "*";

/// Reads the name of an app; `None` for the only one of its repository, and for all of them.
pub(super) fn app_name(row: &Row) -> Result<Option<AppName>, StoreError> {
    let name = row.text("app_name")?;
    if name.is_empty() || name == EVERY_APP {
        return Ok(None);
    }
    row.id("app_name").map(Some)
}

/// Returns the JSON text of a value.
pub(super) fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("stored values have string keys and no failing serializers")
}
