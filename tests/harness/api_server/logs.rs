//! Logs of containers, as a kubelet serves them: the last lines first, cut at the end, and followed if that is asked.

use std::io;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse as _, Response};
use futures::stream;

use super::Shared;
use super::http::{Query, missing, status};
use super::state::World;

type Key = (String, String, String);

pub(super) fn answer(
    world: &mut World,
    shared: &Shared,
    namespace: &str,
    pod: &str,
    query: &Query,
) -> Response {
    let is_previous = query.get("previous") == Some("true");
    let logs = if is_previous { &world.previous_logs } else { &world.logs };
    let of_pod = |(one, of, _): &&Key| one == namespace && of == pod;
    let container = match query.get("container") {
        Some(container) => container.to_owned(),
        None => world.logs.keys().find(of_pod).map(|key| key.2.clone()).unwrap_or_default(),
    };
    if !world.logs.keys().any(|key| of_pod(&key)) {
        return missing("pods", pod);
    }
    let key = (namespace.to_owned(), pod.to_owned(), container);
    let Some(text) = logs.get(&key) else {
        let what = if is_previous { "previous terminated container" } else { "container" };
        let message = format!("{what} {:?} in pod {pod:?} not found", key.2);
        return status(400, "BadRequest", &message);
    };
    let number = |name: &str| query.get(name).and_then(|number| number.parse::<usize>().ok());
    let begin = number("tailLines").map_or(0, |lines| start_of(text, lines));
    if query.get("follow") == Some("true") {
        world.log_readers += 1;
        let follower = Follower {
            shared: shared.clone(),
            key,
            sent: begin,
            epoch: world.epoch,
            is_cut: false,
        };
        return Body::from_stream(stream::unfold(follower, next)).into_response();
    }
    let end = number("limitBytes").map_or(text.len(), |limit| text.len().min(begin + limit));
    text.as_bytes()[begin..end].to_vec().into_response()
}

/// Where the last lines begin.
fn start_of(text: &str, lines: usize) -> usize {
    let ends = text.trim_end_matches('\n').rmatch_indices('\n').map(|(at, _)| at + 1);
    match lines {
        0 => text.len(),
        lines => { ends }.nth(lines - 1).unwrap_or(0),
    }
}

struct Follower {
    shared: Shared,
    key: Key,
    sent: usize,
    epoch: u64,
    is_cut: bool,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.lock().log_readers -= 1;
    }
}

/// What was appended; the end, when the log is taken away; an error, when watches are cut.
async fn next(mut follower: Follower) -> Option<(io::Result<Bytes>, Follower)> {
    loop {
        let mut changed = follower.shared.changed.subscribe();
        let (news, epoch) = {
            let world = follower.shared.lock();
            let text = world.logs.get(&follower.key)?;
            (text.as_bytes()[follower.sent..].to_vec(), world.epoch)
        };
        if follower.is_cut {
            return None;
        }
        if epoch != follower.epoch {
            follower.is_cut = true;
            return Some((Err(io::Error::other("cut")), follower));
        }
        if !news.is_empty() {
            follower.sent += news.len();
            return Some((Ok(news.into()), follower));
        }
        let _closed = changed.changed().await;
    }
}
