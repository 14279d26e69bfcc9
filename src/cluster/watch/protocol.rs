//! Reads an API server's answers: pages of a list and lines of a watch, each within bounds of time and size.
//!
//! One object at a time becomes JSON, so that memory holds a page of bytes and no more.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::cluster::connection::client::describe;
use crate::cluster::connection::request::{RequestError, ServerRefusal, send};
use crate::support::http::body::read_bounded;

/// The largest page; a larger one is asked for in smaller parts.
const MAX_PAGE: usize = 16 * 1024 * 1024;

/// The longest line of a watch. No object is larger: etcd takes one and a half megabytes.
const MAX_LINE: usize = 8 * 1024 * 1024;

/// The reason why a list or a watch failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) enum WatchProblem {
    /// 401
    Unauthorized,
    /// 403, with the server's sentence.
    Forbidden(String),
    /// 404
    Absent,
    /// 410, as a status or in the stream: the server has forgotten the changes since that version.
    Expired,
    /// 429 or 503, with the wait that the server asks for.
    Throttled(Option<Duration>, String),
    /// The page or the object is larger than the limit.
    TooLarge,
    /// Nothing came for too long.
    Silent,
    /// Any other reason.
    Failed(String),
}

impl WatchProblem {
    /// The server sends text that is no event of a watch.
    pub(super) fn no_events() -> Self {
        Self::Failed("the server sends something that is no event".to_owned())
    }
}

impl From<ServerRefusal> for WatchProblem {
    fn from(ServerRefusal { code, message, retry_after }: ServerRefusal) -> Self {
        match code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden(message),
            404 => Self::Absent,
            410 => Self::Expired,
            429 | 503 => Self::Throttled(retry_after, message),
            _ => Self::Failed(message),
        }
    }
}

impl From<RequestError> for WatchProblem {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused(refusal) => refusal.into(),
            RequestError::Timeout(reason) | RequestError::NoAnswer(reason) => Self::Failed(reason),
        }
    }
}

/// A page of a list.
pub(in crate::cluster) struct ListPage {
    body: Vec<u8>,
}

/// A page whose objects are still text.
#[derive(Deserialize)]
pub(in crate::cluster) struct PageParts<'a> {
    #[serde(default)]
    pub(super) metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// The version of a list, and the token of its next page.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) continuation: Option<String>,
}

impl ListPage {
    /// Asks for a page and reads it whole, within that time.
    pub(super) async fn fetch(
        client: &Client,
        request: Request<Vec<u8>>,
        deadline: Duration,
    ) -> Result<Self, WatchProblem> {
        Self::fetch_bounded(client, request, MAX_PAGE, deadline).await
    }

    /// Does the same for a page of at most so many bytes.
    pub(in crate::cluster) async fn fetch_bounded(
        client: &Client,
        request: Request<Vec<u8>>,
        most: usize,
        deadline: Duration,
    ) -> Result<Self, WatchProblem> {
        let response = send(client, request).await?;
        let read = tokio::time::timeout(deadline, read_body(response.into_body(), most)).await;
        let seconds = deadline.as_secs();
        let late =
            |_elapsed| WatchProblem::Failed(format!("a list did not end in {seconds} seconds"));
        Ok(Self { body: read.map_err(late)?? })
    }

    /// Returns its size in bytes.
    pub(in crate::cluster) fn len(&self) -> usize {
        self.body.len()
    }

    pub(in crate::cluster) fn parts(&self) -> Result<PageParts<'_>, WatchProblem> {
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
    /// Parses the objects one by one.
    pub(in crate::cluster) fn objects(&self) -> impl Iterator<Item = Json> {
        let items = self.items.iter().flatten();
        // Each is JSON: it was a part of the page. `null` stands for one that is nested too deeply.
        items.map(|item| serde_json::from_str(item.get()).unwrap_or_default())
    }

    /// Returns the token of the next page.
    pub(in crate::cluster) fn continuation(&self) -> Option<String> {
        self.metadata.continuation.clone().filter(|token| !token.is_empty())
    }
}

/// A message of a watch.
#[derive(Debug, PartialEq)]
pub(super) enum WatchMessage {
    /// The object is new, or has changed.
    Applied(Json),
    /// The object is gone; this is its last state.
    Deleted(Json),
    /// Nothing happened up to this version.
    Bookmark(Json),
    /// Its type is not known.
    Unknown,
    /// The line is no event: it is left out, and the next ones are read.
    Unreadable,
}

/// The lines of a watch.
pub(super) struct WatchLines {
    body: Body,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that have no end of line.
    searched: usize,
}

impl WatchLines {
    /// Asks for a watch. It is open when the head of the answer is there; its first bytes may come any time later.
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
                    return Ok(Some(parse_line(&line)?));
                }
                continue;
            }
            if self.buffer.len() > MAX_LINE {
                return Err(WatchProblem::TooLarge);
            }
            // A line without an end is not whole, and comes again with the next watch.
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

/// Reads a line.
///
/// # Errors
/// The server's own error, which ends the watch.
fn parse_line(line: &[u8]) -> Result<WatchMessage, ServerRefusal> {
    let Ok(WatchLine { r#type, object }) = serde_json::from_slice(line) else {
        return Ok(WatchMessage::Unreadable);
    };
    // Text that is nested too deeply is refused here.
    let Ok(object) = serde_json::from_str::<Json>(object.get()) else {
        return Ok(WatchMessage::Unreadable);
    };
    match r#type.as_str() {
        "ADDED" | "MODIFIED" => Ok(WatchMessage::Applied(object)),
        "DELETED" => Ok(WatchMessage::Deleted(object)),
        "BOOKMARK" => Ok(WatchMessage::Bookmark(object)),
        "ERROR" => Err(ServerRefusal::from_status(&object)),
        _ => Ok(WatchMessage::Unknown),
    }
}

/// Returns the version of an event's object.
pub(super) fn version_of(object: &Json) -> Option<&str> {
    object.get("metadata")?.get("resourceVersion")?.as_str().filter(|version| !version.is_empty())
}

async fn read_body(body: Body, most: usize) -> Result<Vec<u8>, WatchProblem> {
    let body = read_bounded(body, most).await;
    let body = body.map_err(|error| WatchProblem::Failed(describe(&error)))?;
    if body.is_cut { Err(WatchProblem::TooLarge) } else { Ok(body.bytes) }
}

/// Reads any text as a line of a watch and as a page of a list: no object makes a reader panic, and reasons are short.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    use crate::cluster::connection::request::MAX_MESSAGE;
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
        Err(ServerRefusal { message, .. }) => {
            assert!(message.chars().count() < MAX_MESSAGE + 100, "{message}");
        }
        Ok(WatchMessage::Unknown | WatchMessage::Unreadable) => {}
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
        let message = read(&json!({"type": "BOOKMARK", "object": bookmark}).to_string());
        let Ok(WatchMessage::Bookmark(object)) = message else { panic!("a bookmark") };
        assert_eq!(version_of(&object), Some("7"));
        assert_eq!(read(r#"{"type":"NEW","object":{}}"#), Ok(WatchMessage::Unknown));
        let status =
            |code: u16| json!({"type": "ERROR", "object": {"code": code, "message": "too old"}});
        let problem = |code| read(&status(code).to_string()).map_err(WatchProblem::from);
        assert_eq!(problem(410), Err(WatchProblem::Expired));
        let failed = WatchProblem::Failed("the server answers 500: too old".to_owned());
        assert_eq!(problem(500), Err(failed));
    }

    #[test]
    fn a_line_that_is_no_event_is_left_out() {
        let deep =
            format!("{{\"type\":\"ADDED\",\"object\":{}{}}}", "[".repeat(500), "]".repeat(500));
        for line in
            ["", "{", "[]", "s3cret", r#"{"type":"ADDED"}"#, "\u{feff}{}", "{\"type\":1}", &deep]
        {
            assert_eq!(parse_line(line.as_bytes()), Ok(WatchMessage::Unreadable), "{line}");
        }
        assert_eq!(parse_line(b"\xff\xfe"), Ok(WatchMessage::Unreadable));
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
    fn a_refusal_is_a_problem_of_its_kind() {
        let problem = |code| WatchProblem::from(ServerRefusal::new(code, "no", None));
        assert_eq!(problem(401), WatchProblem::Unauthorized);
        let forbidden = "the server answers 403: no".to_owned();
        assert_eq!(problem(403), WatchProblem::Forbidden(forbidden));
        assert_eq!((problem(404), problem(410)), (WatchProblem::Absent, WatchProblem::Expired));
        let after = Some(Duration::from_secs(3));
        let later = WatchProblem::from(ServerRefusal::new(429, "", after));
        assert_eq!(later, WatchProblem::Throttled(after, "the server answers 429".to_owned()));
    }
}
