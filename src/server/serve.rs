//! Listens, speaks HTTP/1.1 on every connection, and stops within a time limit.
//!
//! There is no HTTP/2: one connection would carry many requests, and no proxy needs it without TLS.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::connections::{ConnectionPhase, ConnectionSlot, Connections};
use crate::server::socket::{RequestProgress, Socket, follow_answer};

/// The kernel's buffer of each connection in each direction, in bytes; it counts as the service's memory.
const KERNEL_BUFFER: u32 = 64 * 1024;
/// The number of connections that wait to be accepted.
const BACKLOG: u32 = 4096;
/// The largest head of a request, in bytes; GitHub's has some 700.
const LARGEST_HEAD: usize = 16 * 1024;
/// The largest number of headers of a request; GitHub's has some 20.
const MAX_HEADERS: usize = 100;
/// The time between two checks for silent connections.
const INTERVAL: Duration = Duration::from_millis(100);
/// The pause before the next try to find a place for a new connection.
const FULL: Duration = Duration::from_millis(5);
/// The pause in accepting when the machine has no more connections.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// The way the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a cut request may be worth a line in the log"]
pub enum ShutdownResult {
    /// Every request was answered.
    Clean,
    /// Some requests were still open after the grace time.
    Cut,
}

/// Listens on the address.
///
/// # Errors
/// The error of the system.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Connections inherit the buffers.
    socket.set_recv_buffer_size(KERNEL_BUFFER)?;
    socket.set_send_buffer_size(KERNEL_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Answers until `stop` is cancelled, then finishes open requests for at most `grace`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Connections,
    stop: CancellationToken,
    grace: Duration,
) -> ShutdownResult {
    let tasks = TaskTracker::new();
    let mut timer = interval(INTERVAL);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut exhausted = false;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            _ = timer.tick() => {
                connections.expire(Instant::now(), false);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                exhausted = false;
                let place = tokio::select! {
                    () = stop.cancelled() => break,
                    place = wait_for_place(&connections, peer) => place,
                };
                let client = Client { stream, peer, timeout: connections.limits().write_timeout };
                tasks.spawn(client.answer(router.clone(), place, stop.clone()));
            }
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                if !exhausted {
                    let open = connections.count_open();
                    tracing::error!(
                        %error,
                        open,
                        "no connection can be accepted: raise the limit on open files \
                         (LimitNOFILE), or lower limits.connections"
                    );
                }
                exhausted = true;
                connections.give_up_one(Instant::now());
                sleep(EXHAUSTED).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    let ending = async {
        loop {
            tokio::select! {
                () = tasks.wait() => return,
                _ = timer.tick() => connections.expire(Instant::now(), true),
            }
        }
    };
    if timeout(grace, ending).await.is_ok() {
        return ShutdownResult::Clean;
    }
    connections.close_all();
    ShutdownResult::Cut
}

/// Waits for a place for the connection; later ones wait in the kernel's queue.
async fn wait_for_place(connections: &Connections, peer: SocketAddr) -> ConnectionSlot {
    loop {
        let now = Instant::now();
        if let Some(place) = connections.admit(peer.ip(), now) {
            return place;
        }
        connections.expire(now, false);
        sleep(FULL).await;
    }
}

/// Returns whether the error is about one connection that was closed before it was accepted.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    let kinds = [ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted];
    kinds.contains(&error.kind())
}

/// One client's connection.
struct Client {
    stream: TcpStream,
    peer: SocketAddr,
    timeout: Duration,
}

impl Client {
    /// Answers one request after the other, until either side closes the connection.
    async fn answer(self, router: Router, place: ConnectionSlot, stop: CancellationToken) {
        let Self { stream, peer, timeout } = self;
        // Otherwise a small answer may wait for the client's acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let (connection, progress) = (place.connection(), RequestProgress::default());
        connection.enter(ConnectionPhase::Head);
        let socket = Socket::new(stream, connection.clone(), progress.clone(), timeout);
        let router = TowerToHyperService::new(router);
        let closing = connection.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (connection, progress) = (connection.clone(), progress.clone());
            progress.begin();
            connection.enter(ConnectionPhase::Working);
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(connection.clone());
            let answer = router.call(request);
            async move { Ok::<_, Infallible>(follow_answer(answer.await?, &connection, progress)) }
        });
        let mut http = http1::Builder::new();
        // Connections are timed by their phases, in one place.
        http.header_read_timeout(None::<Duration>)
            .max_buf_size(LARGEST_HEAD)
            .max_headers(MAX_HEADERS);
        let mut talking = pin!(http.serve_connection(TokioIo::new(socket), service));
        tokio::select! {
            _ = talking.as_mut() => return,
            () = closing.closed() => return,
            () = stop.cancelled() => talking.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = talking => {}
            () = closing.closed() => {}
        }
    }
}
