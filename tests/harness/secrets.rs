//! A Vault and an API server with state on loopback, as far as one asks them for secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Value as Json_, json};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Forbidden,
    Sealed,
    Silent,
    /// It sends us to another host.
    Elsewhere,
    Nonsense,
}

#[derive(Default)]
pub(crate) struct World {
    /// Keys by `<mount>/<path>`, or nothing by the path of an object.
    pub(crate) secrets: BTreeMap<String, Vec<String>>,
    /// When the newest version of a secret was or will be deleted.
    pub(crate) deleted: BTreeMap<String, String>,
    pub(crate) trouble: Option<Trouble>,
    /// A Vault before 1.10.
    pub(crate) old: bool,
    pub(crate) asked: Vec<String>,
    pub(crate) token: String,
    pub(crate) namespace: Option<String>,
    address: String,
}

/// One that answers as a Vault at `/v1`, and as an API server elsewhere.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Mutex<World>>);

impl Keeper {
    pub(crate) async fn start() -> Self {
        let world = World { token: "good-token".to_owned(), ..World::default() };
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

    pub(crate) fn put(&self, path: &str, keys: &[&str]) {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        self.lock().secrets.insert(path.to_owned(), keys);
    }
}

async fn answer(State(keeper): State<Keeper>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let trouble = {
        let mut world = keeper.lock();
        world.asked.push(path.clone());
        world.trouble
    };
    match trouble {
        Some(Trouble::Silent) => std::future::pending().await,
        Some(Trouble::Forbidden) => return errors(StatusCode::FORBIDDEN, "permission denied"),
        Some(Trouble::Sealed) => {
            return errors(StatusCode::SERVICE_UNAVAILABLE, "Vault is sealed");
        }
        Some(Trouble::Elsewhere) => {
            let to = [("location", "http://localhost:1/v1/elsewhere")];
            return (StatusCode::TEMPORARY_REDIRECT, to).into_response();
        }
        Some(Trouble::Nonsense) => return "<html>".into_response(),
        None => {}
    }
    let world = keeper.lock();
    match path.strip_prefix("v1/") {
        Some(path) => world.vault(path, request.headers()),
        None => world.cluster(&path, request.headers()),
    }
}

impl World {
    fn vault(&self, path: &str, headers: &HeaderMap) -> Response {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        if header("x-vault-token") != Some(&self.token) {
            return errors(StatusCode::FORBIDDEN, "permission denied");
        }
        assert_eq!(header("x-vault-namespace"), self.namespace.as_deref());
        assert_eq!(header("x-vault-request"), Some("true"));
        let (mount, rest) = path.split_once('/').unwrap();
        let (part, path) = rest.split_once('/').unwrap();
        if mount != "kv" {
            return errors(
                StatusCode::NOT_FOUND,
                "no handler for route \"x\". route entry not found.",
            );
        }
        let deleted = self.deleted.get(path).cloned().unwrap_or_default();
        match (part, self.secrets.get(path)) {
            ("metadata", Some(_)) => {
                let newest =
                    json!({"created_time": "x", "deletion_time": deleted, "destroyed": false});
                let old = json!({"deletion_time": "2020-01-01T00:00:00Z", "destroyed": true});
                data(&json!({"current_version": 2, "versions": {"1": old, "2": newest}}))
            }
            ("subkeys", _) if self.old => {
                errors(StatusCode::NOT_FOUND, "1 error occurred:\n\t* unsupported path\n\n")
            }
            ("subkeys", Some(_)) if !deleted.is_empty() => {
                let body =
                    json!({"data": {"subkeys": null, "metadata": {"deletion_time": deleted}}});
                (StatusCode::NOT_FOUND, Json(body)).into_response()
            }
            ("subkeys", Some(keys)) => {
                let keys: BTreeMap<&String, Json_> =
                    keys.iter().map(|key| (key, Json_::Null)).collect();
                data(&json!({"subkeys": keys, "metadata": {"version": 2}}))
            }
            ("metadata" | "subkeys", None) => {
                (StatusCode::NOT_FOUND, Json(json!({"errors": []}))).into_response()
            }
            _ => panic!("values must not be asked for: {path}"),
        }
    }

    fn cluster(&self, path: &str, headers: &HeaderMap) -> Response {
        if headers["authorization"] != format!("Bearer {}", self.token).as_str() {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(headers["accept"], metadata, "values must not be asked for");
        if self.secrets.contains_key(path) {
            return Json(json!({"kind": "PartialObjectMetadata"})).into_response();
        }
        StatusCode::NOT_FOUND.into_response()
    }
}

fn data(data: &Json_) -> Response {
    Json(json!({"request_id": "x", "data": data, "warnings": null})).into_response()
}

fn errors(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({"errors": [error]}))).into_response()
}
