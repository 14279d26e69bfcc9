//! An image registry with state on loopback: the distribution API with its token service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::harness::floods::Flood;

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
    pub(crate) flood: Option<Flood>,
    /// Where every question for a blob or a manifest is sent on to.
    pub(crate) elsewhere: Option<String>,
    /// `name:tag`
    pub(crate) tags: BTreeSet<String>,
    /// What a tag leads to, where it is more than an empty index.
    pub(crate) contents: BTreeMap<String, Json>,
    /// Whether answers lack the digest.
    pub(crate) hides_digests: bool,
    /// Whether HEAD is answered 405.
    pub(crate) only_get: bool,
    /// Where tokens are said to be given, if not here.
    pub(crate) realm: Option<String>,
    /// How long tokens live.
    pub(crate) life: i64,
    /// What was built, by `name:tag`: the manifest that the tag leads to.
    pub(crate) built: BTreeMap<String, Json>,
    /// Everything that is found by its digest: manifests of platforms, configurations.
    pub(crate) objects: BTreeMap<String, Json>,
    /// How many tags a page has; 0: all.
    pub(crate) page: usize,
    /// Times of all images in the list of tags, as Google has them, in milliseconds by tag.
    pub(crate) times: BTreeMap<String, i64>,
    /// Where blobs are really kept.
    pub(crate) store: Option<String>,
    /// Every request: method, path with query, and what was in `Authorization`.
    pub(crate) requests: Vec<(Method, String, Option<String>)>,
    address: String,
    tokens: Vec<String>,
}

/// The header with a manifest's digest.
const DIGEST: &str = "docker-content-digest";

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
    let (trouble, flood, elsewhere) = {
        let mut world = registry.lock();
        world.requests.push((request.method().clone(), whole, proof.clone()));
        (world.trouble, world.flood, world.elsewhere.clone())
    };
    let question = query.as_deref().unwrap_or_default();
    if let Some(flooded) = flood.and_then(|flood| flood.answer(request.method(), &path, question)) {
        return flooded;
    }
    if let Some(to) = elsewhere {
        return (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response();
    }
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
        Some(rest) => {
            let query = query.as_deref().unwrap_or_default();
            world.manifest(request.method(), rest, query, request.headers(), proof.as_deref())
        }
        None => world.token(&path, query.as_deref().unwrap_or_default(), proof.as_deref()),
    }
}

impl World {
    fn manifest(
        &self,
        method: &Method,
        rest: &str,
        query: &str,
        headers: &HeaderMap,
        proof: Option<&str>,
    ) -> Response {
        let part = ["/manifests/", "/tags/", "/blobs/"];
        let part = part.into_iter().find(|part| rest.contains(part)).unwrap();
        let (name, tag) = rest.split_once(part).unwrap();
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
        match part {
            "/tags/" => return self.list(name, query),
            "/blobs/" => return self.blob(name, tag),
            _ => {}
        }
        if let Some(found) = self.built.get(&format!("{name}:{tag}")).or(self.objects.get(tag)) {
            return ([(DIGEST, digest(found))], found.to_string()).into_response();
        }
        let kinds = headers["accept"].to_str().unwrap();
        assert!(kinds.contains("vnd.oci.image.index.v1") && kinds.contains("manifest.list.v2"));
        if self.tags.contains(&format!("{name}:{tag}")) {
            let kind = "application/vnd.oci.image.index.v1+json";
            let content = self.contents.get(&format!("{name}:{tag}"));
            let content = content.cloned().unwrap_or_else(|| json!({"manifests": []}));
            let mut found = ([("content-type", kind)], content.to_string()).into_response();
            if !self.hides_digests {
                found.headers_mut().insert(DIGEST, digest(&content).parse().unwrap());
            }
            return found;
        }
        let errors = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such tag"}]});
        (StatusCode::NOT_FOUND, axum::Json(errors)).into_response()
    }

    /// One page of tags in alphabetical order, with a link to the next.
    fn list(&self, name: &str, query: &str) -> Response {
        let prefix = format!("{name}:");
        let all = self.tags.iter().chain(self.built.keys());
        let mut tags: Vec<&str> = all.filter_map(|tag| tag.strip_prefix(&prefix)).collect();
        tags.sort_unstable();
        let last = query.split('&').find_map(|pair| pair.strip_prefix("last="));
        tags.retain(|tag| last.is_none_or(|last| *tag > last));
        let page = if self.page == 0 { tags.len() } else { self.page.min(tags.len()) };
        let manifest: serde_json::Map<String, Json> = self
            .times
            .iter()
            .map(|(tag, at)| {
                (digest(&json!(tag)), json!({"tag": [tag], "timeCreatedMs": at.to_string()}))
            })
            .collect();
        let mut body = json!({"name": name, "tags": &tags[..page]});
        if !manifest.is_empty() {
            body["manifest"] = Json::Object(manifest);
        }
        let mut response = axum::Json(body).into_response();
        if page < tags.len() {
            let link =
                format!("</v2/{name}/tags/list?last={}&n={}>; rel=\"next\"", tags[page - 1], page);
            response.headers_mut().insert("link", link.parse().unwrap());
        }
        response
    }

    /// A blob, or where it is really kept.
    fn blob(&self, name: &str, digest: &str) -> Response {
        match (&self.store, self.objects.get(digest)) {
            (_, None) => StatusCode::NOT_FOUND.into_response(),
            (Some(store), Some(_)) => {
                let to = format!("{store}/v2/{name}/blobs/{digest}");
                (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response()
            }
            (None, Some(found)) => found.to_string().into_response(),
        }
    }

    /// An image for two platforms under that tag, made then, of that commit.
    pub(crate) fn build(&mut self, tag: &str, created: &str, commit: &str) {
        let config = self
            .object(json!({"architecture": "amd64", "os": "linux", "created": created,
            "config": {"Labels": {"org.opencontainers.image.revision": commit}}, "tag": tag}));
        let image = self.object(json!({"schemaVersion": 2, "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": 1}, "layers": []}));
        let index = json!({"schemaVersion": 2, "manifests": [
            {"digest": digest(&json!("none")), "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": image, "platform": {"os": "linux", "architecture": "amd64"}},
        ]});
        self.built.insert(tag.to_owned(), index);
    }

    /// Something that is found by its digest.
    pub(crate) fn object(&mut self, object: Json) -> String {
        let digest = digest(&object);
        self.objects.insert(digest.clone(), object);
        digest
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
        axum::Json(json!({"token": token, "expires_in": self.life})).into_response()
    }

    /// Whoever has a token needs a new one.
    pub(crate) fn revoke_tokens(&mut self) {
        self.tokens = vec!["revoked".to_owned(); self.tokens.len()];
    }
}

fn digest(object: &Json) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(object.to_string())))
}
