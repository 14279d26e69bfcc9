//! A statement with its values, and the ways to run it. Each value is bound in the form in which
//! its column is stored; [`Row`] reads a row of the result.

use futures::TryStreamExt as _;
use jiff::Timestamp;
use sqlx::any::AnyArguments;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Either, Executor as _, SqlSafeStr, SqlStr};

use crate::model::id::{
    AppKey, AppName, CommitSha, DeployId, ImageTag, LockId, Namespace, RepoName, RolloutId,
    RolloutName, Slug, TargetName,
};
use crate::model::notice::{Sink, SinkFamily};
use crate::store::connect::DatabaseBackend;
use crate::store::error::StoreError;
use crate::store::readers::Readers;
use crate::store::row::Row;

/// A statement with its values, not run yet.
#[must_use = "a statement does nothing until it is run"]
pub(super) struct Query {
    sql: SqlStr,
    values: Vec<BoundValue>,
}

/// A value as its column stores it.
pub(super) enum BoundValue {
    Text(Option<String>),
    Number(Option<i64>),
}

/// The database's answer to one statement.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// The number of changed rows.
    pub(super) changed: u64,
}

/// Returns the statement with the values of `$1` and so on.
pub(super) fn query(sql: impl SqlSafeStr, values: impl Bind) -> Query {
    let mut query = Query { sql: sql.into_sql_str(), values: Vec::new() };
    values.bind(&mut query.values);
    query
}

/// Does the same for SQL that was assembled from constants, numbers and placeholders.
pub(super) fn query_of(sql: String, values: impl Bind) -> Query {
    query(AssertSqlSafe(sql), values)
}

/// A connection, the readers or a transaction, which runs statements.
pub(super) trait Executor: Send {
    /// Runs a statement.
    fn ask(
        self,
        query: Query,
        doing: &'static str,
    ) -> impl Future<Output = Result<Answer, StoreError>> + Send;

    /// Returns the first row alone.
    fn first(
        self,
        query: Query,
        doing: &'static str,
    ) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;
}

impl Executor for &Readers {
    async fn ask(self, query: Query, doing: &'static str) -> Result<Answer, StoreError> {
        let mut reader = self.acquire().await.map_err(StoreError::doing(doing))?;
        let answer = reader.connection().ask(query, doing).await?;
        reader.give_back();
        Ok(answer)
    }

    async fn first(self, query: Query, doing: &'static str) -> Result<Option<Row>, StoreError> {
        let mut reader = self.acquire().await.map_err(StoreError::doing(doing))?;
        let row = reader.connection().first(query, doing).await?;
        reader.give_back();
        Ok(row)
    }
}

impl Executor for &mut AnyConnection {
    async fn ask(self, query: Query, doing: &'static str) -> Result<Answer, StoreError> {
        let mut answer = Answer::default();
        let mut results = self.fetch_many(query.into_sqlx());
        while let Some(item) = results.try_next().await.map_err(StoreError::doing(doing))? {
            match item {
                Either::Left(result) => answer.changed += result.rows_affected(),
                Either::Right(row) => answer.rows.push(Row::new(row)),
            }
        }
        Ok(answer)
    }

    async fn first(self, query: Query, doing: &'static str) -> Result<Option<Row>, StoreError> {
        let row = query.into_sqlx().fetch_optional(self).await.map_err(StoreError::doing(doing))?;
        Ok(row.map(Row::new))
    }
}

/// Runs statements in their order; returns an answer for each. SQLite's connection is a thread: each
/// round trip to it costs more than most statements, so it gets all at once.
pub(super) async fn ask_all(
    connection: &mut AnyConnection,
    kind: DatabaseBackend,
    queries: Vec<Query>,
    doing: &'static str,
) -> Result<Vec<Answer>, StoreError> {
    let count = queries.len();
    let mut answers = Vec::with_capacity(count);
    if kind == DatabaseBackend::Postgres {
        for query in queries {
            answers.push((&mut *connection).ask(query, doing).await?);
        }
        return Ok(answers);
    }
    let mut results = connection.fetch_many(Query::join(queries).into_sqlx());
    let mut answer = Answer::default();
    while let Some(item) = results.try_next().await.map_err(StoreError::doing(doing))? {
        match item {
            // The driver ends the answer to each statement with this.
            Either::Left(result) => {
                answer.changed = result.rows_affected();
                answers.push(std::mem::take(&mut answer));
            }
            Either::Right(row) => answer.rows.push(Row::new(row)),
        }
    }
    if answers.len() == count { Ok(answers) } else { Err(count_error(doing)) }
}

/// Returns the answers to that number of statements.
pub(super) fn array<const N: usize>(
    answers: Vec<Answer>,
    doing: &'static str,
) -> Result<[Answer; N], StoreError> {
    answers.try_into().map_err(|_| count_error(doing))
}

fn count_error(doing: &'static str) -> StoreError {
    let message = "the driver gave other than one answer for each statement";
    StoreError::doing(doing)(sqlx::Error::Protocol(message.to_owned()))
}

impl Query {
    fn into_sqlx(self) -> sqlx::query::Query<'static, Any, AnyArguments> {
        let Self { sql, values } = self;
        values.into_iter().fold(sqlx::query(sql), |query, value| match value {
            BoundValue::Text(text) => query.bind(text),
            BoundValue::Number(number) => query.bind(number),
        })
    }

    /// Joins many statements into one text; each has placeholders for its own values.
    fn join(queries: Vec<Self>) -> Self {
        let (mut text, mut joined_values) = (String::new(), Vec::new());
        for Self { sql, values } in queries {
            let mut parts = sql.as_str().split('$');
            text.push_str(parts.next().unwrap_or_default());
            for part in parts {
                let digits = part.bytes().take_while(u8::is_ascii_digit).count();
                let (number, rest) = part.split_at(digits);
                let number = number.parse::<usize>().unwrap_or_default() + joined_values.len();
                text.extend(["$", &number.to_string(), rest]);
            }
            text.push(';');
            joined_values.extend(values);
        }
        Self { sql: AssertSqlSafe(text).into_sql_str(), values: joined_values }
    }

    /// Runs the statement.
    pub(super) async fn ask(
        self,
        executor: impl Executor,
        doing: &'static str,
    ) -> Result<Answer, StoreError> {
        executor.ask(self, doing).await
    }

    /// Runs the statement; returns the number of changed rows.
    pub(super) async fn execute(
        self,
        executor: impl Executor,
        doing: &'static str,
    ) -> Result<u64, StoreError> {
        Ok(executor.ask(self, doing).await?.changed)
    }

    pub(super) async fn fetch_all(
        self,
        executor: impl Executor,
        doing: &'static str,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(executor.ask(self, doing).await?.rows)
    }

    pub(super) async fn first(
        self,
        executor: impl Executor,
        doing: &'static str,
    ) -> Result<Option<Row>, StoreError> {
        executor.first(self, doing).await
    }

    /// Returns the row of a statement that always has one.
    pub(super) async fn fetch_one(
        self,
        executor: impl Executor,
        doing: &'static str,
    ) -> Result<Row, StoreError> {
        let not_found = || StoreError::doing(doing)(sqlx::Error::RowNotFound);
        executor.first(self, doing).await?.ok_or_else(not_found)
    }

    /// Returns a page of so many entries, or of as many as have a megabyte of text by the given
    /// size; and true if there are more. The statement finds one row more than the page may have.
    ///
    /// Rows are read one at a time: a page of the largest rows must not be in memory before it is
    /// cut.
    pub(super) async fn page<T>(
        self,
        readers: &Readers,
        doing: &'static str,
        limit: u32,
        read: impl Fn(&Row) -> Result<T, StoreError>,
        size: impl Fn(&T) -> usize,
    ) -> Result<(Vec<T>, bool), StoreError> {
        let mut reader = readers.acquire().await.map_err(StoreError::doing(doing))?;
        let mut rows = self.into_sqlx().fetch(reader.connection());
        let (mut entries, mut bytes, mut has_more) = (Vec::new(), 0, false);
        while let Some(row) = rows.try_next().await.map_err(StoreError::doing(doing))? {
            has_more = entries.len() == limit as usize || bytes >= MAX_BYTES;
            if has_more {
                break;
            }
            let entry = read(&Row::new(row))?;
            bytes += size(&entry);
            entries.push(entry);
        }
        drop(rows);
        reader.give_back();
        Ok((entries, has_more))
    }
}

/// The most entries of a page: a page is answered from memory.
pub(super) const LONGEST_PAGE: u32 = 500;
/// The bytes of text after which a page ends, and the next one begins.
const MAX_BYTES: usize = 1024 * 1024;

/// A value for one placeholder, or for several.
pub(super) trait Bind {
    fn bind(self, values: &mut Vec<BoundValue>);
}

/// A value for one placeholder.
pub(super) trait SqlValue {
    type Sql;
    fn into_sql(self) -> Self::Sql;
}

impl From<Option<String>> for BoundValue {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<Option<i64>> for BoundValue {
    fn from(number: Option<i64>) -> Self {
        Self::Number(number)
    }
}

impl<T: SqlValue> Bind for T
where
    BoundValue: From<Option<T::Sql>>,
{
    fn bind(self, values: &mut Vec<BoundValue>) {
        values.push(Some(self.into_sql()).into());
    }
}

impl<T: SqlValue> Bind for Option<T>
where
    BoundValue: From<Option<T::Sql>>,
{
    fn bind(self, values: &mut Vec<BoundValue>) {
        values.push(self.map(SqlValue::into_sql).into());
    }
}

impl<'a, T> Bind for &'a Option<T>
where
    Option<&'a T>: Bind,
{
    fn bind(self, values: &mut Vec<BoundValue>) {
        self.as_ref().bind(values);
    }
}

/// Binds the namespace and the slug.
impl Bind for &AppKey {
    fn bind(self, values: &mut Vec<BoundValue>) {
        Some(self).bind(values);
    }
}

impl Bind for Option<&AppKey> {
    fn bind(self, values: &mut Vec<BoundValue>) {
        (self.map(|app| &app.namespace), self.map(|app| &app.slug)).bind(values);
    }
}

impl<T: Bind> Bind for Vec<T> {
    fn bind(self, values: &mut Vec<BoundValue>) {
        for value in self {
            value.bind(values);
        }
    }
}

macro_rules! bind_tuples {
    ($($place:tt $type:ident),+) => {
        impl<$($type: Bind),+> Bind for ($($type,)+) {
            fn bind(self, values: &mut Vec<BoundValue>) {
                $(self.$place.bind(values);)+
            }
        }
    };
}
bind_tuples!(0 A, 1 B);
bind_tuples!(0 A, 1 B, 2 C);
bind_tuples!(0 A, 1 B, 2 C, 3 D);
bind_tuples!(0 A, 1 B, 2 C, 3 D, 4 E);
bind_tuples!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F);
bind_tuples!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G);
bind_tuples!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H);
bind_tuples!(0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I);

impl Bind for () {
    fn bind(self, _values: &mut Vec<BoundValue>) {}
}

impl SqlValue for i64 {
    type Sql = i64;
    fn into_sql(self) -> i64 {
        self
    }
}

macro_rules! values {
    ($sql:ty: $($type:ty),+ => $value:ident, $stored:expr) => {
        $(impl SqlValue for $type {
            type Sql = $sql;
            fn into_sql(self) -> $sql {
                let $value = self;
                $stored
            }
        })+
    };
}
values!(i64: &i64 => value, *value);
values!(i64: u32, u16, bool => value, i64::from(value));
values!(i64: &bool => value, i64::from(*value));
values!(i64: Timestamp, &Timestamp => time, time.as_millisecond());
values!(i64: usize => number, i64::try_from(number).unwrap_or(i64::MAX));
// PostgreSQL refuses NUL in a text.
values!(String: &str, &String => text, text.replace('\0', ""));
values!(String: String => text, if text.contains('\0') { text.replace('\0', "") } else { text });
values!(String: &AppName, &DeployId, &TargetName, &RepoName, &CommitSha, &ImageTag, &LockId, &Namespace, &RolloutId, &RolloutName, &Slug
    => id, id.as_str().to_owned());
values!(String: &Sink, &SinkFamily, SinkFamily => word, word.to_string());

/// The value of an optional condition.
pub(super) enum Condition {
    Text(String),
    Number(i64),
}

impl Bind for Condition {
    fn bind(self, values: &mut Vec<BoundValue>) {
        match self {
            Self::Text(text) => text.bind(values),
            Self::Number(number) => number.bind(values),
        }
    }
}

impl Condition {
    pub(super) fn text(value: Option<impl ToString>) -> Option<Self> {
        value.map(|value| Self::Text(value.to_string()))
    }

    pub(super) fn time(at: Option<Timestamp>) -> Option<Self> {
        at.map(|at| Self::Number(at.as_millisecond()))
    }
}

/// Returns `WHERE` with the tests that have a value, with numbered placeholders, and with one that
/// needs none; and the values in that order.
pub(super) fn conditions<const N: usize>(
    tests: [(&str, Option<Condition>); N],
    last: Option<&str>,
) -> (String, Vec<Condition>) {
    let pairs = tests.into_iter().filter_map(|(test, value)| Some((test, value?)));
    let numbered = pairs.zip(1..).map(|((test, value), n)| (format!("{test} ${n}"), value));
    let (mut tests, values): (Vec<String>, Vec<Condition>) = numbered.unzip();
    tests.extend(last.map(str::to_owned));
    let first = if tests.is_empty() { "" } else { "WHERE " };
    (format!("{first}{}", tests.join(" AND ")), values)
}

/// Returns `$2, $3, $4`: so many placeholders from a number on.
pub(super) fn placeholders(first: usize, count: usize) -> String {
    let places: Vec<_> = (first..first + count).map(|number| format!("${number}")).collect();
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_are_sent_together_have_their_own_values() {
        let (first, second) = (query("SELECT $1, $2", (1_i64, "a")), query("SELECT 'x'", ()));
        let third = query("SELECT $2 || $1, $1", ("b", "c"));
        let joined = Query::join(vec![first, second, third]);
        assert_eq!(joined.sql.as_str(), "SELECT $1, $2;SELECT 'x';SELECT $4 || $3, $3;");
        assert_eq!(joined.values.len(), 4);
    }
}
