//! Listening, and stopping within a bound.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a cut request may be worth a line in the log"]
pub enum Stopped {
    /// Every request was answered.
    Clean,
    /// Some were still open after the grace.
    Cut,
}

/// Answers until `stop` is cancelled, then finishes open requests for at most `grace`.
///
/// # Errors
/// What the listener says, when it cannot be listened to any more.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    grace: Duration,
) -> std::io::Result<Stopped> {
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    let graceful =
        axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    let serving = std::pin::pin!(graceful.into_future());
    let bound = async {
        stop.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        ended = serving => ended.map(|()| Stopped::Clean),
        () = bound => Ok(Stopped::Cut),
    }
}
