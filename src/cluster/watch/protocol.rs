//! What an API server answers: pages of a list and lines of a watch, each read within bounds of time and size.
//!
//! One object at a time becomes JSON, so that memory holds a page of bytes and no more. Never told is what an answer
//! says where it is no answer of an API server: it can be anything.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::cluster::connection::client::describe;
use crate::model::status::one_line;
use crate::support::http::body::read_bounded;
use crate::support::http::retry_after::retry_after_seconds;

/// A page that is larger is asked for in smaller parts.
const MOST_PAGE: usize = 16 * 1024 * 1024;

/// No object is larger: etcd takes one and a half megabytes.
const MOST_LINE: usize = 8 * 1024 * 1024;

/// Of a refusal one sentence counts.
const MOST_REFUSAL: usize = 64 * 1024;
const MOST_MESSAGE: usize = 300;

/// Why a list or a watch came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchProblem {
    /// 401
    Unauthorized,
    /// 403, with what the server says.
    Forbidden(String),
    /// 404
    Absent,
    /// 410, as a status or in the stream: what happened since is not known any more.
    Expired,
    /// 429 or 503, with when to come again.
    Throttled(Option<Duration>, String),
    /// The page or the object is larger than is read.
    TooLarge,
    /// Nothing came for too long.
    Silent,
    /// Anything else.
    Failed(String),
}

/// A page of a list.
pub(super) struct ListPage {
    body: Vec<u8>,
}

/// A page, read as far as its objects.
#[derive(Deserialize)]
pub(super) struct PageParts<'a> {
    #[serde(default)]
    pub(super) metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// Where a list stands, and where it goes on.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) continuation: Option<String>,
}

impl ListPage {
    /// Asks for a page and reads it whole.
    pub(super) async fn fetch(
        client: &Client,
        request: Request<Vec<u8>>,
        patience: Duration,
    ) -> Result<Self, WatchProblem> {
        let response = send(client, request).await?;
        let read = tokio::time::timeout(patience, read_body(response.into_body(), MOST_PAGE)).await;
        let seconds = patience.as_secs();
        let late =
            |_elapsed| WatchProblem::Failed(format!("a list did not end in {seconds} seconds"));
        Ok(Self { body: read.map_err(late)?? })
    }

    pub(super) fn parts(&self) -> Result<PageParts<'_>, WatchProblem> {
        let parts: PageParts<'_> = serde_json::from_slice(&self.body).map_err(|_| {
            WatchProblem::Failed("the server answers with something that is no list".to_owned())
        })?;
        if parts.metadata.resource_version.is_empty() {
            let problem = "the server answers with a list without a version".to_owned();
            return Err(WatchProblem::Failed(problem));
        }
        Ok(parts)
    }
}

impl PageParts<'_> {
    /// The objects, each made when it is asked for.
    pub(super) fn objects(&self) -> impl Iterator<Item = Json> {
        let items = self.items.iter().flatten();
        // Each was read once already, as a part of the page.
        items.map(|item| serde_json::from_str(item.get()).unwrap_or_default())
    }

    /// Where the next page begins.
    pub(super) fn continuation(&self) -> Option<String> {
        self.metadata.continuation.clone().filter(|token| !token.is_empty())
    }
}

/// One thing that a watch tells.
#[derive(Debug, PartialEq)]
pub(super) enum WatchMessage {
    /// The object is there, as it is now.
    Applied(Json),
    /// It is gone; its last state.
    Deleted(Json),
    /// Nothing happened up to this version.
    Bookmark(Json),
    /// Of a type that is not known.
    Unknown,
}

/// The lines of a watch.
pub(super) struct WatchLines {
    body: Body,
    buffer: Vec<u8>,
    /// How many bytes of the buffer have no end of line.
    searched: usize,
}

impl WatchLines {
    /// Asks for a watch; its first bytes may come any time later.
    pub(super) async fn open(
        client: &Client,
        request: Request<Vec<u8>>,
    ) -> Result<Self, WatchProblem> {
        let response = send(client, request).await?;
        Ok(Self { body: response.into_body(), buffer: Vec::new(), searched: 0 })
    }

    /// Reads the next message; `None` when the server has ended the watch, or the connection broke. Nothing is lost
    /// when the caller stops to wait.
    pub(super) async fn next(&mut self) -> Result<Option<WatchMessage>, WatchProblem> {
        loop {
            if let Some(line) = self.take_line() {
                if !line.iter().all(u8::is_ascii_whitespace) {
                    return parse_line(&line).map(Some);
                }
                continue;
            }
            if self.buffer.len() > MOST_LINE {
                return Err(WatchProblem::TooLarge);
            }
            // What stands there without an end of line is not whole, and comes again with the next watch.
            let Some(Ok(frame)) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let rest = self.buffer.get(self.searched..)?;
        if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.drain(..=self.searched + at).collect();
            self.searched = 0;
            Some(line)
        } else {
            self.searched = self.buffer.len();
            None
        }
    }
}

#[derive(Deserialize)]
struct WatchLine<'a> {
    r#type: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn parse_line(line: &[u8]) -> Result<WatchMessage, WatchProblem> {
    let no_event =
        |_| WatchProblem::Failed("the server sends something that is no event".to_owned());
    let WatchLine { r#type, object } = serde_json::from_slice(line).map_err(no_event)?;
    let object: Json = serde_json::from_str(object.get()).map_err(no_event)?;
    match r#type.as_str() {
        "ADDED" | "MODIFIED" => Ok(WatchMessage::Applied(object)),
        "DELETED" => Ok(WatchMessage::Deleted(object)),
        "BOOKMARK" => Ok(WatchMessage::Bookmark(object)),
        "ERROR" => {
            let code = object.get("code").and_then(Json::as_u64);
            let code = code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
            let message = object.get("message").and_then(Json::as_str).unwrap_or_default();
            Err(problem_of(code, message, None))
        }
        _ => Ok(WatchMessage::Unknown),
    }
}

/// The version that an object of an event has.
pub(super) fn version_of(object: &Json) -> Option<&str> {
    object.get("metadata")?.get("resourceVersion")?.as_str().filter(|version| !version.is_empty())
}

async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Response<Body>, WatchProblem> {
    let response = client.send(request.map(Body::from)).await;
    let response = response.map_err(|error| WatchProblem::Failed(describe(&error)))?;
    if response.status() == StatusCode::OK {
        return Ok(response);
    }
    let (status, after) = (response.status(), retry_after_seconds(response.headers()));
    let read = read_body(response.into_body(), MOST_REFUSAL);
    let body = tokio::time::timeout(Duration::from_secs(5), read).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    // What is not JSON comes from something in between, or from a path that is not there.
    let said = serde_json::from_slice::<Json>(&body).unwrap_or_default();
    let message = said.get("message").and_then(Json::as_str).unwrap_or_default();
    Err(problem_of(status.as_u16(), message, after))
}

fn problem_of(code: u16, message: &str, after: Option<Duration>) -> WatchProblem {
    let message = one_line(message, MOST_MESSAGE);
    let said = || match message.as_str() {
        "" => format!("the server answers {code}"),
        message => format!("the server answers {code}: {message}"),
    };
    match code {
        401 => WatchProblem::Unauthorized,
        403 => WatchProblem::Forbidden(said()),
        404 => WatchProblem::Absent,
        410 => WatchProblem::Expired,
        429 | 503 => WatchProblem::Throttled(after, said()),
        _ => WatchProblem::Failed(said()),
    }
}

async fn read_body(body: Body, most: usize) -> Result<Vec<u8>, WatchProblem> {
    let body = read_bounded(body, most).await;
    let body = body.map_err(|error| WatchProblem::Failed(describe(&error)))?;
    if body.is_cut { Err(WatchProblem::TooLarge) } else { Ok(body.bytes) }
}

/// What a server answers, as a line of a watch and as a page of a list: no object makes a reader panic, and what is
/// told of it has bounds.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    use crate::cluster::object::WatchedKind;
    use crate::cluster::watched::WatchedObject;

    let read = |object: &Json| {
        for kind in WatchedKind::ALL {
            if let Ok(object) = WatchedObject::read(kind, object) {
                assert!(!object.key().name.is_empty(), "an object without a name");
            }
        }
    };
    match parse_line(data) {
        Ok(WatchMessage::Applied(object) | WatchMessage::Deleted(object)) => read(&object),
        Ok(WatchMessage::Bookmark(object)) => {
            assert!(version_of(&object).is_none_or(|version| !version.is_empty()));
        }
        Err(
            WatchProblem::Failed(said)
            | WatchProblem::Forbidden(said)
            | WatchProblem::Throttled(_, said),
        ) => {
            assert!(said.chars().count() < MOST_MESSAGE + 100, "{said}");
        }
        Ok(WatchMessage::Unknown) | Err(_) => {}
    }
    let page = ListPage { body: data.to_vec() };
    if let Ok(parts) = page.parts() {
        parts.objects().for_each(|object| read(&object));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_an_event_a_bookmark_or_a_refusal() {
        let read = |line: &str| parse_line(line.as_bytes());
        assert_eq!(
            read(r#"{"type":"ADDED","object":{"a":1}}"#),
            Ok(WatchMessage::Applied(json!({"a": 1})))
        );
        // The order of keys is nobody's promise.
        assert_eq!(
            read(r#"{"object":{"a":1},"type":"DELETED"}"#),
            Ok(WatchMessage::Deleted(json!({"a": 1})))
        );
        let bookmark = json!({"metadata": {"resourceVersion": "7"}});
        let said = read(&json!({"type": "BOOKMARK", "object": bookmark}).to_string());
        let Ok(WatchMessage::Bookmark(object)) = said else { panic!("a bookmark") };
        assert_eq!(version_of(&object), Some("7"));
        assert_eq!(read(r#"{"type":"NEW","object":{}}"#), Ok(WatchMessage::Unknown));
        let status =
            |code: u16| json!({"type": "ERROR", "object": {"code": code, "message": "too old"}});
        assert_eq!(read(&status(410).to_string()), Err(WatchProblem::Expired));
        let failed = WatchProblem::Failed("the server answers 500: too old".to_owned());
        assert_eq!(read(&status(500).to_string()), Err(failed));
        for nonsense in ["", "{", "[]", "s3cret", r#"{"type":"ADDED"}"#, "\u{feff}{}"] {
            let Err(WatchProblem::Failed(said)) = read(nonsense) else { panic!("{nonsense}") };
            assert!(!said.contains("s3cret"), "{said}");
        }
    }

    #[test]
    fn a_page_has_a_version_and_maybe_a_next_one() {
        let page = |json: Json| ListPage { body: json.to_string().into_bytes() };
        let both = page(json!({
            "metadata": {"resourceVersion": "5", "continue": "next"}, "items": [{"a": 1}, "odd"],
        }));
        let parts = both.parts().unwrap();
        assert_eq!(parts.objects().collect::<Vec<_>>(), [json!({"a": 1}), json!("odd")]);
        assert_eq!(parts.continuation().as_deref(), Some("next"));
        let last =
            page(json!({"metadata": {"resourceVersion": "5", "continue": ""}, "items": null}));
        let parts = last.parts().unwrap();
        assert!(parts.objects().next().is_none() && parts.continuation().is_none());
        for nonsense in [json!({"items": []}), json!([]), json!("x"), json!({"metadata": 1})] {
            assert!(page(nonsense).parts().is_err());
        }
    }

    #[test]
    fn a_refusal_is_told_in_one_line_of_bounded_length() {
        let said = |message: &str| problem_of(403, message, None);
        let expected = "the server answers 403: pods is forbidden".to_owned();
        assert_eq!(said("pods  is\nforbidden"), WatchProblem::Forbidden(expected));
        assert_eq!(said(""), WatchProblem::Forbidden("the server answers 403".to_owned()));
        let WatchProblem::Forbidden(long) = said(&"x".repeat(10_000)) else { panic!("forbidden") };
        assert!(long.chars().count() < 400);
        let after = Some(Duration::from_secs(3));
        let WatchProblem::Throttled(wait, _) = problem_of(429, "", after) else { panic!("later") };
        assert_eq!(wait, after);
    }
}
