//! An API server on loopback, as far as people read and write Secrets with it: versions, conflicts, and a store of External
//! Secrets. The words are those of Kubernetes 1.33.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use serde_json::{Value, json};

const TOKEN: &str = "kube-person-t0ken";

#[derive(Default)]
pub(crate) struct World {
    /// By path below the server.
    pub(crate) objects: BTreeMap<String, Value>,
    version: u64,
    address: String,
    /// The next write comes after one of another person.
    pub(crate) is_overtaken: bool,
}

#[derive(Clone, Default)]
pub(crate) struct SecretCluster(Arc<Mutex<World>>);

impl SecretCluster {
    pub(crate) async fn start() -> Self {
        let this = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        this.lock().address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        this
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// Writes a kubeconfig with these contexts.
    pub(crate) fn kubeconfig(&self, folder: &Path, contexts: &[&str]) -> PathBuf {
        let address = self.lock().address.clone();
        let contexts = contexts
            .iter()
            .map(|name| format!("- {{name: {name}, context: {{cluster: c, user: u}}}}\n"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: other\ncontexts:\n{}clusters:\n- {{name: c, cluster: {{server: '{address}'}}}}\nusers:\n- {{name: u, user: {{token: {TOKEN}}}}}\n",
            contexts.collect::<String>()
        );
        let path = folder.join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        path
    }
}

async fn answer(State(cluster): State<SecretCluster>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Value =
        serde_json::from_slice(&to_bytes(body, 4 << 20).await.unwrap()).unwrap_or_default();
    let is_person =
        parts.headers.get("authorization").is_some_and(|value| *value == format!("Bearer {TOKEN}"));
    if !is_person {
        return status(401, "Unauthorized", "Unauthorized");
    }
    cluster.lock().answer(&parts.method, parts.uri.path(), body)
}

impl World {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> Response {
        let name = path.rsplit('/').next().unwrap_or_default();
        if *method != Method::GET && std::mem::take(&mut self.is_overtaken) {
            self.version += 1;
            let version = self.version.to_string();
            let overtaken = if *method == Method::POST {
                format!("{path}/{}", body["metadata"]["name"].as_str().unwrap())
            } else {
                path.to_owned()
            };
            let object = self.objects.entry(overtaken).or_insert_with(|| body.clone());
            object["metadata"]["resourceVersion"] = version.into();
        }
        match method.as_str() {
            "GET" => match self.objects.get(path) {
                Some(object) => Json(object.clone()).into_response(),
                None => status(404, "NotFound", &format!("secrets \"{name}\" not found")),
            },
            "POST" => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return status(
                        409,
                        "AlreadyExists",
                        &format!("secrets \"{name}\" already exists"),
                    );
                }
                (StatusCode::CREATED, self.store(&path, body)).into_response()
            }
            "PUT" => {
                let present =
                    self.objects.get(path).map(|one| one["metadata"]["resourceVersion"].clone());
                if present != Some(body["metadata"]["resourceVersion"].clone()) {
                    let message = format!(
                        "Operation cannot be fulfilled on secrets \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
                    );
                    return status(409, "Conflict", &message);
                }
                self.store(path, body)
            }
            _ => status(405, "MethodNotAllowed", "the server does not allow this method"),
        }
    }

    fn store(&mut self, path: &str, mut object: Value) -> Response {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        self.objects.insert(path.to_owned(), object.clone());
        Json(object).into_response()
    }
}

fn status(code: u16, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (StatusCode::from_u16(code).unwrap(), Json(body)).into_response()
}
