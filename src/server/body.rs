//! The body of a webhook: read within bounds, and verified while it comes.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use futures::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use crate::forge::github::webhook::signature::{self, BadSignature, Verifier};
use crate::server::auth::subscriber;
use crate::server::body_budget::HeldBody;
use crate::server::connections::{Connection, Phase};
use crate::server::deliveries::Delivery;
use crate::server::limits::Limits;
use crate::server::problem::{Kind, Problem};
use crate::server::state::{Shared, Webhook};

/// A sender that means well is slower than [`PACE`] for no longer than this.
const SLOW_FOR: Duration = Duration::from_secs(4);
/// The slowest sender that is listened to, in bytes a second.
const PACE: u64 = 16 * 1024;

/// What will tell whether the body is GitHub's.
pub(super) fn verifier(shared: &Shared, headers: &HeaderMap) -> Result<Verifier, Problem> {
    let Webhook { secret, previous, rules: _ } = &shared.state.webhook;
    let header = headers.get(signature::HEADER).and_then(|value| value.to_str().ok());
    let verifier = Verifier::begin(previous.iter().chain([secret]), header);
    verifier.map_err(|error| bad_signature(shared, error))
}

/// The raw body, once it is known to be GitHub's; nothing of it, where it is not to be kept.
pub(super) async fn signed(
    shared: &Shared,
    parts: &Parts,
    body: Body,
    mut verifier: Verifier,
    keep: bool,
) -> Result<HeldBody, Problem> {
    let limits = shared.state.limits;
    let length = parts.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length > Limits::LARGEST_BODY) {
        return Err(too_large(limits.body_bytes));
    }
    enter(&parts.extensions, Phase::Reading);
    // Whose share of the readers' places it takes.
    let origin = shared.state.auth.client_ip(&parts.extensions, &parts.headers);
    let address = origin.map_or_else(String::new, subscriber);
    let not_read = |problem| {
        shared.count(Delivery::NotRead);
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
        let chunk = chunk.map_err(|_| Problem::new(Kind::BadRequest, "the body broke off"))?;
        received = received.saturating_add(chunk.len());
        if received > Limits::LARGEST_BODY {
            break;
        }
        // One that is too large is read to its end nevertheless and forgotten: while a sender still
        // sends, closing the connection takes the answer away from it.
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
    enter(&parts.extensions, Phase::Working);
    Ok(reader.finish())
}

/// Absent where the server is asked without a socket, as tests do.
fn enter(extensions: &Extensions, phase: Phase) {
    if let Some(connection) = extensions.get::<Connection>() {
        connection.enter(phase);
    }
}

/// When a sender of whose body so much has come is too slow.
fn too_slow_at(since: Instant, received: usize, total: Duration) -> Instant {
    let received = u64::try_from(received).unwrap_or(u64::MAX);
    let earned = Duration::from_millis(received.saturating_mul(1000) / PACE);
    since + total.min(SLOW_FOR.saturating_add(earned))
}

fn too_slow(since: Instant, received: usize) -> Problem {
    let detail = format!(
        "the body came too slowly: {received} bytes of it within {} ms",
        since.elapsed().as_millis()
    );
    Problem::new(Kind::SlowBody, detail)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("the body is larger than {limit} bytes"))
}

fn bad_signature(shared: &Shared, error: BadSignature) -> Problem {
    tracing::warn!(%error, "webhook refused");
    shared.count(Delivery::Unsigned);
    Problem::new(Kind::BadSignature, error.to_string())
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
