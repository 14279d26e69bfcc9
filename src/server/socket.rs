//! A client's socket: it closes for a client that reads nothing of its answer, and treats the first bytes after an
//! answer as the next request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::server::connections::{CloseReason, Connection, ConnectionPhase};

/// The bytes that a client must read to get another second.
const BYTES_PER_SECOND: u64 = 4096;

/// The progress of the connection's request, shared by its socket and its answer.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestProgress(Arc<AtomicU8>);

impl RequestProgress {
    /// A request is awaited, handled, or answered.
    const BUSY: u8 = 0;
    /// The answer has been handed over, and may be in a buffer.
    const ANSWERED: u8 = 1;
    /// The answer has been sent.
    const IDLE: u8 = 2;

    /// Records that a request has begun.
    pub(super) fn begin(&self) {
        self.0.store(Self::BUSY, Ordering::Relaxed);
    }

    /// Moves from one state to the next, if it is in that one.
    fn step(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// The byte stream of one connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    connection: Connection,
    progress: RequestProgress,
    timeout: Duration,
    /// The deadline of a client that did not read all that there was for it, which each byte puts off; `None` until a
    /// write has to wait, and after a flush.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(super) fn new(
        stream: TcpStream,
        connection: Connection,
        progress: RequestProgress,
        timeout: Duration,
    ) -> Self {
        Self { stream, connection, progress, timeout, stalled: None }
    }

    /// Returns the result of a write, or an error if the client takes too long.
    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => {
                if let Some(stalled) = &mut self.stalled {
                    let bytes = u64::try_from(*bytes).unwrap_or(u64::MAX);
                    let extension =
                        Duration::from_millis(bytes.saturating_mul(1000) / BYTES_PER_SECOND);
                    let deadline = stalled.deadline() + extension;
                    stalled.as_mut().reset(deadline);
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                let timeout = self.timeout;
                let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
                if stalled.as_mut().poll(context).is_ready() {
                    self.connection.count(CloseReason::WriteTimeout);
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        written
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let progress = Pin::new(&mut self.stream).poll_read(context, buffer);
        let has_data = buffer.filled().len() > before;
        if has_data && self.progress.step(RequestProgress::IDLE, RequestProgress::BUSY) {
            self.connection.enter(ConnectionPhase::Head);
        }
        progress
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Flushes the socket, which happens only when everything is written: the next bytes have a new deadline.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stalled = None;
        if self.progress.step(RequestProgress::ANSWERED, RequestProgress::IDLE) {
            self.connection.enter(ConnectionPhase::Idle);
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The body of an answer; when it is dropped, all of it has been handed over.
#[derive(Debug)]
pub(super) struct AnswerBody {
    body: Body,
    progress: RequestProgress,
}

/// Returns the answer with a body that reports when it has been sent.
pub(super) fn follow_answer(
    answer: Response<Body>,
    connection: &Connection,
    progress: RequestProgress,
) -> Response<AnswerBody> {
    let kind = answer.headers().get(CONTENT_TYPE);
    let stays_open = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let bytes = answer.body().size_hint().lower();
    connection.enter(if stays_open {
        ConnectionPhase::Streaming
    } else {
        ConnectionPhase::Answering(usize::try_from(bytes).unwrap_or(usize::MAX))
    });
    answer.map(|body| AnswerBody { body, progress })
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.progress.step(RequestProgress::BUSY, RequestProgress::ANSWERED);
    }
}
