//! Checks that receivers of messages can be reached, before anything depends on it. Only those are tried that can be
//! asked without a trace: a message to Slack or a webhook would be seen by people.

use jiff::Timestamp;

use crate::app::code_host::CONNECT;
use crate::config::settings::Settings;
use crate::model::violation::Violation;
use crate::notify::bigquery::{BigQuerySettings, BigQueryTable};
use crate::outbox::sinks::LONGEST_BIGQUERY_CALL;
use crate::support::http::OutboundHttp;

const HELP: &str = "docs/bigquery.md says what the service may need to do there";

/// Asks BigQuery for the table or its dataset; returns what is wrong. Nothing is changed.
pub async fn check_bigquery(settings: &Settings, now: Timestamp) -> Option<Violation> {
    crate::support::http::install_tls_provider();
    let table = settings.bigquery.as_ref()?;
    let message = match client(table, &settings.outbound) {
        Ok(client) => client.check(now).await.err()?.to_string(),
        Err(error) => format!("the HTTP client cannot be made: {error}"),
    };
    let path = "notify.bigquery".to_owned();
    let message = format!("the table of `{path}` cannot be used: {message}");
    Some(Violation::error("configuration", message).at(path, None).help(HELP))
}

fn client(
    table: &BigQuerySettings,
    outbound: &OutboundHttp,
) -> Result<BigQueryTable, reqwest::Error> {
    let client = outbound.client_without_redirects(CONNECT)?;
    let direct = outbound.client_without_proxy(CONNECT)?;
    Ok(BigQueryTable::new(table.clone(), client, direct, LONGEST_BIGQUERY_CALL))
}
