//! Reads logs of containers through the connection to their cluster: the end of one for the cause of a failure, or its
//! lines as they come.
//!
//! Every text is bounded, and without control characters and secrets (`support::log_text`). The service needs the
//! permission to `get` `pods/log`.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt as _;
use kube::api::LogParams;
use kube::client::Body;
use tokio::time::Instant;

use crate::cluster::connection::client::{ClusterClient, ClusterConnection, describe};
use crate::cluster::connection::error::UNAUTHORIZED;
use crate::cluster::connection::request::{RequestError, ServerRefusal, send};
use crate::cluster::failure::{LOG_LINES, LogTail, MASKED_LINES};
use crate::support::http::body::read_bounded;
use crate::support::log_text::{LogMask, remove_controls};
use crate::support::text::truncate_chars;

/// The most bytes of one answer, for the end of a log.
const MAX_TAIL: usize = 64 * 1024;

/// The deadline for the end of a log: a failure is told without it rather than late.
const TAIL_DEADLINE: Duration = Duration::from_secs(5);

/// The time for the head of a log that is followed: a server may send it together with the first line, so that a caller
/// goes on without.
const HEAD_WAIT: Duration = Duration::from_secs(2);

/// The longest part of a line that is read, in bytes; the rest of the line is left out.
const MAX_LINE: usize = 64 * 1024;

/// The longest line of [`LogLines`], in characters.
pub(crate) const MAX_LINE_CHARS: usize = 4096;

/// The reason why a log cannot be read. No text has a secret in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodLogError {
    /// There is no such pod.
    #[error("the cluster has no pod {0}")]
    NotFound(String),
    /// There is no such container, it has not started, or nothing ran in it before.
    #[error("there is no log: {0}")]
    NoLog(String),
    /// The service may not read logs.
    #[error("{0}; grant `get` on pods/log")]
    Forbidden(String),
    /// The cluster cannot be reached, or the connection broke.
    #[error("{0}")]
    Unavailable(String),
    /// Nothing came for so long, not even the end of the log.
    #[error("nothing came for {} seconds; ask again", .0.as_secs())]
    Idle(Duration),
}

/// Reads the last lines of a container's log, or of the container that ran before it (`previous`). A pod with one
/// container needs no name of it.
///
/// # Errors
/// [`PodLogError`], at the latest after five seconds.
pub async fn tail(
    connection: &ClusterConnection,
    namespace: &str,
    pod: &str,
    container: Option<&str>,
    previous: bool,
    lines: usize,
) -> Result<LogTail, PodLogError> {
    let source = LogSource::new(namespace, pod, container)?;
    let tail = tokio::time::timeout(TAIL_DEADLINE, read_tail(connection, &source, previous, lines));
    tail.await.unwrap_or_else(|_elapsed| {
        let seconds = TAIL_DEADLINE.as_secs();
        Err(PodLogError::Unavailable(format!("the log did not come within {seconds} seconds")))
    })
}

/// Reads the end of the log of a container that fails, or of the run before where the present one has said nothing yet.
///
/// # Errors
/// [`PodLogError`], at the latest after ten seconds.
pub async fn failure_tail(
    connection: &ClusterConnection,
    namespace: &str,
    pod: &str,
    container: Option<&str>,
) -> Result<LogTail, PodLogError> {
    let present = tail(connection, namespace, pod, container, false, LOG_LINES).await;
    if present.as_ref().is_ok_and(|tail| !tail.lines().is_empty()) {
        return present;
    }
    match tail(connection, namespace, pod, container, true, LOG_LINES).await {
        // Nothing ran before.
        Err(PodLogError::NoLog(_)) => present,
        previous => previous,
    }
}

/// The server cuts an answer at its end, which is the part that counts: then fewer lines are asked for.
async fn read_tail(
    connection: &ClusterConnection,
    source: &LogSource,
    previous: bool,
    lines: usize,
) -> Result<LogTail, PodLogError> {
    let mut count = lines.saturating_add(MASKED_LINES);
    loop {
        let params = LogParams {
            previous,
            limit_bytes: i64::try_from(MAX_TAIL).ok(),
            ..source.params(count)
        };
        let (_, body) = source.open(connection, &params).await?;
        let body = read_bounded(body, MAX_TAIL).await;
        let body = body.map_err(|error| PodLogError::Unavailable(describe(&error)))?;
        if body.bytes.len() < MAX_TAIL || count <= 1 {
            return Ok(LogTail::of_lines(&String::from_utf8_lossy(&body.bytes), lines));
        }
        count /= 2;
    }
}

/// The part of a container's log that is read line by line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// The number of last lines with which it begins.
    pub lines: usize,
    /// The container that ran before is meant.
    pub previous: bool,
    /// It goes on until the container ends.
    pub follow: bool,
}

/// Opens a part of a container's log, to be read line by line until its end, or until no byte came for `idle`.
///
/// # Errors
/// [`PodLogError`]
pub async fn open(
    connection: &ClusterConnection,
    namespace: &str,
    pod: &str,
    container: Option<&str>,
    range: LogRange,
    idle: Duration,
) -> Result<LogLines, PodLogError> {
    let source = LogSource::new(namespace, pod, container)?;
    let LogRange { lines, previous, follow } = range;
    let params = LogParams { follow, previous, ..source.params(lines) };
    let client = source.client(connection).await?;
    let request = FollowRequest { client: client.clone(), source: source.clone(), params };
    let mut opening = request.open().boxed();
    let body = match tokio::time::timeout(HEAD_WAIT, &mut opening).await {
        Ok(Ok(body)) => LogBody::Open(body),
        Ok(Err(error)) => return Err(source.error(connection, &client, error)),
        Err(_elapsed) => LogBody::Opening(opening),
    };
    let idle_until = Instant::now() + idle;
    let lines = LineBuffer::default();
    Ok(LogLines { source, body, idle, idle_until, lines, is_done: false })
}

/// The lines of a log as they come. The connection ends when this is dropped.
pub struct LogLines {
    source: LogSource,
    body: LogBody,
    idle: Duration,
    /// The log is given up then, unless bytes come. It stays where a wait is given up and begun again.
    idle_until: Instant,
    lines: LineBuffer,
    is_done: bool,
}

/// The answer with a log.
enum LogBody {
    /// The server has sent no head so far.
    Opening(BoxFuture<'static, Result<Body, RequestError>>),
    Open(Body),
}

struct FollowRequest {
    client: ClusterClient,
    source: LogSource,
    params: LogParams,
}

impl LogLines {
    /// Waits for the next line; `None` after the last one, and after an error. A caller that stops to wait loses none.
    pub async fn next(&mut self) -> Option<Result<String, PodLogError>> {
        loop {
            if let Some(line) = self.lines.take() {
                return Some(Ok(line));
            }
            if self.is_done {
                return self.lines.take_rest().map(Ok);
            }
            match tokio::time::timeout_at(self.idle_until, self.read()).await {
                Ok(Ok(true)) => self.idle_until = Instant::now() + self.idle,
                Ok(Ok(false)) => self.is_done = true,
                Ok(Err(error)) => return self.fail(error),
                Err(_elapsed) => return self.fail(PodLogError::Idle(self.idle)),
            }
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is the last item")]
    fn fail(&mut self, error: PodLogError) -> Option<Result<String, PodLogError>> {
        self.is_done = true;
        self.lines = LineBuffer::default();
        Some(Err(error))
    }

    /// Reads some bytes; false at the end of the log.
    async fn read(&mut self) -> Result<bool, PodLogError> {
        let body = match &mut self.body {
            LogBody::Open(body) => body,
            LogBody::Opening(opening) => {
                let body = opening.await.map_err(|error| self.source.explain(error))?;
                self.body = LogBody::Open(body);
                return Ok(true);
            }
        };
        match body.frame().await {
            None => Ok(false),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.lines.push(&data);
                }
                Ok(true)
            }
            Some(Err(error)) => Err(PodLogError::Unavailable(describe(&error))),
        }
    }
}

impl FollowRequest {
    /// Asks until the server sends the head of an answer.
    async fn open(self) -> Result<Body, RequestError> {
        loop {
            match self.source.send(&self.client, &self.params).await {
                Err(RequestError::Timeout(_)) => {}
                result => return result,
            }
        }
    }
}

/// A container of a pod.
#[derive(Debug, Clone)]
struct LogSource {
    namespace: String,
    pod: String,
    container: Option<String>,
}

impl LogSource {
    /// Checks the names, which become a part of an address.
    fn new(namespace: &str, pod: &str, container: Option<&str>) -> Result<Self, PodLogError> {
        if !is_object_name(namespace) || !is_object_name(pod) {
            return Err(PodLogError::NotFound("of that name".to_owned()));
        }
        let container = container.map(str::to_owned);
        Ok(Self { namespace: namespace.to_owned(), pod: pod.to_owned(), container })
    }

    fn params(&self, lines: usize) -> LogParams {
        LogParams {
            container: self.container.clone(),
            tail_lines: Some(i64::try_from(lines).unwrap_or(i64::MAX)),
            ..LogParams::default()
        }
    }

    async fn open(
        &self,
        connection: &ClusterConnection,
        params: &LogParams,
    ) -> Result<(ClusterClient, Body), PodLogError> {
        let client = self.client(connection).await?;
        match self.send(&client, params).await {
            Ok(body) => Ok((client, body)),
            Err(error) => Err(self.error(connection, &client, error)),
        }
    }

    async fn client(&self, connection: &ClusterConnection) -> Result<ClusterClient, PodLogError> {
        let client = connection.client().await;
        client.map_err(|error| PodLogError::Unavailable(error.to_string()))
    }

    async fn send(&self, client: &ClusterClient, params: &LogParams) -> Result<Body, RequestError> {
        let request = self.request(params)?;
        Ok(send(&client.client, request).await?.into_body())
    }

    fn request(&self, params: &LogParams) -> Result<Request<Vec<u8>>, RequestError> {
        let pods = kube::core::Request::new(format!("/api/v1/namespaces/{}/pods", self.namespace));
        let request = pods.logs(&self.pod, params);
        request.map_err(|error| RequestError::NoAnswer(error.to_string()))
    }

    /// Explains an error, and reports credentials that are refused.
    fn error(
        &self,
        connection: &ClusterConnection,
        client: &ClusterClient,
        error: RequestError,
    ) -> PodLogError {
        if matches!(error, RequestError::Refused(ServerRefusal { code: 401, .. })) {
            connection.report_refusal(client);
        }
        self.explain(error)
    }

    fn explain(&self, error: RequestError) -> PodLogError {
        match error {
            RequestError::Refused(ServerRefusal { code, message, .. }) => match code {
                400 => PodLogError::NoLog(message),
                401 => PodLogError::Unavailable(UNAUTHORIZED.to_owned()),
                403 => PodLogError::Forbidden(message),
                404 => PodLogError::NotFound(format!("{}/{}", self.namespace, self.pod)),
                _ => PodLogError::Unavailable(message),
            },
            RequestError::Timeout(reason) | RequestError::NoAnswer(reason) => {
                PodLogError::Unavailable(reason)
            }
        }
    }
}

/// Returns true for a name that an object of Kubernetes can have (RFC 1123): no other one is put into an address.
pub(in crate::cluster) fn is_object_name(name: &str) -> bool {
    const LONGEST: usize = 253;
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    name.len() <= LONGEST
        && is_end(name.chars().next())
        && is_end(name.chars().next_back())
        && name.chars().all(is_inner)
}

/// Bytes of a log that become lines.
#[derive(Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// The number of bytes that were taken. They stay until the next push: a move for each line would take a time that
    /// grows with the square of the bytes.
    taken: usize,
    /// The number of bytes that were taken, or have no end of line.
    searched: usize,
    /// True while the rest of a line that is too long is left out.
    is_skipping: bool,
    mask: LogMask,
}

impl LineBuffer {
    fn push(&mut self, data: &[u8]) {
        self.bytes.drain(..self.taken);
        self.searched = self.searched.saturating_sub(std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(data);
    }

    /// Takes the next whole line, or the beginning of one that is too long.
    fn take(&mut self) -> Option<String> {
        loop {
            let rest = self.bytes.get(self.searched..).unwrap_or_default();
            let Some(at) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                return self.take_long();
            };
            let line = self.take_bytes(self.searched + at + 1);
            if !std::mem::take(&mut self.is_skipping) {
                return Some(self.show(&line));
            }
        }
    }

    /// Takes the bytes up to that end.
    fn take_bytes(&mut self, end: usize) -> Vec<u8> {
        let line = self.bytes.get(self.taken..end).unwrap_or_default().to_vec();
        (self.taken, self.searched) = (end, end);
        line
    }

    fn take_long(&mut self) -> Option<String> {
        if self.bytes.len() - self.taken <= MAX_LINE {
            return None;
        }
        let line = self.take_bytes(self.bytes.len());
        (!std::mem::replace(&mut self.is_skipping, true)).then(|| self.show(&line))
    }

    /// Takes a last line without an end.
    fn take_rest(&mut self) -> Option<String> {
        let line = self.take_bytes(self.bytes.len());
        (!line.is_empty() && !self.is_skipping).then(|| self.show(&line))
    }

    /// Shows what a terminal would: of a progress bar its last state.
    fn show(&mut self, line: &[u8]) -> String {
        let line = line.get(..line.len().min(MAX_LINE)).unwrap_or_default();
        let clean = remove_controls(&String::from_utf8_lossy(line));
        let masked = clean.lines().map(|part| self.mask.mask_line(part)).last();
        truncate_chars(&masked.unwrap_or_default(), MAX_LINE_CHARS).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            buffer.push(chunk);
            while let Some(line) = buffer.take() {
                lines.push(line);
            }
        }
        lines.extend(buffer.take_rest());
        lines
    }

    #[test]
    fn lines_come_whole_however_the_bytes_are_cut() {
        let text = "one\r\n\ntwo ä\x1b[31m!\x1b[0m\n10%\r20%\nlast".as_bytes();
        let expected = ["one", "", "two ä!", "20%", "last"];
        for size in [1, 2, 3, 7, text.len()] {
            assert_eq!(lines(&text.chunks(size).collect::<Vec<_>>()), expected, "{size}");
        }
        assert_eq!(lines(&[b"\xff\xfe\n"]), ["\u{fffd}\u{fffd}"]);
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_its_rest_is_left_out() {
        let long = "x".repeat(30_000);
        let chunks: Vec<&[u8]> = (0..20).map(|_| long.as_bytes()).collect();
        let all = lines(&[&chunks[..], &[b"rest\nnext\n"]].concat());
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].chars().count(), all[1].as_str()), (MAX_LINE_CHARS, "next"));
        assert_eq!(lines(&chunks).len(), 1);
        let one = format!("{}\nnext\n", "x".repeat(1_000_000));
        assert_eq!(lines(&[one.as_bytes()]).len(), 2);
    }

    #[test]
    fn no_byte_moves_for_a_line_that_is_taken() {
        let mut buffer = LineBuffer::default();
        buffer.push(&b"\n".repeat(400_000));
        let mut lines = 0;
        while buffer.take().is_some() {
            lines += 1;
            // A move for each line would take minutes for an answer of a megabyte.
            assert_eq!((buffer.bytes.len(), buffer.taken), (400_000, lines));
        }
        assert_eq!(lines, 400_000);
        buffer.push(b"end");
        assert_eq!((buffer.bytes.len(), buffer.take_rest()), (3, Some("end".to_owned())));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_put_into_no_address() {
        for bad in ["", ".", "..", "a/../../secrets", "a?x=y", "a%2f", "-a", "a-", "ä", "a b"] {
            assert!(LogSource::new(bad, "a", None).is_err(), "{bad:?}");
            assert!(LogSource::new("a", bad, None).is_err(), "{bad:?}");
        }
        assert!(LogSource::new("a", &"a".repeat(254), None).is_err());
        let source = LogSource::new("devx", "web-1.a", Some("a&b=c")).unwrap();
        let request = source.request(&source.params(3)).unwrap();
        let expected = "/api/v1/namespaces/devx/pods/web-1.a/log?&container=a%26b%3Dc&tailLines=3";
        assert_eq!(request.uri(), expected);
    }
}
