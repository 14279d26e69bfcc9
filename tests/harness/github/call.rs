//! One request, and its sender.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, Method, Uri};
use serde_json::Value as Json;

use crate::harness::github::answer::{Answer, Answered, ok};

/// A page has at most so many entries.
const MAX_PER_PAGE: usize = 100;

/// One request.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    /// The address's parts, decoded, without what stands before `/repos`.
    pub(super) path: Vec<String>,
    pub(super) query: BTreeMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Json,
    /// Begins every address in the answer: `http://127.0.0.1:4000/api/v3`.
    pub(super) base: String,
    /// Path and query, as they came.
    pub(super) target: String,
}

impl Call {
    pub(super) fn new(
        origin: &str,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: &[u8],
    ) -> Self {
        let url = reqwest::Url::parse(&format!("http://github{uri}")).unwrap();
        let enterprise = url.path().starts_with("/api/v3");
        let base = format!("{origin}{}", if enterprise { "/api/v3" } else { "" });
        let path = url.path().trim_start_matches("/api/v3").split('/');
        let path = path.filter(|part| !part.is_empty()).map(decoded).collect();
        let query = url.query_pairs().into_owned().collect();
        let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok());
        let body = match kind {
            Some("application/x-www-form-urlencoded") => form(body),
            _ => serde_json::from_slice(body).unwrap_or(Json::Null),
        };
        Self { method, path, query, headers, body, base, target: uri.to_string() }
    }

    pub(super) fn writes(&self) -> bool {
        self.method != Method::GET
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `Bearer x` and `token x` are the same to GitHub.
    pub(super) fn credential(&self) -> Option<&str> {
        let value = self.header("authorization")?;
        value.split_once(' ').map(|(_, credential)| credential)
    }

    /// A text of the body; absent and null are the same.
    pub(super) fn text(&self, field: &str) -> Option<String> {
        self.body[field].as_str().map(str::to_owned)
    }

    pub(super) fn required(&self, resource: &str, field: &str) -> Result<String, Answer> {
        let missing = || Answer::invalid(resource, field, &format!("{field} wasn't supplied"));
        self.text(field).ok_or_else(missing)
    }

    /// One page of a list, with links to the others.
    pub(super) fn page(&self, all: &[Json]) -> Answered {
        let (page, links) = self.paged(all);
        let answer = ok(&Json::from(page))?;
        Ok(if links.is_empty() { answer } else { answer.with("link", links) })
    }

    /// One page of a list that stands in an object beside its length.
    pub(super) fn page_in(&self, name: &str, all: &[Json]) -> Answered {
        let (page, links) = self.paged(all);
        let answer = ok(&serde_json::json!({"total_count": all.len(), name: page}))?;
        Ok(if links.is_empty() { answer } else { answer.with("link", links) })
    }

    pub(super) fn per_page(&self) -> usize {
        self.number("per_page").unwrap_or(30).clamp(1, MAX_PER_PAGE)
    }

    fn paged(&self, all: &[Json]) -> (Vec<Json>, String) {
        let (per_page, page) = (self.per_page(), self.number("page").unwrap_or(1).max(1));
        let last = all.len().div_ceil(per_page);
        let entries = all.iter().skip((page - 1) * per_page).take(per_page).cloned().collect();
        let mut links = Vec::new();
        if page < last {
            links.push(self.link(page + 1, per_page, "next"));
            links.push(self.link(last, per_page, "last"));
        }
        if page > 1 {
            links.push(self.link(page - 1, per_page, "prev"));
        }
        (entries, links.join(", "))
    }

    fn link(&self, page: usize, per_page: usize, rel: &str) -> String {
        let path = self.path.join("/");
        format!("<{}/{path}?per_page={per_page}&page={page}>; rel=\"{rel}\"", self.base)
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }
}

/// The fields that a browser sends of a form.
fn form(body: &[u8]) -> Json {
    let url = format!("http://form/?{}", String::from_utf8_lossy(body));
    let url = reqwest::Url::parse(&url).unwrap();
    url.query_pairs().map(|(name, value)| (name.into_owned(), Json::from(value.as_ref()))).collect()
}

fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let hex: Option<Vec<u8>> =
            (byte == b'%').then(|| [rest.next(), rest.next()].into_iter().flatten().collect());
        match hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()) {
            Some(decoded) => bytes.push(decoded),
            None => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
