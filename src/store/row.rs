//! Rows become values again, each checked as if it came from outside.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::model::deployment::{Deployment, State};
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, IdError, Namespace, Slug};
use crate::model::release::Release;
use crate::store::error::StoreError;

/// One row that knows its name, for errors.
pub(super) struct Row {
    row: AnyRow,
    name: String,
}

impl Row {
    /// A row whose column `id` is its name.
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
        time_of(self.number(column)?).map_err(|error| self.corrupt(column, &error))
    }

    pub(super) fn maybe_time(&self, column: &'static str) -> Result<Option<Timestamp>, StoreError> {
        let millis: Option<i64> =
            self.row.try_get(column).map_err(|error| self.corrupt(column, &error))?;
        millis.map(time_of).transpose().map_err(|error| self.corrupt(column, &error))
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

    pub(super) fn state(&self) -> Result<State, StoreError> {
        let word = self.text("state")?;
        State::parse(&word).ok_or_else(|| self.corrupt("state", &word))
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

/// A deployment of a row with all its columns.
pub(super) fn deployment(row: &Row) -> Result<Deployment, StoreError> {
    Ok(Deployment {
        id: row.id("id")?,
        request: request(row)?,
        app: app(row)?,
        state: row.state()?,
        received_at: row.time("received_at")?,
        finished_at: row.maybe_time("finished_at")?,
        stages: row.json("stages")?,
        summary: row.text("summary")?,
        violations: row.json("violations")?,
        pushed: row.json("pushed")?,
        rollback: row.json("rollback")?,
        hand_edit: row.json("hand_edit")?,
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
            commit: row.id("commit_id")?,
            tag: row.id("tag")?,
        },
        target: row.id("target")?,
        git_ref: row.text("git_ref")?,
        actor: row.text("actor")?,
        description: row.text("description")?,
        production: row.number("production")? != 0,
        automatic: row.number("automatic")? != 0,
    })
}

fn app(row: &Row) -> Result<Option<AppKey>, StoreError> {
    let (Some(namespace), Some(slug)) = (row.maybe_text("namespace")?, row.maybe_text("slug")?)
    else {
        return Ok(None);
    };
    let namespace =
        Namespace::parse(namespace).map_err(|error| row.corrupt("namespace", &error))?;
    let slug = Slug::parse(slug).map_err(|error| row.corrupt("slug", &error))?;
    Ok(Some(AppKey { namespace, slug }))
}

fn time_of(millis: i64) -> Result<Timestamp, jiff::Error> {
    Timestamp::from_millisecond(millis)
}

/// The JSON text of a value of ours.
pub(super) fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our values have string keys and no failing serializers")
}

/// The text without NUL, which PostgreSQL refuses in a text.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "")
}
