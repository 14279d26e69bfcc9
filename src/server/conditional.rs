//! Makes reads cheaper: an `ETag` for answers that are read repeatedly, 304 if the caller has the answer already, and
//! compression on request (RFC 9110, 8.8.3, 12.5.3, 13.1.2).
//!
//! Only for whole JSON answers of reads: a stream never ends, and an act is not repeated for its answer.

use std::io::Write as _;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::server::problem::{Problem, ProblemKind};

/// The largest answer, in bytes: answers are made in memory.
const LARGEST: usize = 64 * 1024 * 1024;
/// The smallest answer that is compressed, in bytes: a smaller one fits a packet.
const WORTH_IT: usize = 1024;
/// The bytes of the digest in a tag.
const TAG_BYTES: usize = 16;

/// Adds tags, 304 and compression to the answers of the API's routes.
pub(super) async fn conditional(request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let conditions = ConditionalHeaders::from_headers(request.headers());
    let response = next.run(request).await;
    let is_json =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if response.status() != StatusCode::OK
        || !is_json
        || response.headers().contains_key(ETAG)
        || response.body().size_hint().exact().is_none()
    {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else {
        let detail = "the answer would be too large: ask for less (`limit`)";
        return Problem::new(ProblemKind::Internal, detail).into_response();
    };
    let tag = tag(&body);
    let headers = &mut parts.headers;
    headers.append(VARY, HeaderValue::from_static("authorization, accept-encoding"));
    // Only for this caller, and checked again each time.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(value) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, value);
    }
    if conditions.has_tag(&tag) {
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        parts.status = StatusCode::NOT_MODIFIED;
        return Response::from_parts(parts, Body::empty());
    }
    if !conditions.gzip {
        return Response::from_parts(parts, Body::from(body));
    }
    compress_body(parts, body).await
}

/// Compresses the pages of callers that accept it. They have no tag: nothing may store a page.
pub(super) async fn compressed(request: Request, next: Next) -> Response {
    let conditions = ConditionalHeaders::from_headers(request.headers());
    let response = next.run(request).await;
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_page = kind.is_some_and(|kind| kind.starts_with("text/html"));
    if !is_page || !conditions.gzip || response.body().size_hint().exact().is_none() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else {
        return Problem::new(ProblemKind::Internal, "the page would be too large").into_response();
    };
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    compress_body(parts, body).await
}

/// Makes an answer of the body, compressed where that is worth it.
async fn compress_body(mut parts: Parts, body: Bytes) -> Response {
    if body.len() < WORTH_IT {
        return Response::from_parts(parts, Body::from(body));
    }
    match compress(body).await {
        Ok(smaller) => {
            parts.headers.remove(CONTENT_LENGTH);
            parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            Response::from_parts(parts, Body::from(smaller))
        }
        Err(body) => Response::from_parts(parts, Body::from(body)),
    }
}

/// A JSON document that is the same for all callers. It is compressed and tagged once: it needs no token, so that its
/// readers must not be able to make the service compute.
#[derive(Clone)]
pub(super) struct CachedDocument {
    plain: Bytes,
    gzip: Option<Bytes>,
    tag: String,
}

impl CachedDocument {
    pub(super) fn new(json: Vec<u8>) -> Self {
        let gzip = gzip(&json).ok().map(Bytes::from);
        Self { tag: tag(&json), gzip, plain: json.into() }
    }

    /// Answers a request with these headers.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let conditions = ConditionalHeaders::from_headers(headers);
        let always =
            [(VARY, "accept-encoding"), (CACHE_CONTROL, "no-cache"), (ETAG, self.tag.as_str())];
        if conditions.has_tag(&self.tag) {
            return (StatusCode::NOT_MODIFIED, always).into_response();
        }
        let json = [(CONTENT_TYPE, "application/json")];
        match &self.gzip {
            Some(gzip) if conditions.gzip => {
                (always, json, [(CONTENT_ENCODING, "gzip")], gzip.clone()).into_response()
            }
            _ => (always, json, self.plain.clone()).into_response(),
        }
    }
}

/// The headers of a request that name the caller's cached answers and its codings.
struct ConditionalHeaders {
    tags: Vec<String>,
    gzip: bool,
}

impl ConditionalHeaders {
    fn from_headers(headers: &HeaderMap) -> Self {
        let items = |name| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).map(|item| item.trim().to_owned())
        };
        Self {
            tags: items(IF_NONE_MATCH).collect(),
            gzip: items(ACCEPT_ENCODING).any(|coding| takes_gzip(&coding)),
        }
    }

    /// Compares the tag as weak tags are compared; `*` matches every tag.
    fn has_tag(&self, tag: &str) -> bool {
        let strip_weak = |tag: &str| tag.trim_start_matches("W/").to_owned();
        self.tags
            .iter()
            .any(|listed_tag| listed_tag == "*" || strip_weak(listed_tag) == strip_weak(tag))
    }
}

/// Returns whether one of the accepted codings is gzip, with a weight above 0.
fn takes_gzip(coding: &str) -> bool {
    let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
    let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
    matches!(name.trim(), "gzip" | "*") && weight.is_none_or(|weight| weight > 0.0)
}

/// Makes a weak tag: the compressed answer has the same one.
fn tag(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    format!("W/\"{}\"", hex::encode(digest.get(..TAG_BYTES).unwrap_or_default()))
}

/// Compresses the body on another thread, which takes milliseconds for the largest; returns the body itself if that
/// fails.
async fn compress(body: Bytes) -> Result<Vec<u8>, Bytes> {
    let original = body.clone();
    let compression = tokio::task::spawn_blocking(move || gzip(&body));
    compression.await.ok().and_then(Result::ok).ok_or(original)
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_it_is_named_and_not_refused() {
        for (coding, is_taken) in [
            ("gzip", true),
            ("gzip;q=0.5", true),
            ("gzip; q=0", false),
            ("*", true),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(coding), is_taken, "{coding:?}");
        }
    }

    #[test]
    fn a_tag_is_compared_as_a_weak_one() {
        let tag = tag(b"{}");
        let bare = tag.trim_start_matches("W/").to_owned();
        for (tags, is_match) in [
            (vec![tag.clone()], true),
            (vec!["\"x\"".to_owned(), bare], true),
            (vec!["*".to_owned()], true),
            (vec!["\"x\"".to_owned()], false),
            (Vec::new(), false),
        ] {
            assert_eq!(ConditionalHeaders { tags, gzip: false }.has_tag(&tag), is_match);
        }
    }

    async fn ask(path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let large = || async { axum::Json(vec!["the same text again and again"; 200]) };
        let missing = || async { Problem::new(ProblemKind::NotFound, "there is none") };
        let document = CachedDocument::new(format!("{:?}", vec!["the same text"; 200]).into());
        let document = move |headers: HeaderMap| async move { document.answer(&headers) };
        let stream = || async {
            let parts = futures::stream::iter([Ok::<_, std::io::Error>("{}")]);
            ([(CONTENT_TYPE, "application/json")], Body::from_stream(parts))
        };
        let router = axum::Router::new()
            .route("/large", axum::routing::get(large).post(large))
            .route("/document", axum::routing::get(document))
            .route("/gone", axum::routing::get(missing))
            .route("/varied", axum::routing::get(|| async { ([(VARY, "origin")], axum::Json(1)) }))
            .route("/stream", axum::routing::get(stream))
            .layer(axum::middleware::from_fn(conditional));
        let (method, path) = path.split_once(' ').unwrap();
        let request = Request::builder().method(method).uri(path);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        let (parts, body) = answer.into_parts();
        (parts.status, parts.headers, to_bytes(body, LARGEST).await.unwrap().to_vec())
    }

    #[tokio::test]
    async fn what_the_caller_has_is_not_sent_again() {
        for (path, cache) in [("GET /large", "private, no-cache"), ("GET /document", "no-cache")] {
            let (status, headers, body) = ask(path, &[]).await;
            let tag = headers[ETAG].to_str().unwrap().to_owned();
            assert_eq!((status, headers[CACHE_CONTROL].to_str().unwrap()), (StatusCode::OK, cache));
            assert!(body.len() > WORTH_IT && !headers.contains_key(CONTENT_ENCODING));
            let (status, headers, body) = ask(path, &[("if-none-match", &tag)]).await;
            assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0));
            assert_eq!(headers[ETAG].to_str().unwrap(), tag);
            let (status, _, _) = ask(path, &[("if-none-match", "W/\"other\"")]).await;
            assert_eq!(status, StatusCode::OK);
        }
    }

    #[tokio::test]
    async fn what_an_answer_varies_with_already_stays() {
        let (_, headers, _) = ask("GET /varied", &[]).await;
        let values: Vec<_> = headers.get_all(VARY).iter().collect();
        assert_eq!(values, ["origin", "authorization, accept-encoding"]);
    }

    #[tokio::test]
    async fn who_takes_gzip_gets_less_of_the_same() {
        use std::io::Read as _;
        for path in ["GET /large", "GET /document"] {
            let (_, plain_headers, plain_body) = ask(path, &[]).await;
            let (status, headers, body) = ask(path, &[("accept-encoding", "br, gzip")]).await;
            let coding = headers[CONTENT_ENCODING].to_str().unwrap();
            assert_eq!((status, coding), (StatusCode::OK, "gzip"));
            assert_eq!(
                (headers.get(ETAG), headers.get(VARY)),
                (plain_headers.get(ETAG), plain_headers.get(VARY))
            );
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, plain_body);
            assert!(body.len() * 4 < plain_body.len());
        }
    }

    #[tokio::test]
    async fn errors_streams_and_acts_are_as_they_were() {
        for path in ["GET /gone", "GET /stream", "POST /large"] {
            let (_, headers, _) = ask(path, &[("accept-encoding", "gzip")]).await;
            assert!(
                !headers.contains_key(ETAG) && !headers.contains_key(CONTENT_ENCODING),
                "{path}"
            );
        }
    }
}
