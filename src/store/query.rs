//! A statement with its values, and the ways to run it. Each value is bound in the form in which
//! its column is stored; [`Row`] reads a row of the result.

use futures::TryStreamExt as _;
use jiff::Timestamp;
use sqlx::any::AnyArguments;
use sqlx::{Any, AnyPool, AssertSqlSafe, Encode, Executor, SqlSafeStr, Type};

use crate::model::id::{
    AppKey, CommitSha, DeployId, ImageTag, LockId, Namespace, RepoName, Slug, TargetName,
};
use crate::model::notice::{Sink, SinkFamily};
use crate::store::error::StoreError;
use crate::store::row::Row;

pub(super) type Bound = sqlx::query::Query<'static, Any, AnyArguments>;

/// A statement with its values, not run yet.
#[must_use = "a statement does nothing until it is run"]
pub(super) struct Query(Bound);

/// Returns the statement with the values of `$1` and so on.
pub(super) fn query(sql: impl SqlSafeStr, values: impl Bind) -> Query {
    Query(values.bind(sqlx::query(sql)))
}

/// Does the same for SQL that was assembled from constants, numbers and placeholders.
pub(super) fn query_of(sql: String, values: impl Bind) -> Query {
    query(AssertSqlSafe(sql), values)
}

impl Query {
    /// Runs the statement; returns the number of changed rows.
    pub(super) async fn execute<'e>(
        self,
        on: impl Executor<'e, Database = Any>,
        doing: &'static str,
    ) -> Result<u64, StoreError> {
        let done = self.0.execute(on).await.map_err(StoreError::doing(doing))?;
        Ok(done.rows_affected())
    }

    pub(super) async fn fetch_all<'e>(
        self,
        on: impl Executor<'e, Database = Any>,
        doing: &'static str,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.0.fetch_all(on).await.map_err(StoreError::doing(doing))?;
        Ok(rows.into_iter().map(Row::new).collect())
    }

    pub(super) async fn first<'e>(
        self,
        on: impl Executor<'e, Database = Any>,
        doing: &'static str,
    ) -> Result<Option<Row>, StoreError> {
        let row = self.0.fetch_optional(on).await.map_err(StoreError::doing(doing))?;
        Ok(row.map(Row::new))
    }

    /// Returns the row of a statement that always has one.
    pub(super) async fn one<'e>(
        self,
        on: impl Executor<'e, Database = Any>,
        doing: &'static str,
    ) -> Result<Row, StoreError> {
        self.0.fetch_one(on).await.map(Row::new).map_err(StoreError::doing(doing))
    }

    /// Returns a page of so many entries, or of as many as have a megabyte of text by the given
    /// size; and true if there are more. The statement finds one row more than the page may have.
    ///
    /// Rows are read one at a time: a page of the largest rows must not be in memory before it is
    /// cut.
    pub(super) async fn page<T>(
        self,
        pool: &AnyPool,
        doing: &'static str,
        limit: u32,
        read: impl Fn(&Row) -> Result<T, StoreError>,
        size: impl Fn(&T) -> usize,
    ) -> Result<(Vec<T>, bool), StoreError> {
        let mut rows = self.0.fetch(pool);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.try_next().await.map_err(StoreError::doing(doing))? {
            if entries.len() == limit as usize || bytes >= MOST_BYTES {
                return Ok((entries, true));
            }
            let entry = read(&Row::new(row))?;
            bytes += size(&entry);
            entries.push(entry);
        }
        Ok((entries, false))
    }
}

/// The most entries of a page: a page is answered from memory.
pub(super) const LONGEST_PAGE: u32 = 500;
/// The bytes of text after which a page ends, and the next one begins.
const MOST_BYTES: usize = 1024 * 1024;

/// A value for one placeholder, or for several.
pub(super) trait Bind {
    fn bind(self, query: Bound) -> Bound;
}

/// A value for one placeholder.
pub(super) trait SqlValue {
    type Sql: for<'q> Encode<'q, Any> + Type<Any>;
    fn into_sql(self) -> Self::Sql;
}

impl<T: SqlValue> Bind for T {
    fn bind(self, query: Bound) -> Bound {
        query.bind(self.into_sql())
    }
}

impl<T: SqlValue> Bind for Option<T>
where
    Option<T::Sql>: for<'q> Encode<'q, Any> + Type<Any>,
{
    fn bind(self, query: Bound) -> Bound {
        query.bind(self.map(SqlValue::into_sql))
    }
}

impl<'a, T> Bind for &'a Option<T>
where
    Option<&'a T>: Bind,
{
    fn bind(self, query: Bound) -> Bound {
        self.as_ref().bind(query)
    }
}

/// Binds the namespace and the slug.
impl Bind for &AppKey {
    fn bind(self, query: Bound) -> Bound {
        Some(self).bind(query)
    }
}

impl Bind for Option<&AppKey> {
    fn bind(self, query: Bound) -> Bound {
        (self.map(|app| &app.namespace), self.map(|app| &app.slug)).bind(query)
    }
}

impl<T: Bind> Bind for Vec<T> {
    fn bind(self, query: Bound) -> Bound {
        self.into_iter().fold(query, |query, value| value.bind(query))
    }
}

macro_rules! bind_tuples {
    ($($place:tt $type:ident),+) => {
        impl<$($type: Bind),+> Bind for ($($type,)+) {
            fn bind(self, query: Bound) -> Bound {
                $(let query = self.$place.bind(query);)+
                query
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
    fn bind(self, query: Bound) -> Bound {
        query
    }
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
values!(String: &DeployId, &TargetName, &RepoName, &CommitSha, &ImageTag, &LockId, &Namespace, &Slug
    => id, id.as_str().to_owned());
values!(String: &Sink, &SinkFamily, SinkFamily => word, word.to_string());

/// The value of an optional condition.
pub(super) enum Condition {
    Text(String),
    Number(i64),
}

impl Bind for Condition {
    fn bind(self, query: Bound) -> Bound {
        match self {
            Self::Text(text) => text.bind(query),
            Self::Number(number) => number.bind(query),
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
    let given = tests.into_iter().filter_map(|(test, value)| Some((test, value?)));
    let numbered = given.zip(1..).map(|((test, value), n)| (format!("{test} ${n}"), value));
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
