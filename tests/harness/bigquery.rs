//! BigQuery on loopback, as far as the service speaks to it: tables with their schemas, streaming inserts with ids, the
//! token server of service accounts, and the metadata server. It refuses what BigQuery refuses, and keeps each id once.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::stream;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Value as Json, json};
use the_deployer::support::clock::Clock;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const PRIVATE: &str = include_str!("../../src/forge/github/auth/tests/app.pkcs8.pem");
const PUBLIC: &str = include_str!("../../src/forge/github/auth/tests/app.pub.pem");
/// The service account.
const EMAIL: &str = "deployer@acme.iam.gserviceaccount.com";
/// The right that a token needs.
const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
/// The lifetime of a token, in seconds.
const LIFETIME: i64 = 3600;

/// What meets a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BigQueryFault {
    /// An answer with this status and Google's reason; nothing is done.
    Answers(u16, &'static str),
    /// The same, with a wish to wait for so many seconds.
    Waits(u16, u64),
    /// The request is done, and its answer breaks off.
    DoneUnheard,
    /// The request is done, and never answered.
    DoneSilent,
    /// 200, and the row has an error of this reason, with this message.
    RowError(&'static str, &'static str),
}

/// A table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) fields: Vec<Json>,
    pub(crate) partitioning: Json,
    /// By insert id, in their order.
    pub(crate) rows: Vec<(String, Json)>,
    version: u64,
}

struct State {
    clock: Clock,
    origin: String,
    /// Each token with its end, in seconds.
    tokens: BTreeMap<String, i64>,
    issued: usize,
    /// The key file is no longer good.
    refuses_key: bool,
    /// Requests need no token.
    open: bool,
    dataset: bool,
    tables: BTreeMap<String, Table>,
    /// So many inserts do not see a new table or column.
    lag: u32,
    faults: VecDeque<(&'static str, BigQueryFault)>,
    seen: Vec<String>,
    /// What a client must not do.
    offences: Vec<String>,
}

/// One on loopback, with the dataset `dw` in the project `acme`.
pub(crate) struct BigQuery {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl BigQuery {
    pub(crate) async fn start(clock: &Clock) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            clock: clock.clone(),
            origin: format!("http://{address}"),
            tokens: BTreeMap::new(),
            issued: 0,
            refuses_key: false,
            open: false,
            dataset: true,
            tables: BTreeMap::new(),
            lag: 0,
            faults: VecDeque::new(),
            seen: Vec::new(),
            offences: Vec::new(),
        }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { state, address, serving }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its host, as the variable of the metadata server has it.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// The key file of the service account, as Google makes it.
    pub(crate) fn key_file(&self) -> String {
        json!({
            "type": "service_account", "project_id": "acme", "private_key_id": "k1",
            "private_key": PRIVATE, "client_email": EMAIL, "token_uri": format!("{}/token", self.url()),
        })
        .to_string()
    }

    /// The next request with these words in `METHOD path` meets the fault.
    pub(crate) fn meets(&self, words: &'static str, fault: BigQueryFault) {
        self.lock().faults.push_back((words, fault));
    }

    /// All tokens that were given out are refused from now on.
    pub(crate) fn revokes_tokens(&self) {
        self.lock().tokens.clear();
    }

    /// Somebody deletes the key, or makes it good again.
    pub(crate) fn refuses_key(&self, refuses: bool) {
        self.lock().refuses_key = refuses;
    }

    /// Requests need no token, as those to an emulator.
    pub(crate) fn opens(&self) {
        self.lock().open = true;
    }

    /// So many inserts after this do not see a new table or column.
    pub(crate) fn lags(&self, inserts: u32) {
        self.lock().lag = inserts;
    }

    /// Somebody deletes the dataset, or makes it.
    pub(crate) fn dataset(&self, is_there: bool) {
        self.lock().dataset = is_there;
    }

    /// Somebody makes a table with these fields.
    pub(crate) fn has_table(&self, name: &str, fields: &Json) {
        let fields = fields.as_array().unwrap().clone();
        self.lock().tables.insert(name.to_owned(), Table { fields, ..Table::default() });
    }

    /// Somebody deletes the table.
    pub(crate) fn loses_table(&self, name: &str) {
        self.lock().tables.remove(name);
    }

    pub(crate) fn table(&self, name: &str) -> Option<Table> {
        self.lock().tables.get(name).cloned()
    }

    /// The rows of the default table.
    pub(crate) fn rows(&self) -> Vec<Json> {
        let table = self.table("deployments").unwrap_or_default();
        table.rows.into_iter().map(|(_, row)| row).collect()
    }

    /// The requests with these words in `METHOD path`.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.lock().seen.iter().filter(|one| has_words(one, words)).count()
    }

    /// The end of every test: every fault happened, and the service did nothing that BigQuery would not understand.
    pub(crate) fn settled(&self) {
        let state = self.lock();
        assert_eq!(state.offences, Vec::<String>::new());
        assert_eq!(state.faults, VecDeque::new(), "no request met these");
    }
}

impl Drop for BigQuery {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn has_words(request: &str, words: &str) -> bool {
    words.split(' ').all(|word| request.contains(word))
}

async fn answer(Shared(state): Shared<Arc<Mutex<State>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1024 * 1024).await.unwrap();
    let path = parts.uri.path().to_owned();
    let (fault, done) = {
        let mut state = state.lock().unwrap();
        let line = format!("{} {path}", parts.method);
        state.seen.push(line.clone());
        let place = state.faults.iter().position(|(words, _)| has_words(&line, words));
        let fault = place.and_then(|place| state.faults.remove(place)).map(|(_, fault)| fault);
        let prevents = matches!(
            fault,
            Some(
                BigQueryFault::Answers(..) | BigQueryFault::Waits(..) | BigQueryFault::RowError(..)
            )
        );
        let done = (!prevents).then(|| state.answer(&parts.method, &path, &parts.headers, &body));
        (fault, done)
    };
    match (fault, done) {
        (Some(BigQueryFault::Answers(status, reason)), _) => error(status, reason, "Oh no"),
        (Some(BigQueryFault::Waits(status, seconds)), _) => {
            let mut answer = error(status, "rateLimitExceeded", "Slow down");
            answer.headers_mut().insert("retry-after", seconds.to_string().parse().unwrap());
            answer
        }
        (Some(BigQueryFault::RowError(reason, message)), _) => row_error(reason, "", message),
        (Some(BigQueryFault::DoneSilent), _) => std::future::pending().await,
        (Some(BigQueryFault::DoneUnheard), _) => {
            let broken = Err::<Vec<u8>, _>(std::io::Error::other("cut"));
            Body::from_stream(stream::iter([broken])).into_response()
        }
        (None, done) => done.unwrap(),
    }
}

impl State {
    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response {
        if path == "/token" {
            return self.token(body);
        }
        if path.starts_with("/computeMetadata/") {
            return self.metadata(headers);
        }
        if !self.admits(headers) {
            return error(401, "authError", "Invalid Credentials");
        }
        let Some(rest) = path.strip_prefix("/bigquery/v2/projects/acme/datasets/dw") else {
            return error(404, "notFound", &format!("Not found: {path}"));
        };
        if !self.dataset {
            return error(404, "notFound", "Not found: Dataset acme:dw");
        }
        let parts: Vec<&str> = rest.split('/').skip(1).collect();
        let json: Json = serde_json::from_slice(body).unwrap_or_default();
        match (method.as_str(), parts.as_slice()) {
            ("GET", []) => success(&json!({"kind": "bigquery#dataset", "id": "acme:dw"})),
            ("POST", ["tables"]) => self.create(&json),
            ("GET", ["tables", name]) => match self.tables.get(*name) {
                Some(table) => success(&resource(name, table)),
                None => no_table(name),
            },
            ("PATCH", ["tables", name]) => self.patch(name, headers, &json),
            ("POST", ["tables", name, "insertAll"]) => self.insert(name, &json),
            _ => error(404, "notFound", &format!("Not found: {path}")),
        }
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let token = headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer "));
        let now = self.clock.now().as_second();
        self.open || token.is_some_and(|token| self.tokens.get(token).is_some_and(|end| *end > now))
    }

    /// As Google's token server: a signed request of minutes, for this server and the right scope.
    fn token(&mut self, body: &[u8]) -> Response {
        let refuse = |why: &str| {
            let answer = json!({"error": "invalid_grant", "error_description": why});
            (StatusCode::BAD_REQUEST, answer.to_string()).into_response()
        };
        let form = reqwest::Url::parse(&format!("http://form/?{}", String::from_utf8_lossy(body)));
        let form: BTreeMap<String, String> = form.unwrap().query_pairs().into_owned().collect();
        let grant = form.get("grant_type").map(String::as_str);
        if grant != Some("urn:ietf:params:oauth:grant-type:jwt-bearer") {
            return refuse("unsupported grant");
        }
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_audience(&[format!("{}/token", self.origin)]);
        // By the clock of the test, below.
        validation.validate_exp = false;
        let public = DecodingKey::from_rsa_pem(PUBLIC.as_bytes()).unwrap();
        let claims = decode::<Json>(&form["assertion"], &public, &validation);
        let Ok(claims) = claims.map(|token| token.claims) else {
            return refuse("Invalid JWT Signature.");
        };
        let now = self.clock.now().as_second();
        let (iat, exp) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
        if iat > now || exp <= now || exp - iat > LIFETIME {
            return refuse("Invalid JWT: Token must be a short-lived token");
        }
        if self.refuses_key || claims["iss"] != EMAIL || claims["scope"] != SCOPE {
            return refuse("Invalid grant: account not found");
        }
        self.issue()
    }

    fn metadata(&mut self, headers: &HeaderMap) -> Response {
        if headers.get("metadata-flavor").is_none_or(|flavor| flavor != "Google") {
            return (StatusCode::FORBIDDEN, "Missing Metadata-Flavor:Google header.")
                .into_response();
        }
        self.issue()
    }

    fn issue(&mut self) -> Response {
        self.issued += 1;
        let token = format!("ya29.t0ken-{}", self.issued);
        self.tokens.insert(token.clone(), self.clock.now().as_second() + LIFETIME);
        success(&json!({"access_token": token, "expires_in": LIFETIME, "token_type": "Bearer"}))
    }

    fn create(&mut self, json: &Json) -> Response {
        let name = json["tableReference"]["tableId"].as_str().unwrap_or_default().to_owned();
        if self.tables.contains_key(&name) {
            return error(409, "duplicate", &format!("Already Exists: Table acme:dw.{name}"));
        }
        let fields = json["schema"]["fields"].as_array().cloned().unwrap_or_default();
        let partitioning = json["timePartitioning"].clone();
        let by = fields.iter().find(|field| field["name"] == partitioning["field"]);
        if by.is_none_or(|field| field["type"] != "TIMESTAMP") {
            return error(
                400,
                "invalid",
                "The field specified for partitioning is not a TIMESTAMP",
            );
        }
        let table = Table { fields, partitioning, ..Table::default() };
        let answer = success(&resource(&name, &table));
        self.tables.insert(name, table);
        answer
    }

    /// Fields may be added, and neither lost nor changed; a new one may be null.
    fn patch(&mut self, name: &str, headers: &HeaderMap, json: &Json) -> Response {
        let Some(table) = self.tables.get_mut(name) else { return no_table(name) };
        let version = headers.get("if-match").and_then(|value| value.to_str().ok());
        if version.is_some_and(|version| version != etag(table)) {
            return error(412, "conditionNotMet", "Precondition check failed.");
        }
        let fields = json["schema"]["fields"].as_array().cloned().unwrap_or_default();
        let named = |name: &Json| fields.iter().find(|field| field["name"] == *name);
        let is_same =
            |old: &Json| named(&old["name"]).is_some_and(|new| new["type"] == old["type"]);
        let is_old = |new: &&Json| table.fields.iter().any(|old| old["name"] == new["name"]);
        let adds_required =
            fields.iter().filter(|new| !is_old(new)).any(|new| new["mode"] == "REQUIRED");
        if !table.fields.iter().all(is_same) || adds_required {
            return error(400, "invalid", "Provided Schema does not match Table");
        }
        table.fields = fields;
        table.version += 1;
        success(&resource(name, table))
    }

    fn insert(&mut self, name: &str, json: &Json) -> Response {
        if self.lag > 0 {
            self.lag -= 1;
            return no_table(name);
        }
        let Some(table) = self.tables.get_mut(name) else { return no_table(name) };
        let rows = json["rows"].as_array().cloned().unwrap_or_default();
        let [row] = rows.as_slice() else {
            self.offences.push(format!("not one row: {json}"));
            return error(400, "invalid", "No rows present in the request.");
        };
        let Some(id) = row["insertId"].as_str().filter(|id| !id.is_empty()) else {
            self.offences.push(format!("a row without an insert id: {row}"));
            return error(400, "invalid", "no insert id");
        };
        let values = row["json"].as_object().unwrap();
        for (key, value) in values {
            let Some(field) = table.fields.iter().find(|field| field["name"] == key.as_str())
            else {
                return row_error("invalid", key, &format!("no such field: {key}."));
            };
            if !fits(value, field["type"].as_str().unwrap()) {
                return row_error("invalid", key, &format!("Cannot convert value: {value}"));
            }
        }
        let required = table.fields.iter().filter(|field| field["mode"] == "REQUIRED");
        for field in required {
            if !values.contains_key(field["name"].as_str().unwrap()) {
                let message = format!("Missing required field: {}.", field["name"]);
                return row_error("invalid", "", &message);
            }
        }
        if !table.rows.iter().any(|(known, _)| known == id) {
            table.rows.push((id.to_owned(), row["json"].clone()));
        }
        success(&json!({"kind": "bigquery#tableDataInsertAllResponse"}))
    }
}

fn fits(value: &Json, kind: &str) -> bool {
    match kind {
        "STRING" => value.is_string(),
        "INTEGER" => value.is_i64() || value.is_u64(),
        "BOOLEAN" => value.is_boolean(),
        "TIMESTAMP" => value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
        other => panic!("a type that is not known here: {other}"),
    }
}

fn etag(table: &Table) -> String {
    format!("\"v{}\"", table.version)
}

fn resource(name: &str, table: &Table) -> Json {
    json!({
        "kind": "bigquery#table", "id": format!("acme:dw.{name}"), "etag": etag(table),
        "schema": {"fields": table.fields}, "timePartitioning": table.partitioning,
    })
}

fn success(json: &Json) -> Response {
    ([("content-type", "application/json")], json.to_string()).into_response()
}

fn no_table(name: &str) -> Response {
    error(404, "notFound", &format!("Not found: Table acme:dw.{name}"))
}

fn row_error(reason: &str, location: &str, message: &str) -> Response {
    let errors =
        json!([{"reason": reason, "location": location, "debugInfo": "", "message": message}]);
    let errors = json!([{"index": 0, "errors": errors}]);
    success(&json!({"kind": "bigquery#tableDataInsertAllResponse", "insertErrors": errors}))
}

fn error(status: u16, reason: &str, message: &str) -> Response {
    let errors = json!([{"domain": "global", "reason": reason, "message": message}]);
    let body = json!({"error": {"code": status, "message": message, "errors": errors}});
    let headers = [("content-type", "application/json")];
    (StatusCode::from_u16(status).unwrap(), headers, body.to_string()).into_response()
}
