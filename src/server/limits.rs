//! Limits concurrent work: requests by class, so that no class takes the place of another, and the streams of each
//! caller.
//!
//! `/healthz` and `/metrics` have no limit, since they wait for nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::server::problem::{Problem, ProblemKind};
use crate::support::sync::lock;

/// The longest wait of a signed webhook for a slot.
const WEBHOOKS_WAIT: Duration = Duration::from_secs(2);

/// The limits of the server.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// The largest body of a webhook, in bytes. GitHub sends at most 25 MiB.
    pub body_bytes: usize,
    /// The longest time for a body to arrive.
    pub body_timeout: Duration,
    /// The longest time for an answer. GitHub waits ten seconds.
    pub request_timeout: Duration,
    /// The number of signed webhooks that are handled at once; one more waits for a moment.
    pub webhooks: usize,
    /// The number of API requests that are handled at once; one more is refused.
    pub api: usize,
    /// The same for the pages.
    pub pages: usize,
    /// The same for `/readyz`.
    pub readiness: usize,
    /// The number of unverified webhook bodies that are read at once.
    pub readers: usize,
    /// The number of open event streams.
    pub streams: usize,
    /// The time after which a followed deployment is read again without a signal: another replica may have changed it.
    pub look: Duration,
    /// The longest time that a stream stays open; the client connects again.
    pub open_for: Duration,
    /// The number of open event streams of one caller.
    pub streams_of_one: usize,
    /// The number of open pages that change by themselves; one more loads itself again now and then.
    pub open_pages: usize,
    /// The same for one caller, who may be a token that many people share.
    pub open_pages_of_one: usize,
    /// The time after which an open page looks for changes without a signal.
    pub page_look: Duration,
}

impl ServerLimits {
    /// The largest body that GitHub sends, in bytes.
    pub const LARGEST_BODY: usize = 25 * 1024 * 1024;
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(7),
            request_timeout: Duration::from_secs(9),
            webhooks: 1024,
            api: 256,
            pages: 64,
            readiness: 32,
            readers: 1024,
            streams: 100,
            look: Duration::from_secs(1),
            open_for: Duration::from_hours(1),
            streams_of_one: 20,
            open_pages: 1_000,
            open_pages_of_one: 500,
            page_look: Duration::from_secs(2),
        }
    }
}

/// The class of a request, which decides the slots it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A webhook with a valid signature.
    Webhook,
    /// `/api`, without streams.
    Api,
    /// The pages.
    Page,
    /// `/readyz`.
    Readiness,
}

/// The slots of each class.
#[derive(Debug)]
pub(super) struct RequestSlots {
    webhooks: Arc<Semaphore>,
    api: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    readiness: Arc<Semaphore>,
}

impl RequestSlots {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let slots = |count| Arc::new(Semaphore::new(count));
        let ServerLimits { webhooks, api, pages, readiness, .. } = limits;
        Self {
            webhooks: slots(*webhooks),
            api: slots(*api),
            pages: slots(*pages),
            readiness: slots(*readiness),
        }
    }

    /// Takes a slot of that class; otherwise the caller is told to try again later.
    pub(super) async fn take(&self, class: Class) -> Result<OwnedSemaphorePermit, Problem> {
        let (slots, wait) = match class {
            Class::Webhook => (&self.webhooks, WEBHOOKS_WAIT),
            Class::Api => (&self.api, Duration::ZERO),
            Class::Page => (&self.pages, Duration::ZERO),
            Class::Readiness => (&self.readiness, Duration::ZERO),
        };
        if let Ok(Ok(slot)) = timeout(wait, slots.clone().acquire_owned()).await {
            return Ok(slot);
        }
        tracing::warn!(?class, "limit of concurrent requests reached");
        Err(Problem::new(ProblemKind::Overloaded, "the server is busy; try again later"))
    }
}

/// The memory for large bodies of API requests.
#[derive(Debug)]
pub(super) struct LargeBodies(Arc<Semaphore>);

impl LargeBodies {
    /// The largest body that needs no memory of these, in bytes.
    pub(super) const SMALL: usize = 64 * 1024;
    /// The KiB of all large bodies together.
    const TOTAL_KIB: usize = 64 * 1024;

    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(Self::TOTAL_KIB)))
    }

    /// Reserves memory for a body of at most `most` bytes, until the result is dropped; a body without a length may be as
    /// large as that.
    pub(super) fn reserve(
        &self,
        length: Option<usize>,
        most: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let bytes = length.unwrap_or(most).min(most);
        if bytes <= Self::SMALL {
            return Ok(None);
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        Arc::clone(&self.0).try_acquire_many_owned(kib).map(Some).map_err(|_| {
            let detail = "too many large requests are being handled at once; try again later";
            Problem::new(ProblemKind::Overloaded, detail).after(Duration::from_secs(1))
        })
    }
}

/// The counter of each caller's open streams; callers without streams take no memory.
#[derive(Debug, Default)]
pub(super) struct StreamLimit(Mutex<BTreeMap<String, Weak<()>>>);

impl StreamLimit {
    /// Opens one more stream of that caller, until the result is dropped; `None` if the caller has the most.
    pub(super) fn open(&self, account: String, most: usize) -> Option<Arc<()>> {
        let mut open = lock(&self.0);
        open.retain(|_, streams| streams.strong_count() > 0);
        let stream = open.get(&account).and_then(Weak::upgrade).unwrap_or_default();
        (Arc::strong_count(&stream) <= most).then(|| {
            open.insert(account, Arc::downgrade(&stream));
            stream
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_share_their_memory_and_small_ones_need_none() {
        const MIB: usize = 1024 * 1024;
        let bodies = LargeBodies::new();
        let mut held: Vec<_> = (0..21).map(|_| bodies.reserve(None, 3 * MIB).unwrap()).collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(bodies.reserve(None, 3 * MIB).unwrap_err().kind(), ProblemKind::Overloaded);
        held.push(bodies.reserve(Some(MIB), 3 * MIB).unwrap());
        assert!(bodies.reserve(Some(100 * 1024), 3 * MIB).is_err());
        // A small body, an act, and one that is refused for its length.
        assert!(bodies.reserve(Some(64 * 1024), 3 * MIB).unwrap().is_none());
        assert!(bodies.reserve(None, 64 * 1024).unwrap().is_none());
        assert!(bodies.reserve(Some(usize::MAX), 64 * 1024).unwrap().is_none());
        held.pop();
        assert!(bodies.reserve(Some(100 * 1024), 3 * MIB).unwrap().is_some());
    }

    #[test]
    fn each_caller_has_so_many_and_nothing_is_kept_of_who_has_none() {
        let open = StreamLimit::default();
        let alice = || open.open("alice".to_owned(), 2);
        let (first, second) = (alice().unwrap(), alice().unwrap());
        assert!(alice().is_none());
        assert!(open.open("bob".to_owned(), 2).is_some());
        drop(first);
        let third = alice().unwrap();
        assert!(alice().is_none());
        drop((second, third));
        assert!(open.open("carol".to_owned(), 0).is_none());
        assert!(lock(&open.0).is_empty());
    }
}
