//! An image registry with state on loopback: the distribution API with its token service.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;

/// How one comes in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Everybody may.
    #[default]
    Open,
    /// With a name and a password in each request.
    Basic,
    /// With a token, which everybody gets.
    TokenForAll,
    /// With a token, which needs a name and a password.
    Token,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It says nothing.
    Silent,
    /// It fails so often, then no more.
    Failing(usize),
    /// It wants to be left alone.
    Busy,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) entry: Entry,
    pub(crate) trouble: Option<Trouble>,
    /// `name:tag`
    pub(crate) tags: BTreeSet<String>,
    /// Whether HEAD is answered 405.
    pub(crate) only_get: bool,
    /// Where tokens are said to be given, if not here.
    pub(crate) realm: Option<String>,
    /// How long tokens live.
    pub(crate) life: i64,
    /// Every request: method, path with query, and what was in `Authorization`.
    pub(crate) requests: Vec<(Method, String, Option<String>)>,
    address: String,
    tokens: Vec<String>,
}

/// Name and password `deployer:s3cret-word`, as a header.
pub(crate) const PASSWORD: &str = "s3cret-word";
const BASIC: &str = "Basic ZGVwbG95ZXI6czNjcmV0LXdvcmQ=";

#[derive(Clone)]
pub(crate) struct Registry(Arc<Mutex<World>>);

impl Registry {
    /// With these tags, `name:tag`.
    pub(crate) async fn start(entry: Entry, tags: &[&str]) -> Self {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let this = Self(Arc::new(Mutex::new(World { entry, tags, life: 300, ..World::default() })));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        this.lock().address = listener.local_addr().unwrap().to_string();
        let router = Router::new().fallback(answer).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        this
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// As images name it: `127.0.0.1:4711`.
    pub(crate) fn host(&self) -> String {
        self.lock().address.clone()
    }

    /// The paths that were asked for, with their methods.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = |(method, path, _): &(Method, String, _)| format!("{method} {path}");
        self.lock().requests.iter().map(asked).collect()
    }

    /// What was in `Authorization`, of each request.
    pub(crate) fn proofs(&self) -> Vec<Option<String>> {
        self.lock().requests.iter().map(|(_, _, proof)| proof.clone()).collect()
    }
}

async fn answer(
    State(registry): State<Registry>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let proof = request.headers().get("authorization").map(|v| v.to_str().unwrap().to_owned());
    let whole = query.as_ref().map_or(path.clone(), |query| format!("{path}?{query}"));
    let trouble = {
        let mut world = registry.lock();
        world.requests.push((request.method().clone(), whole, proof.clone()));
        world.trouble
    };
    match trouble {
        Some(Trouble::Silent) => std::future::pending().await,
        Some(Trouble::Busy) => return StatusCode::TOO_MANY_REQUESTS.into_response(),
        Some(Trouble::Failing(0)) | None => {}
        Some(Trouble::Failing(n)) => {
            registry.lock().trouble = Some(Trouble::Failing(n - 1));
            return StatusCode::BAD_GATEWAY.into_response();
        }
    }
    let mut world = registry.lock();
    match path.strip_prefix("/v2/") {
        Some(rest) => world.manifest(request.method(), rest, request.headers(), proof.as_deref()),
        None => world.token(&path, query.as_deref().unwrap_or_default(), proof.as_deref()),
    }
}

impl World {
    fn manifest(
        &self,
        method: &Method,
        rest: &str,
        headers: &HeaderMap,
        proof: Option<&str>,
    ) -> Response {
        let (name, tag) = rest.split_once("/manifests/").unwrap();
        let token = proof.and_then(|proof| proof.strip_prefix("Bearer "));
        let may = match self.entry {
            Entry::Open => true,
            Entry::Basic => proof == Some(BASIC),
            Entry::Token | Entry::TokenForAll => {
                token.is_some_and(|token| self.tokens.iter().any(|t| t == token))
            }
        };
        if !may {
            return self.challenge(name);
        }
        if self.only_get && *method == Method::HEAD {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        let kinds = headers["accept"].to_str().unwrap();
        assert!(kinds.contains("vnd.oci.image.index.v1") && kinds.contains("manifest.list.v2"));
        if self.tags.contains(&format!("{name}:{tag}")) {
            let kind = "application/vnd.oci.image.index.v1+json";
            return ([("content-type", kind)], "{\"manifests\": []}").into_response();
        }
        let errors = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such tag"}]});
        (StatusCode::NOT_FOUND, Json(errors)).into_response()
    }

    fn challenge(&self, name: &str) -> Response {
        let realm = self.realm.clone().unwrap_or(format!("http://{}/token", self.address));
        let text = match self.entry {
            Entry::Basic => "Basic realm=\"the registry\"".to_owned(),
            _ => format!(
                "Bearer realm=\"{realm}\",service=\"{}\",scope=\"repository:{name}:pull\"",
                self.address
            ),
        };
        (StatusCode::UNAUTHORIZED, [("www-authenticate", text)]).into_response()
    }

    fn token(&mut self, path: &str, query: &str, proof: Option<&str>) -> Response {
        assert_eq!(path, "/token");
        assert!(query.contains("scope=repository%3A") && query.contains("service="), "{query}");
        if self.entry == Entry::Token && proof != Some(BASIC) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let token = format!("token-{}", self.tokens.len());
        self.tokens.push(token.clone());
        Json(json!({"token": token, "expires_in": self.life})).into_response()
    }

    /// Whoever has a token needs a new one.
    pub(crate) fn revoke_tokens(&mut self) {
        self.tokens = vec!["revoked".to_owned(); self.tokens.len()];
    }
}
