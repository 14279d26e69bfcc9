//! Answers of a hostile registry: without an end, of many small parts, of few large ones, of nothing but depth.

use std::io::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use futures::stream;

const PIECE: usize = 64 * 1024;
/// What a page may have at most by honest measure.
const PAGE: usize = 8 * 1024 * 1024 - PIECE;

/// What the registry does to whoever asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flood {
    /// Millions of short tags on each page, and always another page.
    Pages,
    /// One page of short tags that never ends.
    Page,
    /// Tags of half a megabyte.
    LongTags,
    /// Times of millions of tags, as Google has them.
    Times,
    /// Nothing but blanks, compressed.
    Bomb,
    /// A byte now and then.
    Drip,
    /// Lists in lists.
    Depth,
    /// Honest tags, whose manifests have millions of platforms and labels.
    Manifests,
}

impl Flood {
    pub(crate) const ALL: [Self; 8] = [
        Self::Pages,
        Self::Page,
        Self::LongTags,
        Self::Times,
        Self::Bomb,
        Self::Drip,
        Self::Depth,
        Self::Manifests,
    ];

    /// The answer to a question for that path; `None` where the registry is honest.
    pub(crate) fn answer(self, method: &Method, path: &str, query: &str) -> Option<Response> {
        if *method == Method::HEAD {
            return None;
        }
        if self == Self::Manifests {
            return manifests(path);
        }
        if !path.ends_with("/tags/list") {
            return None;
        }
        Some(match self {
            Self::Pages => {
                let page = query.split('&').find_map(|pair| pair.strip_prefix("last="));
                let next = page.map_or(1, |page| page.parse::<u64>().unwrap() + 1);
                let body = some(r#"{"tags":["#, r#""a","#, PAGE, r#""a"]}"#);
                let link = format!("<{path}?last={next}&n=1000>; rel=\"next\"");
                ([("link", link)], body).into_response()
            }
            Self::Page => endless(r#"{"tags":["#, r#""a","#),
            Self::LongTags => {
                let tag = format!("\"{}\",", "x".repeat(512 * 1024));
                endless(r#"{"tags":["#, &tag)
            }
            Self::Times => {
                let tags = r#""a","#.repeat(1000);
                let one = format!(r#""d":{{"tag":[{tags}"b"],"timeCreatedMs":"1700000000000"}},"#);
                endless(r#"{"manifest":{"#, &one)
            }
            Self::Bomb => bomb(),
            Self::Drip => {
                let drops = stream::unfold(0_u32, |n| async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let drop = if n == 0 { "{\"tags\":[" } else { "\"a\"," };
                    Some((Ok::<_, std::io::Error>(Bytes::from_static(drop.as_bytes())), n + 1))
                });
                Body::from_stream(drops).into_response()
            }
            Self::Depth => some(r#"{"tags":["#, "[", PAGE, "").into_response(),
            Self::Manifests => unreachable!("it answers above"),
        })
    }
}

/// Sixty tags, each with a manifest of a megabyte: half a million labels, or platforms.
fn manifests(path: &str) -> Option<Response> {
    if path.ends_with("/tags/list") {
        let tags: Vec<String> = (0..60).map(|n| n.to_string()).collect();
        return Some(axum::Json(serde_json::json!({ "tags": tags })).into_response());
    }
    let digest = format!("sha256:{}", "a".repeat(64));
    let even = path.ends_with(['0', '2', '4', '6', '8']);
    let (begin, part, end) = if path.contains("/manifests/") && even {
        (r#"{"manifests":["#.to_owned(), r#"{"digest":""},"#, r#"{"digest":""}]}"#.to_owned())
    } else {
        let config = format!(r#"{{"mediaType":"oci.image.config","digest":"{digest}"}}"#);
        (format!(r#"{{"config":{config},"annotations":{{"#), r#""a":"","#, r#""b":""}}"#.to_owned())
    };
    let body = some(&begin, part, 1024 * 1024 - 512, &end);
    (path.contains("/manifests/") || path.contains("/blobs/")).then(|| body.into_response())
}

fn some(begin: &str, part: &str, most: usize, end: &str) -> String {
    let count = most.saturating_sub(begin.len() + end.len()) / part.len();
    format!("{begin}{}{end}", part.repeat(count))
}

fn endless(begin: &str, part: &str) -> Response {
    let piece = Bytes::from(part.repeat((PIECE / part.len()).max(1)));
    let begin = Some(Bytes::from(begin.to_owned()));
    let pieces = stream::unfold(begin, move |begin| {
        let next = begin.unwrap_or_else(|| piece.clone());
        async move { Some((Ok::<_, std::io::Error>(next), None)) }
    });
    Body::from_stream(pieces).into_response()
}

fn bomb() -> Response {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(b"{\"tags\":[").unwrap();
    let spaces = vec![b' '; 1024 * 1024];
    for _ in 0..32 {
        gzip.write_all(&spaces).unwrap();
    }
    let mut response = gzip.finish().unwrap().into_response();
    response.headers_mut().insert("content-encoding", HeaderValue::from_static("gzip"));
    response
}
