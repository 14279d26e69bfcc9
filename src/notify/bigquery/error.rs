//! The reasons why BigQuery does not have a row, each with a way out.

use std::time::Duration;

/// The reason why a row was not inserted, or a table not made. Nothing of a key or a token is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BigQueryError {
    /// There was no answer: a row may have arrived nevertheless.
    #[error("{server} cannot be reached: {reason}")]
    Unreachable {
        /// The server, as people call it.
        server: &'static str,
        /// The fault, without the address.
        reason: String,
    },
    /// The server is busy or down, or a quota is used up.
    #[error("{server} is busy or down: {reason}")]
    Busy {
        /// The server.
        server: &'static str,
        /// Its answer.
        reason: String,
        /// The time after which it wants the request again.
        after: Option<Duration>,
    },
    /// The table or a column was made just now, and not every part of BigQuery knows it yet.
    #[error("BigQuery does not know the table or a column yet: {reason}")]
    NotYet {
        /// Its answer.
        reason: String,
    },
    /// The server refuses the service, until a person fixes that.
    #[error("{server} refuses the request: {reason}; {hint}")]
    Refused {
        /// The server.
        server: &'static str,
        /// Its answer.
        reason: String,
        /// The probable fault.
        hint: &'static str,
    },
    /// The key cannot be used.
    #[error("the key of notify.bigquery.key cannot be used: {0}")]
    Key(#[from] ServiceKeyError),
    /// BigQuery will never accept this row.
    #[error("BigQuery does not take this row: {reason}")]
    InvalidRow {
        /// Its answer.
        reason: String,
    },
}

/// The fault of a service account's key. Nothing of the key is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceKeyError {
    /// The file cannot be read.
    #[error("its file cannot be read: {0}")]
    Unreadable(String),
    /// The text is no key file.
    #[error("it is not the JSON file of a service account's key")]
    NoJson,
    /// The file is of another kind.
    #[error("it is not of the type `service_account`: make a key of a service account")]
    OtherType,
    /// The private key in it is damaged.
    #[error("the private key in it is damaged, or a part of it is missing")]
    Damaged,
    /// The token server is not safe.
    #[error("its `token_uri` is not an https address")]
    TokenServer,
}
