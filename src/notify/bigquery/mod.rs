//! The client of a BigQuery table that gets a row for each deployment that has ended.
//!
//! `row` has the columns and `answer` reads answers, both pure; `key` and `token` are the ways to a token. The table is
//! made when it is missing, and columns that a newer version has are added to it. A call is made once, but for one more
//! with a new token; the outbox decides about retries.

mod answer; // BigQuery's answers, pure
pub mod error; // the errors, with a way out
pub mod key; // the key of a service account, pure
pub mod row; // the row of a deployment, and the table's schema, pure
pub mod token; // access tokens

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::IF_MATCH;
use reqwest::{Client, Method};
use serde_json::{Value as Json, json};
use tokio::sync::Mutex;

use crate::notify::bigquery::answer::{BIGQUERY, HttpReply, ReplyVerdict};
use crate::notify::bigquery::error::BigQueryError;
use crate::notify::bigquery::row::{DeploymentRow, PARTITIONED_BY};
use crate::notify::bigquery::token::{BigQueryAccess, BigQueryTokens};
use crate::support::cause::innermost_cause;
use crate::support::http::body::read_bounded;
use crate::support::http::retry_after::retry_after;

/// Google's own address.
pub const BIGQUERY_API: &str = "https://bigquery.googleapis.com";

/// The largest answer, in bytes: a table's description.
const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

const NO_DATASET: &str =
    "make the dataset of notify.bigquery: the service makes tables, and no datasets";
const FOREIGN_TABLE: &str = "give notify.bigquery.table the name of a table of its own";

/// The settings of the table.
#[derive(Debug, Clone)]
pub struct BigQuerySettings {
    /// The project.
    pub project: String,
    /// The dataset, which must be there.
    pub dataset: String,
    /// The table, which is made where it is missing.
    pub table: String,
    /// The address of the API, without a slash at its end.
    pub endpoint: String,
    /// The origin of tokens.
    pub access: BigQueryAccess,
}

/// The client of the table.
#[derive(Debug)]
pub struct BigQueryTable {
    settings: BigQuerySettings,
    client: Client,
    tokens: BigQueryTokens,
    timeout: Duration,
    /// True once the table was seen with all columns. Only one call looks at a time.
    is_ready: Mutex<bool>,
}

/// A request to the API.
struct TableCall {
    method: Method,
    /// The path below the dataset.
    path: String,
    body: Option<Json>,
    /// The version of the table that is changed.
    etag: Option<String>,
}

impl BigQueryTable {
    /// Builds the client; `direct` uses no proxy, for the metadata server. Both must follow no redirects.
    pub fn new(
        settings: BigQuerySettings,
        client: Client,
        direct: Client,
        timeout: Duration,
    ) -> Self {
        let tokens = BigQueryTokens::new(settings.access.clone(), client.clone(), direct, timeout);
        Self { settings, client, tokens, timeout, is_ready: Mutex::default() }
    }

    /// Inserts a row. BigQuery drops a repeat of the same row for about a minute.
    ///
    /// # Errors
    /// [`BigQueryError`]; after [`BigQueryError::Unreachable`] the row may have arrived.
    pub async fn insert(&self, row: &DeploymentRow, now: Timestamp) -> Result<(), BigQueryError> {
        self.ensure_table(now).await?;
        let rows = json!([{"insertId": row.insert_id, "json": row.values}]);
        let body = json!({"kind": "bigquery#tableDataInsertAllRequest", "rows": rows});
        let path = format!("{}/insertAll", self.table_path());
        let call = TableCall { method: Method::POST, path, body: Some(body), etag: None };
        let result = match self.call(&call, now).await? {
            ReplyVerdict::Done(body) => answer::check_inserted(&body),
            // It was deleted, or made a moment ago.
            ReplyVerdict::NotFound(reason) => Err(BigQueryError::NotYet { reason }),
            verdict => self.done(verdict).map(drop),
        };
        if let Err(BigQueryError::NotYet { .. }) = &result {
            *self.is_ready.lock().await = false;
        }
        result
    }

    /// Checks that tokens are given, and that the table or its dataset can be seen; changes nothing.
    ///
    /// # Errors
    /// [`BigQueryError`]
    pub async fn check(&self, now: Timestamp) -> Result<(), BigQueryError> {
        if let Some(table) = self.read_table(now).await? {
            return missing_fields(&table).map(drop);
        }
        let call = TableCall { method: Method::GET, path: String::new(), body: None, etag: None };
        let verdict = self.call(&call, now).await?;
        self.done(verdict).map(drop)
    }

    /// Makes the table where it is missing, and adds the columns that it lacks.
    async fn ensure_table(&self, now: Timestamp) -> Result<(), BigQueryError> {
        let mut is_ready = self.is_ready.lock().await;
        if *is_ready {
            return Ok(());
        }
        match self.read_table(now).await? {
            None => self.create_table(now).await?,
            Some(table) => self.add_columns(&table, now).await?,
        }
        *is_ready = true;
        Ok(())
    }

    async fn read_table(&self, now: Timestamp) -> Result<Option<Json>, BigQueryError> {
        let path = self.table_path();
        let call = TableCall { method: Method::GET, path, body: None, etag: None };
        match self.call(&call, now).await? {
            ReplyVerdict::NotFound(_) => Ok(None),
            verdict => self.done(verdict).map(Some),
        }
    }

    async fn create_table(&self, now: Timestamp) -> Result<(), BigQueryError> {
        let BigQuerySettings { project, dataset, table, .. } = &self.settings;
        let body = json!({
            "tableReference": {"projectId": project, "datasetId": dataset, "tableId": table},
            "description": "Deployments that have ended, written by the-deployer",
            "schema": {"fields": row::schema_fields()},
            "timePartitioning": {"type": "DAY", "field": PARTITIONED_BY},
        });
        let path = "/tables".to_owned();
        let call = TableCall { method: Method::POST, path, body: Some(body), etag: None };
        match self.call(&call, now).await? {
            // Another process made it.
            ReplyVerdict::Exists => Ok(()),
            verdict => self.done(verdict).map(drop),
        }
    }

    async fn add_columns(&self, table: &Json, now: Timestamp) -> Result<(), BigQueryError> {
        let missing = missing_fields(table)?;
        if missing.is_empty() {
            return Ok(());
        }
        let fields = fields_of(table).iter().cloned().chain(missing).collect::<Vec<_>>();
        let call = TableCall {
            method: Method::PATCH,
            path: self.table_path(),
            body: Some(json!({"schema": {"fields": fields}})),
            // Columns that another process adds meanwhile must not be lost.
            etag: table["etag"].as_str().map(str::to_owned),
        };
        let verdict = self.call(&call, now).await?;
        self.done(verdict).map(drop)
    }

    fn table_path(&self) -> String {
        format!("/tables/{}", self.settings.table)
    }

    /// Makes a call, and once more with a new token where the token is refused.
    async fn call(&self, call: &TableCall, now: Timestamp) -> Result<ReplyVerdict, BigQueryError> {
        for is_last in [false, true] {
            let (request, token) = self.tokens.authorize(self.request(call), now).await?;
            let verdict = answer::judge(self.ask(request, now).await?);
            match token {
                Some(token) if verdict == ReplyVerdict::Unauthorized && !is_last => {
                    self.tokens.refuse(&token).await;
                }
                _ => return Ok(verdict),
            }
        }
        Ok(ReplyVerdict::Unauthorized)
    }

    fn request(&self, call: &TableCall) -> reqwest::RequestBuilder {
        let BigQuerySettings { project, dataset, endpoint, .. } = &self.settings;
        let TableCall { method, path, body, etag } = call;
        let url = format!("{endpoint}/bigquery/v2/projects/{project}/datasets/{dataset}{path}");
        let mut request = self.client.request(method.clone(), url);
        if let Some(etag) = etag {
            request = request.header(IF_MATCH, etag);
        }
        match body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    async fn ask(
        &self,
        request: reqwest::RequestBuilder,
        now: Timestamp,
    ) -> Result<HttpReply, BigQueryError> {
        let exchange = async { read(request.send().await?, now).await };
        let reason = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => innermost_cause(&error.without_url()).to_string(),
            Err(_) => format!("no answer within {:?}", self.timeout),
        };
        Err(BigQueryError::Unreachable { server: BIGQUERY, reason })
    }

    /// Returns the content of a call that was done, or the error.
    fn done(&self, verdict: ReplyVerdict) -> Result<Json, BigQueryError> {
        let server = BIGQUERY;
        let refuse = |reason, hint| Err(BigQueryError::Refused { server, reason, hint });
        match verdict {
            ReplyVerdict::Done(body) => Ok(body),
            ReplyVerdict::Failed(error) => Err(error),
            ReplyVerdict::NotFound(reason) => refuse(reason, NO_DATASET),
            ReplyVerdict::Unauthorized => match &self.settings.access {
                BigQueryAccess::Open => {
                    refuse("it wants a token".to_owned(), "set notify.bigquery.key")
                }
                BigQueryAccess::Key(_) | BigQueryAccess::Metadata(_) => refuse(
                    "it does not take a new token either".to_owned(),
                    "see if the service account is still there, and if this machine's clock is right",
                ),
            },
            ReplyVerdict::Exists | ReplyVerdict::Changed => Err(BigQueryError::Busy {
                server,
                reason: "the table was changed meanwhile".to_owned(),
                after: None,
            }),
        }
    }
}

fn missing_fields(table: &Json) -> Result<Vec<Json>, BigQueryError> {
    row::missing_fields(fields_of(table)).map_err(|error| BigQueryError::Refused {
        server: BIGQUERY,
        reason: format!("the table is another one, {error}"),
        hint: FOREIGN_TABLE,
    })
}

fn fields_of(table: &Json) -> &[Json] {
    let fields = table.pointer("/schema/fields").and_then(Json::as_array);
    fields.map_or(&[], Vec::as_slice)
}

async fn read(response: reqwest::Response, now: Timestamp) -> reqwest::Result<HttpReply> {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers(), now);
    let body = read_bounded(reqwest::Body::from(response), LARGEST_ANSWER).await?.bytes;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(HttpReply { status, retry_after, body })
}
