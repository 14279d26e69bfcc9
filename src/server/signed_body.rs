//! Reads the body of a signed request: within limits, and verified while it arrives.

use std::time::Duration;

use axum::body::Body;
use axum::http::Extensions;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use futures::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use crate::forge::github::webhook::signature::{BadSignature, Verifier};
use crate::server::auth::subscriber;
use crate::server::body_budget::HeldBody;
use crate::server::connections::{Connection, ConnectionPhase};
use crate::server::deliveries::WebhookOutcome;
use crate::server::limits::ServerLimits;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;

/// The longest time in which a sender may be slower than [`PACE`].
const SLOW_FOR: Duration = Duration::from_secs(4);
/// The slowest accepted speed of a sender, in bytes a second.
const PACE: u64 = 16 * 1024;

/// Returns the raw body of a valid signature; an empty one if it is not needed.
pub(super) async fn read_signed(
    shared: &Shared,
    parts: &Parts,
    body: Body,
    mut verifier: Verifier,
    keep: bool,
) -> Result<HeldBody, Problem> {
    let limits = shared.state.limits;
    let length = parts.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length > ServerLimits::LARGEST_BODY) {
        return Err(too_large(limits.body_bytes));
    }
    enter(&parts.extensions, ConnectionPhase::Reading);
    // The client whose share of the readers' places is used.
    let origin = shared.state.auth.client_ip(&parts.extensions, &parts.headers);
    let address = origin.map_or_else(String::new, subscriber);
    let not_read = |problem| {
        shared.count(WebhookOutcome::NotRead);
        problem
    };
    let mut reader = shared.bodies.enter(&address).await.map_err(not_read)?;
    let (since, mut received) = (Instant::now(), 0_usize);
    let mut chunks = body.into_data_stream();
    loop {
        let until = too_slow_at(since, received, limits.body_timeout);
        let chunk = tokio::select! {
            problem = reader.evicted() => return Err(not_read(problem)),
            chunk = timeout_at(until, chunks.next()) => chunk,
        };
        let Some(chunk) = chunk.map_err(|_| not_read(too_slow(since, received)))? else { break };
        let chunk =
            chunk.map_err(|_| Problem::new(ProblemKind::BadRequest, "the body is incomplete"))?;
        received = received.saturating_add(chunk.len());
        if received > ServerLimits::LARGEST_BODY {
            break;
        }
        // A body that is too large is still read to its end and dropped: closing the connection while a sender sends
        // would take the answer away from it.
        if received > limits.body_bytes {
            reader.forget();
        } else {
            verifier.update(&chunk);
            if keep {
                reader.keep(&chunk, limits.body_bytes).await.map_err(not_read)?;
            }
        }
        reader.progress(received);
    }
    if received > limits.body_bytes {
        return Err(too_large(limits.body_bytes));
    }
    verifier.finish().map_err(|error| bad_signature(shared, error))?;
    enter(&parts.extensions, ConnectionPhase::Working);
    Ok(reader.finish())
}

/// Sets the phase of the connection, which is absent in tests without a socket.
fn enter(extensions: &Extensions, phase: ConnectionPhase) {
    if let Some(connection) = extensions.get::<Connection>() {
        connection.enter(phase);
    }
}

/// Returns the time at which a sender of so many bytes is too slow.
fn too_slow_at(since: Instant, received: usize, total: Duration) -> Instant {
    let received = u64::try_from(received).unwrap_or(u64::MAX);
    let earned = Duration::from_millis(received.saturating_mul(1000) / PACE);
    since + total.min(SLOW_FOR.saturating_add(earned))
}

fn too_slow(since: Instant, received: usize) -> Problem {
    let detail = format!(
        "the body arrived too slowly: {received} bytes of it within {} ms",
        since.elapsed().as_millis()
    );
    Problem::new(ProblemKind::SlowBody, detail)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(ProblemKind::TooLarge, format!("the body is larger than {limit} bytes"))
}

/// Makes the problem of a wrong signature, and counts it.
pub(super) fn bad_signature(shared: &Shared, error: BadSignature) -> Problem {
    tracing::warn!(%error, "webhook refused");
    shared.count(WebhookOutcome::Unsigned);
    Problem::new(ProblemKind::BadSignature, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_come_at_some_pace_and_end_in_time() {
        let since = Instant::now();
        let seconds = |received: usize, total| {
            too_slow_at(since, received, Duration::from_secs(total)).duration_since(since).as_secs()
        };
        assert_eq!((seconds(0, 7), seconds(16 * 1024, 7), seconds(64 * 1024, 7)), (4, 5, 7));
        assert_eq!((seconds(usize::MAX, 7), seconds(0, 1)), (7, 1));
    }
}
