//! Limits how many unverified bodies are read at once, and how much memory they hold.
//!
//! Every reader may hold [`FREE`] bytes, which is more than nearly all events have; beyond that all share one pool. If
//! there is no room, the reader that is furthest behind for its age gives way: a sender that sends its body at once is
//! finished before. Knows nothing of signatures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::server::limits::ServerLimits;
use crate::server::problem::{Problem, ProblemKind};

/// The bytes that every reader may hold: with [`ServerLimits::readers`] readers 32 MiB.
const FREE: usize = 32 * 1024;
/// The KiB that all readers together may hold beyond that; or two of the largest bodies.
const POOL: usize = 32 * 1024;
/// The smallest buffer, in bytes.
const SMALLEST: usize = 4096;
/// The time for which a reader does not give way.
const GRACE: Duration = Duration::from_millis(200);
/// The silence after which a reader gives its memory to one that needs it.
const STALLED: Duration = Duration::from_millis(500);
/// The longest wait for a place or for memory.
const WAIT: Duration = Duration::from_secs(1);
/// The speed of a normal sender, in bytes a millisecond.
const PACE: u128 = 64;

/// The readers and their memory.
#[derive(Debug)]
pub(super) struct BodyBudget {
    most: usize,
    readers: Mutex<Readers>,
    left: Notify,
    pool: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Readers {
    next: u64,
    reading: BTreeMap<u64, Reading>,
}

/// The progress of one reader.
#[derive(Debug)]
struct Reading {
    address: String,
    since: Instant,
    last: Instant,
    received: usize,
    pooled: bool,
    evicted: CancellationToken,
}

impl Reading {
    /// Returns how many bytes the reader is behind a normal sender.
    fn behind(&self, now: Instant) -> u128 {
        let expected = now.duration_since(self.since).as_millis() * PACE;
        expected.saturating_sub(self.received as u128)
    }
}

/// One body while it is read.
#[derive(Debug)]
pub(super) struct BodyReader {
    budget: Arc<BodyBudget>,
    id: u64,
    evicted: CancellationToken,
    body: HeldBody,
}

/// A body with its memory, which is free again when this is dropped.
#[derive(Debug, Default)]
pub(super) struct HeldBody {
    pub(super) bytes: Vec<u8>,
    pooled: Option<OwnedSemaphorePermit>,
}

impl BodyBudget {
    pub(super) fn new(limits: &ServerLimits) -> Self {
        let pool = POOL.max(2 * limits.body_bytes.div_ceil(1024));
        Self {
            most: limits.readers,
            readers: Mutex::default(),
            left: Notify::new(),
            pool: Arc::new(Semaphore::new(pool)),
        }
    }

    /// Takes a place for one more reader; another one may have to give way.
    pub(super) async fn enter(self: &Arc<Self>, address: &str) -> Result<BodyReader, Problem> {
        let until = Instant::now() + WAIT;
        loop {
            let now = Instant::now();
            let entered = self.lock().enter(address, self.most, now);
            if let Some((id, evicted)) = entered {
                let budget = Arc::clone(self);
                return Ok(BodyReader { budget, id, evicted, body: HeldBody::default() });
            }
            if now >= until {
                return Err(no_room(
                    "too many request bodies are being read at once; try again later",
                ));
            }
            let next = until.min(now + GRACE / 4);
            let _ = timeout_at(next, self.left.notified()).await;
        }
    }

    /// Takes so many KiB more of the pool; a reader that holds some of it and sends nothing gives way.
    async fn acquire(&self, kib: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let until = Instant::now() + WAIT;
        loop {
            let permit = timeout(GRACE, self.pool.clone().acquire_many_owned(kib)).await;
            if let Ok(Ok(permit)) = permit {
                return Ok(permit);
            }
            let now = Instant::now();
            if now >= until {
                return Err(no_room(
                    "too many large request bodies are being read at once; try again later",
                ));
            }
            self.lock().evict(
                |reading| reading.pooled && now.duration_since(reading.last) >= STALLED,
                now,
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_room(detail: &str) -> Problem {
    Problem::new(ProblemKind::Overloaded, detail).after(Duration::from_secs(1))
}

impl Readers {
    /// Takes a place; an address that has half of the places evicts only readers of its own.
    fn enter(
        &mut self,
        address: &str,
        most: usize,
        now: Instant,
    ) -> Option<(u64, CancellationToken)> {
        if self.reading.len() >= most {
            let count = self.reading.values().filter(|reading| reading.address == address).count();
            let has_its_share = count * 2 >= most;
            if !self.evict(|reading| !has_its_share || reading.address == address, now) {
                return None;
            }
        }
        let (id, evicted) = (self.next, CancellationToken::new());
        self.next += 1;
        self.reading.insert(
            id,
            Reading {
                address: address.to_owned(),
                since: now,
                last: now,
                received: 0,
                pooled: false,
                evicted: evicted.clone(),
            },
        );
        Some((id, evicted))
    }

    /// Evicts the reader that is furthest behind, of those that the filter allows.
    fn evict(&mut self, may_evict: impl Fn(&Reading) -> bool, now: Instant) -> bool {
        let is_old = |reading: &&Reading| now.duration_since(reading.since) >= GRACE;
        let candidates =
            self.reading.iter().filter(|(_, reading)| may_evict(reading) && is_old(reading));
        let worst = candidates.max_by_key(|(_, reading)| reading.behind(now)).map(|(id, _)| *id);
        let Some(worst) = worst.and_then(|id| self.reading.remove(&id)) else { return false };
        worst.evicted.cancel();
        true
    }
}

impl BodyReader {
    /// Waits until the reader has to give way to another.
    pub(super) async fn evicted(&self) -> Problem {
        self.evicted.cancelled().await;
        no_room("the body arrived slowly, and other requests needed its place; send it again")
    }

    /// Records how many bytes have arrived, whether they are kept or not.
    pub(super) fn progress(&self, received: usize) {
        if let Some(reading) = self.budget.lock().reading.get_mut(&self.id) {
            (reading.received, reading.last) = (received, Instant::now());
            reading.pooled = self.body.pooled.is_some();
        }
    }

    /// Keeps a chunk. Memory is taken as it is needed: an announced length costs its sender nothing.
    pub(super) async fn keep(&mut self, chunk: &[u8], most: usize) -> Result<(), Problem> {
        let HeldBody { bytes, pooled } = &mut self.body;
        let length = bytes.len() + chunk.len();
        if length > bytes.capacity() {
            let capacity = length.next_power_of_two().max(SMALLEST).min(most.max(length));
            let wanted_kib = capacity.saturating_sub(FREE).div_ceil(1024);
            let held_kib = pooled.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            if wanted_kib > held_kib {
                let permit = self.budget.acquire(wanted_kib - held_kib).await?;
                match pooled {
                    Some(pooled) => pooled.merge(permit),
                    None => *pooled = Some(permit),
                }
            }
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(chunk);
        Ok(())
    }

    /// Drops the kept bytes.
    pub(super) fn forget(&mut self) {
        self.body = HeldBody::default();
    }

    /// Returns the body, whose sender is known now, and frees the reader's place.
    pub(super) fn finish(mut self) -> HeldBody {
        std::mem::take(&mut self.body)
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        self.budget.lock().reading.remove(&self.id);
        self.budget.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that comes at that moment, whether it has a place.
    fn enters(
        readers: &mut Readers,
        address: &str,
        most: usize,
        now: Instant,
    ) -> Option<CancellationToken> {
        readers.enter(address, most, now).map(|(_, evicted)| evicted)
    }

    #[test]
    fn who_has_come_least_far_for_its_age_gives_way() {
        let (mut readers, now) = (Readers::default(), Instant::now());
        let (quick, evicted_quick) = readers.enter("a", 3, now).unwrap();
        let slow = enters(&mut readers, "a", 3, now).unwrap();
        readers.reading.get_mut(&quick).unwrap().received = 200_000;
        let later = now + Duration::from_secs(1);
        let young = enters(&mut readers, "b", 3, later).unwrap();
        let newcomer = enters(&mut readers, "c", 3, later).unwrap();
        assert!(slow.is_cancelled() && !evicted_quick.is_cancelled());
        assert!(!young.is_cancelled() && !newcomer.is_cancelled());
        assert_eq!(readers.reading.len(), 3);
    }

    #[test]
    fn an_address_with_half_of_the_places_takes_no_others() {
        let (mut readers, now) = (Readers::default(), Instant::now());
        let other = enters(&mut readers, "b", 4, now).unwrap();
        let at = |second| now + Duration::from_secs(second);
        let tokens: Vec<_> =
            (0..6).map(|second| enters(&mut readers, "a", 4, at(second)).unwrap()).collect();
        assert!(!other.is_cancelled(), "though it has sent nothing for longest");
        assert_eq!(tokens.iter().filter(|token| !token.is_cancelled()).count(), 3);
    }

    #[test]
    fn nobody_gives_way_who_has_only_begun() {
        let (mut readers, now) = (Readers::default(), Instant::now());
        let first = enters(&mut readers, "a", 1, now).unwrap();
        let soon = now + GRACE - Duration::from_millis(1);
        assert!(enters(&mut readers, "b", 1, soon).is_none() && !first.is_cancelled());
        assert!(enters(&mut readers, "b", 1, now + GRACE).is_some() && first.is_cancelled());
    }

    fn budget(readers: usize, body_bytes: usize) -> Arc<BodyBudget> {
        Arc::new(BodyBudget::new(&ServerLimits { body_bytes, readers, ..ServerLimits::default() }))
    }

    #[tokio::test]
    async fn a_place_that_is_left_is_taken() {
        let budget = budget(1, 1024);
        let first = budget.enter("a").await.unwrap();
        let second = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.enter("b").await.map(drop) }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(second.await.unwrap().is_ok());
        assert!(budget.lock().reading.is_empty());
    }

    #[tokio::test]
    async fn memory_is_taken_as_bodies_come_and_given_back_with_them() {
        let budget = budget(100, 1024 * 1024);
        let (megabyte, most) = (vec![b'x'; 1024 * 1024], 1024 * 1024);
        let full = budget.pool.available_permits();
        let mut bodies = Vec::new();
        // Of a megabyte so many KiB are more than what is free.
        while budget.pool.available_permits() >= 1024 - 32 {
            let mut reader = budget.enter("a").await.unwrap();
            reader.keep(&megabyte, most).await.unwrap();
            reader.progress(megabyte.len());
            bodies.push(reader);
        }
        let mut small = budget.enter("b").await.unwrap();
        small.keep(&vec![b'x'; FREE], most).await.unwrap();
        let mut large = budget.enter("b").await.unwrap();
        assert!(large.keep(&megabyte, most).await.is_err(), "who gave way has not gone yet");
        let before = bodies.len();
        bodies.retain(|reader| !reader.evicted.is_cancelled());
        assert!((1..before).contains(&(before - bodies.len())), "no more than it takes");
        large.keep(&megabyte, most).await.unwrap();
        drop((bodies, small));
        let body = large.finish();
        assert!(body.bytes.capacity() <= most && budget.lock().reading.is_empty());
        drop(body);
        assert_eq!(budget.pool.available_permits(), full);
    }
}
