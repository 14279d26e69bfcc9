//! The body of a watch, and bodies that are slow or break off.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::{StreamExt as _, stream};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::Shared;
use super::selectors::Selector;
use super::state::{Change, Resource, World};

/// What is watched, and for how long.
pub(super) struct WatchQuery {
    pub(super) resource: Resource,
    pub(super) selector: Selector,
    /// 0: the objects that are there come first.
    pub(super) from: u64,
    pub(super) timeout: Duration,
    pub(super) bookmarks: bool,
    /// The only line, where that version is forgotten.
    pub(super) gone: Option<Json>,
}

struct OpenWatch {
    shared: Shared,
    query: WatchQuery,
    /// Everything up to this version was told.
    told: u64,
    epoch: u64,
    waiting: VecDeque<Json>,
    ends: Instant,
    ended: bool,
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.shared.lock().open_watches -= 1;
    }
}

pub(super) fn events(shared: Shared, mut query: WatchQuery, world: &mut World) -> Body {
    let mut waiting: VecDeque<Json> = VecDeque::new();
    let ended = query.gone.is_some();
    waiting.extend(query.gone.take());
    let mut told = query.from;
    if query.from == 0 {
        told = world.version;
        let present = world.objects_of(query.resource.kind);
        let present = present.filter(|object| query.selector.matches(object));
        waiting.extend(present.map(|object| json!({"type": "ADDED", "object": object})));
    }
    let ends = Instant::now() + query.timeout;
    let open = OpenWatch { shared, query, told, epoch: world.epoch, waiting, ends, ended };
    world.open_watches += 1;
    Body::from_stream(stream::unfold(open, next))
}

async fn next(mut open: OpenWatch) -> Option<(io::Result<Bytes>, OpenWatch)> {
    loop {
        if let Some(line) = open.waiting.pop_front() {
            return Some((Ok(Bytes::from(format!("{line}\n"))), open));
        }
        if open.ended {
            return None;
        }
        let mut changed = open.shared.changed.subscribe();
        if open.look() {
            open.ended = true;
            return Some((Err(io::Error::other("cut")), open));
        }
        if !open.waiting.is_empty() {
            continue;
        }
        let every = open.shared.lock().bookmark_every.filter(|_| open.query.bookmarks);
        let bookmark = async {
            match every {
                Some(every) => tokio::time::sleep(every).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep_until(open.ends) => return None,
            () = bookmark => open.bookmark(),
        }
    }
}

impl OpenWatch {
    /// Finds what happened since; whether the watch is cut.
    fn look(&mut self) -> bool {
        let world = self.shared.lock();
        // They are in the order of their versions.
        let first = world.changes.partition_point(|change| change.version <= self.told);
        let news = world.changes.iter().skip(first);
        let news = news.filter(|change| change.kind == self.query.resource.kind);
        let selector = &self.query.selector;
        self.waiting.extend(news.filter_map(|change| event(change, selector)));
        self.told = world.version;
        world.epoch != self.epoch
    }

    fn bookmark(&mut self) {
        let metadata = json!({"resourceVersion": self.told.to_string(), "creationTimestamp": null});
        let object = json!({
            "kind": self.query.resource.kind, "apiVersion": self.query.resource.api_version(), "metadata": metadata,
        });
        self.waiting.push_back(json!({"type": "BOOKMARK", "object": object}));
    }
}

/// As a watch with that selector sees it: what it does not select any more is gone.
fn event(change: &Change, selector: &Selector) -> Option<Json> {
    let selected = |object: &Option<Json>| object.clone().filter(|object| selector.matches(object));
    let (kind, mut object) = match (selected(&change.before), selected(&change.after)) {
        (None, None) => return None,
        (None, Some(after)) => ("ADDED", after),
        (Some(_), Some(after)) => ("MODIFIED", after),
        (Some(before), None) => ("DELETED", before),
    };
    object["metadata"]["resourceVersion"] = json!(change.version.to_string());
    Some(json!({"type": kind, "object": object}))
}

/// The body, a byte at a time.
pub(super) fn slow(answer: Response, pause: Duration) -> Response {
    answer.map(|body| {
        let bytes = body.into_data_stream().flat_map(|chunk| {
            stream::iter(chunk.unwrap_or_default().into_iter().map(|byte| Bytes::from(vec![byte])))
        });
        Body::from_stream(bytes.then(move |byte| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, io::Error>(byte)
        }))
    })
}

/// The body, up to that many bytes; then the connection breaks.
pub(super) fn cut(answer: Response, bytes: usize) -> Response {
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove("content-length");
    let begun = stream::unfold((body.into_data_stream(), bytes), |(mut body, left)| async move {
        if left == 0 {
            // What was sent before is on its way by then.
            tokio::time::sleep(Duration::from_millis(10)).await;
            return Some((Err(io::Error::other("cut")), (body, 0)));
        }
        let chunk = body.next().await?.unwrap_or_default();
        let chunk = chunk.slice(..chunk.len().min(left));
        let left = left - chunk.len();
        Some((Ok(chunk), (body, left)))
    });
    Response::from_parts(parts, Body::from_stream(begun))
}
