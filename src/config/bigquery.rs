//! A table in BigQuery that gets a row for each deployment that has ended.

use std::path::Path;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::credential::{ONE_OF, Secret};
use crate::config::resolver::Resolver;
use crate::config::secret;
use crate::notify::bigquery::key::ServiceAccountKey;
use crate::notify::bigquery::token::BigQueryAccess;
use crate::notify::bigquery::{BIGQUERY_API, BigQuerySettings};
use crate::support::credential::Credential;
use crate::support::host::{is_encrypted_or_local, is_local};
use crate::support::secret_text::has_credentials;

/// The default table.
const TABLE: &str = "deployments";
/// The host of the metadata server on Google's machines.
const METADATA_HOST: &str = "metadata.google.internal";
/// The variable by which Google's own libraries find another metadata server.
const METADATA_VARIABLE: &str = "GCE_METADATA_HOST";
/// The longest name; Google's limit for tables, in characters.
const LONGEST_NAME: usize = 1024;

/// A table in BigQuery with a row for each deployment that has ended.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BigQuery {
    /// The project.
    #[schemars(extend("format" = "line"))]
    project: String,
    /// The dataset, which must be there.
    #[schemars(extend("format" = "line"))]
    dataset: String,
    /// The table, which the service makes. Default: `deployments`.
    #[schemars(extend("format" = "line"))]
    table: Option<String>,
    /// The JSON key of a service account; a file is read again for each token. Default: the account of the machine or
    /// pod, from Google's metadata server.
    key: Option<Secret>,
    /// The API's address: https; http on this machine only. Default: Google's own. Without `key` nothing on this machine
    /// gets a token: that is an emulator.
    #[schemars(extend("format" = "url"))]
    endpoint: Option<String>,
}

impl Resolver<'_> {
    pub(super) fn bigquery(&mut self, bigquery: BigQuery) -> Option<BigQuerySettings> {
        let BigQuery { project, dataset, table, key, endpoint } = bigquery;
        let table = table.unwrap_or_else(|| TABLE.to_owned());
        // They become parts of an address, where another character would lead elsewhere.
        self.bigquery_name("project", &project, "-.:");
        self.bigquery_name("dataset", &dataset, "");
        self.bigquery_name("table", &table, "-");
        let endpoint = endpoint.unwrap_or_else(|| BIGQUERY_API.to_owned());
        self.bigquery_endpoint(&endpoint);
        let access = match key {
            Some(key) => self.bigquery_key(key)?,
            None if Url::parse(&endpoint).is_ok_and(|url| is_local(&url)) => BigQueryAccess::Open,
            None => {
                let host = self.variables.get(METADATA_VARIABLE);
                let host =
                    host.filter(|host| !host.is_empty()).map_or(METADATA_HOST, String::as_str);
                BigQueryAccess::Metadata(host.to_owned())
            }
        };
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        Some(BigQuerySettings { project, dataset, table, endpoint, access })
    }

    fn bigquery_name(&mut self, key: &str, name: &str, others: &str) {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || others.contains(c);
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if name.len() <= LONGEST_NAME && begins_well && name.chars().all(is_legal) {
            return;
        }
        let help = match key {
            "project" => "write the project's id, like acme-analytics",
            "dataset" => "write the dataset's name alone: letters, digits and underscores",
            _ => "write the table's name alone: letters, digits, underscores and dashes",
        };
        let message = format!("this is not the name of a {key}");
        self.report.error(&format!("notify.bigquery.{key}"), message, help);
    }

    fn bigquery_endpoint(&mut self, endpoint: &str) {
        let path = "notify.bigquery.endpoint";
        if has_credentials(endpoint) {
            let message = "the address has a user name or a password in it, which logs would show";
            self.report.error(path, message, "remove it");
        }
        if !is_encrypted_or_local(endpoint) {
            let message = "rows and tokens would go over the network in the clear";
            let help = "give an https address; http is for 127.0.0.1 only";
            self.report.error(path, message, help);
        }
    }

    fn bigquery_key(&mut self, key: Secret) -> Option<BigQueryAccess> {
        let path = "notify.bigquery.key";
        let file = key.file.as_deref().map(|file| secret::locate(Path::new(file), self.variables));
        let secret = self.secret(path, key, ONE_OF)?;
        if let Err(error) = ServiceAccountKey::parse(&secret) {
            let help = "make one with `gcloud iam service-accounts keys create`: docs/bigquery.md";
            self.report.error(path, format!("the key cannot be used: {error}"), help);
            return None;
        }
        Some(BigQueryAccess::Key(Credential { secret, file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{loaded, refused};

    const PEM: &str = include_str!("../forge/github/auth/tests/app.pkcs8.pem");

    fn settings(text: &str) -> BigQuerySettings {
        loaded(&format!("notify:\n  bigquery: {text}\n")).settings.bigquery.unwrap()
    }

    #[test]
    fn a_table_is_googles_own_and_the_account_is_the_machines_unless_it_is_said_otherwise() {
        let table = settings("{project: acme-analytics, dataset: dw}");
        assert_eq!((table.endpoint.as_str(), table.table.as_str()), (BIGQUERY_API, "deployments"));
        assert!(
            matches!(&table.access, BigQueryAccess::Metadata(host) if host == "metadata.google.internal"),
            "{:?}",
            table.access
        );
        let emulator =
            settings("{project: p, dataset: d, table: t-1, endpoint: 'http://127.0.0.1:9050/'}");
        assert_eq!(emulator.endpoint, "http://127.0.0.1:9050");
        assert!(matches!(emulator.access, BigQueryAccess::Open));
        let elsewhere = settings("{project: p, dataset: d, endpoint: 'https://bq.example.com'}");
        assert!(matches!(elsewhere.access, BigQueryAccess::Metadata(_)));
    }

    #[test]
    fn a_key_is_read_and_does_not_print() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.json");
        let key = serde_json::json!({
            "type": "service_account", "private_key": PEM, "client_email": "d@acme.iam.gserviceaccount.com",
        });
        std::fs::write(&path, key.to_string()).unwrap();
        let text = format!("{{project: p, dataset: d, key: {{file: '{}'}}}}", path.display());
        let table = settings(&text);
        let BigQueryAccess::Key(credential) = &table.access else { panic!("{table:?}") };
        assert_eq!(credential.file.as_deref(), Some(path.as_path()));
        assert!(!format!("{table:?}").contains("PRIVATE"), "{table:?}");
    }

    #[test]
    fn a_table_that_cannot_be_meant_is_told_at_its_place() {
        for (text, wrong) in [
            ("{project: 'a/../b', dataset: d}", "this is not the name of a project"),
            ("{project: p, dataset: 'd.t'}", "this is not the name of a dataset"),
            ("{project: p, dataset: d, table: 't?x'}", "this is not the name of a table"),
            ("{project: p, dataset: d, table: ''}", "notify.bigquery.table"),
            ("{project: p, dataset: d, endpoint: 'http://bq.example.com'}", "in the clear"),
            ("{project: p, dataset: d, endpoint: 'https://me:pw@bq.example.com'}", "password"),
            ("{project: p, dataset: d, key: {env: TOKEN}}", "not the JSON file"),
            ("{project: p, dataset: d, key: s3cret}", "holds a secret itself"),
            ("{project: p, dataset: d, key: {private_key: s3cret}}", "holds a secret itself"),
            ("{project: p}", "dataset"),
            ("{project: p, dataset: d, rows: 1}", "rows"),
        ] {
            let text = refused(&format!("notify:\n  bigquery: {text}\n"));
            assert!(text.contains(wrong), "{wrong} is missing in\n{text}");
            assert!(!text.contains("me:pw") && !text.contains("s3cret"), "{text}");
        }
    }
}
