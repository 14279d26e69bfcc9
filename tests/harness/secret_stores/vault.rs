//! A Vault on loopback, with state: the key-value engine of version 2 with versions and check-and-set, policies, and the
//! logins by token, GitHub and OIDC. The paths, bodies and words are those of Vault 1.17's API documentation and source.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::Barrier;

/// The mount path of the engine.
pub(crate) const MOUNT: &str = "kv";
/// The token of a person who may do everything below `devx/`.
pub(crate) const TOKEN: &str = "hvs.person-t0ken";
/// The token of a person who may read and not write.
pub(crate) const READER: &str = "hvs.reader-t0ken";
/// The GitHub token that the GitHub method takes.
pub(crate) const GITHUB: &str = "ghp_vault-person";
/// The role of the OIDC method.
pub(crate) const ROLE: &str = "developer";

/// One version of a secret.
#[derive(Debug, Clone)]
struct Version {
    data: Value,
    created: String,
    deleted: String,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
}

pub(crate) struct World {
    /// By path in the engine; the newest version is the last.
    secrets: BTreeMap<String, Vec<Version>>,
    /// The capabilities of each token.
    policies: BTreeMap<String, Vec<&'static str>>,
    /// The OIDC logins under way: by state, the client's nonce and the redirect.
    logins: BTreeMap<String, (String, String)>,
    /// The redirects that the role allows; any of localhost while this is empty.
    pub(crate) redirects: Vec<String>,
    /// The provider refuses.
    pub(crate) denied: bool,
    /// It has no `subkeys`, as before 1.10.
    pub(crate) is_old: bool,
    pub(crate) seen: Vec<Seen>,
    /// Readers of values wait for each other.
    pub(crate) readers: Option<Arc<Barrier>>,
    address: String,
    count: u32,
}

#[derive(Clone)]
pub(crate) struct Vault(Arc<Mutex<World>>);

impl Vault {
    pub(crate) async fn start() -> Self {
        let all = vec!["create", "read", "update"];
        let world = World {
            secrets: BTreeMap::new(),
            policies: [(TOKEN.to_owned(), all), (READER.to_owned(), vec!["read"])].into(),
            logins: BTreeMap::new(),
            redirects: Vec::new(),
            denied: false,
            is_old: false,
            seen: Vec::new(),
            readers: None,
            address: String::new(),
            count: 0,
        };
        let this = Self(Arc::new(Mutex::new(world)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        this.lock().address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        this
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn address(&self) -> String {
        self.lock().address.clone()
    }

    /// Writes a new version.
    pub(crate) fn put(&self, path: &str, data: Value) {
        self.lock().write(path, data);
    }

    /// Deletes the newest version, as `vault kv delete` does.
    pub(crate) fn delete(&self, path: &str) {
        let mut world = self.lock();
        let newest = world.secrets.get_mut(path).and_then(|versions| versions.last_mut()).unwrap();
        "2026-01-02T00:00:00.123456789Z".clone_into(&mut newest.deleted);
    }

    /// The newest version and its data.
    pub(crate) fn newest(&self, path: &str) -> (usize, Value) {
        let world = self.lock();
        let versions = &world.secrets[path];
        (versions.len(), versions.last().unwrap().data.clone())
    }

    /// Whether values were asked for.
    pub(crate) fn was_read(&self) -> bool {
        let world = self.lock();
        let prefix = format!("v1/{MOUNT}/data/");
        world.seen.iter().any(|seen| seen.method == Method::GET && seen.path.starts_with(&prefix))
    }
}

async fn answer(State(vault): State<Vault>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().trim_start_matches('/').to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let body: Value =
        serde_json::from_slice(&to_bytes(body, 4 << 20).await.unwrap()).unwrap_or_default();
    let readers = {
        let mut world = vault.lock();
        world.seen.push(Seen { method: parts.method.clone(), path: path.clone() });
        world.readers.clone()
    };
    let answer = vault.lock().answer(&parts.method, &path, &query, &parts.headers, &body);
    let reads = parts.method == Method::GET && path.starts_with(&format!("v1/{MOUNT}/data/"));
    if let Some(readers) = readers.filter(|_| reads) {
        readers.wait().await;
    }
    answer
}

impl World {
    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        headers: &HeaderMap,
        body: &Value,
    ) -> Response {
        if path == "idp/authorize" {
            return self.provider(query);
        }
        let Some(path) = path.strip_prefix("v1/") else {
            return StatusCode::NOT_FOUND.into_response();
        };
        assert_eq!(headers["x-vault-request"], "true");
        if let Some(answer) = self.login(method, path, query, body) {
            return answer;
        }
        let token = headers.get("x-vault-token").map(|token| token.to_str().unwrap());
        let Some(capabilities) = token.and_then(|token| self.policies.get(token)) else {
            return errors(403, "2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n");
        };
        if path == "auth/token/lookup-self" {
            let data = json!({"display_name": "token-ada", "ttl": 3600, "policies": ["default"]});
            return ok(&data, &Value::Null);
        }
        let Some((part, path)) =
            path.strip_prefix(&format!("{MOUNT}/")).and_then(|rest| rest.split_once('/'))
        else {
            return errors(
                404,
                &format!("no handler for route \"{path}\". route entry not found."),
            );
        };
        let exists = self.secrets.contains_key(path);
        let needed = match *method {
            Method::GET => "read",
            _ if exists => "update",
            _ => "create",
        };
        if !capabilities.contains(&needed) || !path.starts_with("devx/") {
            return errors(403, "1 error occurred:\n\t* permission denied\n\n");
        }
        match (method.as_str(), part) {
            ("GET", "data" | "subkeys") => self.read(part, path),
            ("POST" | "PUT", "data") => self.post(path, body),
            _ => errors(404, "1 error occurred:\n\t* unsupported path\n\n"),
        }
    }

    fn read(&self, part: &str, path: &str) -> Response {
        if part == "subkeys" && self.is_old {
            return errors(404, "1 error occurred:\n\t* unsupported path\n\n");
        }
        let Some(versions) = self.secrets.get(path) else {
            return (StatusCode::NOT_FOUND, Json(json!({"errors": []}))).into_response();
        };
        let Version { data, created, deleted } = versions.last().unwrap();
        let metadata = json!({
            "created_time": created, "custom_metadata": null, "deletion_time": deleted,
            "destroyed": false, "version": versions.len(),
        });
        let content = match (part, deleted.is_empty()) {
            (_, false) => Value::Null,
            ("subkeys", true) => {
                let keys = data.as_object().unwrap().keys();
                keys.map(|key| (key.clone(), Value::Null)).collect()
            }
            (_, true) => data.clone(),
        };
        let answer = ok(&json!({part: content, "metadata": metadata}), &Value::Null);
        if deleted.is_empty() { answer } else { (StatusCode::NOT_FOUND, answer).into_response() }
    }

    fn post(&mut self, path: &str, body: &Value) -> Response {
        if !body["data"].is_object() {
            return errors(400, "no data provided");
        }
        let newest = self.secrets.get(path).map_or(0, Vec::len) as u64;
        match body["options"]["cas"].as_u64() {
            None => return errors(400, "check-and-set parameter required for this call"),
            Some(cas) if cas != newest => {
                return errors(400, "check-and-set parameter did not match the current version");
            }
            Some(_) => {}
        }
        let created = self.write(path, body["data"].clone());
        let data = json!({
            "created_time": created, "custom_metadata": null, "deletion_time": "",
            "destroyed": false, "version": newest + 1,
        });
        ok(&data, &Value::Null)
    }

    fn write(&mut self, path: &str, data: Value) -> String {
        self.count += 1;
        let created = format!("2026-01-01T00:00:{:02}.123456789Z", self.count % 60);
        let version = Version { data, created: created.clone(), deleted: String::new() };
        self.secrets.entry(path.to_owned()).or_default().push(version);
        created
    }

    fn login(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        body: &Value,
    ) -> Option<Response> {
        let query: BTreeMap<String, String> = pairs(query);
        Some(match (method.as_str(), path) {
            ("POST", "auth/github/login") if body["token"] == GITHUB => self.grant("ada"),
            ("POST", "auth/github/login") => errors(
                400,
                "error making API request: GET https://api.github.com/user: 401 Bad credentials []",
            ),
            ("POST", "auth/oidc/oidc/auth_url") => {
                if body["role"] != ROLE {
                    return Some(errors(400, &format!("role {} could not be found", body["role"])));
                }
                let redirect = body["redirect_uri"].as_str().unwrap().to_owned();
                if !self.redirects.is_empty() && !self.redirects.contains(&redirect) {
                    return Some(ok(&json!({"auth_url": ""}), &Value::Null));
                }
                self.count += 1;
                let state = format!("st_{}", self.count);
                let nonce = body["client_nonce"].as_str().unwrap().to_owned();
                self.logins.insert(state.clone(), (nonce, redirect.clone()));
                let url = format!(
                    "{}/idp/authorize?client_id=vault&state={state}&redirect_uri={redirect}",
                    self.address
                );
                ok(&json!({"auth_url": url}), &Value::Null)
            }
            ("GET", "auth/oidc/oidc/callback") => {
                let login = query.get("state").and_then(|state| self.logins.remove(state));
                match login {
                    Some((nonce, _))
                        if Some(&nonce) == query.get("client_nonce") && query["code"] == "c0de" =>
                    {
                        self.grant(ROLE)
                    }
                    _ => errors(400, "Vault login failed. Expired or missing OAuth state."),
                }
            }
            _ => return None,
        })
    }

    /// The identity provider: it sends the browser back.
    fn provider(&self, query: &str) -> Response {
        let query = pairs(query);
        let back = &self.logins[&query["state"]].1;
        let answer = if self.denied {
            "error=access_denied&error_description=not%20in%20the%20group"
        } else {
            "code=c0de"
        };
        let location = format!("{back}?state={}&{answer}", query["state"]);
        (StatusCode::FOUND, [("location", location)]).into_response()
    }

    fn grant(&mut self, name: &str) -> Response {
        self.count += 1;
        let token = format!("hvs.granted-{}", self.count);
        self.policies.insert(token.clone(), vec!["create", "read", "update"]);
        let auth = json!({
            "client_token": token, "accessor": "a", "policies": ["default"], "token_policies": ["default"],
            "metadata": {"username": name, "role": name}, "lease_duration": 3600, "renewable": true,
        });
        ok(&Value::Null, &auth)
    }
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://x/?{query}")).unwrap();
    url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

fn ok(data: &Value, auth: &Value) -> Response {
    Json(json!({
        "request_id": "x", "lease_id": "", "renewable": false, "lease_duration": 0, "data": data,
        "wrap_info": null, "warnings": null, "auth": auth,
    }))
    .into_response()
}

fn errors(status: u16, error: &str) -> Response {
    (StatusCode::from_u16(status).unwrap(), Json(json!({"errors": [error]}))).into_response()
}
