//! Tracks the open connections, and closes one when there is no room for another.
//!
//! ```text
//! Accepted ─▶ Head ─▶ Working ─▶ Answering ─▶ Idle ─▶ Head …
//!                       │  ▲  └▶ Streaming
//!                       ▼  │
//!                      Reading     an unverified body
//! ```
//! A new connection is never refused: the one that has earned its place least is closed for it; if none can be closed,
//! the new one waits in the kernel's queue. Knows nothing of HTTP and sockets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::model::words::words;
use crate::server::auth::{Proxies, subscriber};
use crate::support::telemetry::export_zeros;

/// The time without a change of phase after which a connection has settled down, and gives way to new ones.
const SETTLED: Duration = Duration::from_secs(1);
/// The time in a phase up to which a connection does not give way at all: enough for a head that was sent at once, so
/// that each of many gets its turn.
const YOUNG: Duration = Duration::from_millis(100);
/// The bytes of answers that callers have not read yet, of all connections together. Beyond it the oldest settled
/// connection is closed.
const UNREAD_ANSWERS: usize = 32 * 1024 * 1024;
/// The time for half a request to become a whole one when the service stops.
const WHILE_STOPPING: Duration = SETTLED;

/// The limits of connections.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// The number of open connections.
    pub most: usize,
    /// The number of open connections of one client address; in IPv6, of one network of 64 bits.
    pub per_address: usize,
    /// The longest time for a request's head to arrive.
    pub header_timeout: Duration,
    /// The longest silence between two requests.
    pub idle_timeout: Duration,
    /// The longest time in which a client reads nothing of its answer.
    pub write_timeout: Duration,
    /// The proxies, whose connections belong to many clients and are not counted by address.
    pub proxies: Proxies,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            most: 2048,
            per_address: 1024,
            header_timeout: Duration::from_secs(10),
            // Longer than the minute for which proxies keep theirs.
            idle_timeout: Duration::from_secs(90),
            write_timeout: Duration::from_secs(10),
            proxies: Proxies::default(),
        }
    }
}

/// The Prometheus metrics of connections. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ConnectionMetrics {
    open: Gauge,
    closed: Family<ClosedLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClosedLabels {
    reason: &'static str,
}

impl ClosedLabels {
    fn of(reason: CloseReason) -> Self {
        Self { reason: reason.as_str() }
    }
}

impl ConnectionMetrics {
    /// Makes the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("connections", "Open connections", metrics.open.clone());
        let about = "Connections that the service closed, by reason";
        registry.register("connections_closed", about, metrics.closed.clone());
        export_zeros(&metrics.closed, CloseReason::ALL.map(ClosedLabels::of));
        metrics
    }
}

words! {
    /// The reason why the service closed a connection.
    pub enum CloseReason {
        /// The request's head did not arrive in time.
        HeaderTimeout = "header_timeout",
        /// No request came in time after the last one.
        IdleTimeout = "idle_timeout",
        /// The client did not read its answer.
        WriteTimeout = "write_timeout",
        /// Another connection needed the place.
        MadeRoom = "made_room",
    }
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// It was accepted, and its task has not begun.
    Accepted,
    /// It has sent nothing, or a part of a request's head.
    Head,
    /// An unverified body is being read.
    Reading,
    /// A request is being handled.
    Working,
    /// The client reads an answer of so many bytes.
    Answering(usize),
    /// The client reads an answer that stays open.
    Streaming,
    /// It waits between two requests.
    Idle,
}

impl ConnectionPhase {
    /// Returns how readily a connection gives way; `None` if it does not, as while its request is handled.
    fn gives_way(self, age: Duration) -> Option<u8> {
        match self {
            Self::Head if age >= SETTLED => Some(4),
            Self::Answering(_) if age >= SETTLED => Some(3),
            Self::Idle if age >= SETTLED => Some(2),
            Self::Reading if age >= SETTLED => Some(1),
            Self::Head | Self::Idle if age >= YOUNG => Some(0),
            Self::Accepted
            | Self::Head
            | Self::Idle
            | Self::Reading
            | Self::Answering(_)
            | Self::Working
            | Self::Streaming => None,
        }
    }
}

/// All open connections. Clones share them.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: ConnectionLimits,
    metrics: ConnectionMetrics,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
    by_address: BTreeMap<String, usize>,
    unread: usize,
}

#[derive(Debug)]
struct Entry {
    /// The client's address; `None` for a proxy.
    address: Option<String>,
    phase: ConnectionPhase,
    since: Instant,
    close: CancellationToken,
}

/// The place of one connection; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot(Connection);

/// One connection, for changes of its phase. Clones are of the same one.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    connections: Connections,
    id: u64,
    close: CancellationToken,
}

impl Connections {
    /// Makes an empty set of connections.
    pub fn new(limits: ConnectionLimits, metrics: ConnectionMetrics) -> Self {
        Self(Arc::new(Shared { limits, metrics, table: Mutex::default() }))
    }

    pub(super) fn limits(&self) -> &ConnectionLimits {
        &self.0.limits
    }

    /// Takes a place for a connection of that peer; another one may be closed for it, of the same address if that has
    /// too many. `None` while none can be closed.
    pub(super) fn admit(&self, peer: IpAddr, now: Instant) -> Option<ConnectionSlot> {
        let ConnectionLimits { most, per_address, proxies, .. } = self.limits();
        let address =
            (!proxies.contain(peer.to_canonical())).then(|| subscriber(peer.to_canonical()));
        let mut table = self.lock();
        let of_address =
            address.as_ref().and_then(|address| table.by_address.get(address)).copied();
        if of_address.is_some_and(|count| count >= *per_address) {
            self.make_room(&mut table, now, |entry| entry.address == address);
        }
        if table.open.len() >= *most && !self.make_room(&mut table, now, |_| true) {
            return None;
        }
        let close = CancellationToken::new();
        let id = table.add(Entry {
            address,
            phase: ConnectionPhase::Accepted,
            since: now,
            close: close.clone(),
        });
        drop(table);
        self.0.metrics.open.inc();
        Some(ConnectionSlot(Connection { connections: self.clone(), id, close }))
    }

    /// Closes the connection that has earned its place least.
    pub(super) fn give_up_one(&self, now: Instant) -> bool {
        let mut table = self.lock();
        self.make_room(&mut table, now, |_| true)
    }

    /// Closes the connections that have been silent for too long.
    pub(super) fn expire(&self, now: Instant, stopping: bool) {
        let limits = self.limits();
        let (head, idle) = if stopping {
            (WHILE_STOPPING, WHILE_STOPPING)
        } else {
            (limits.header_timeout, limits.idle_timeout)
        };
        let mut table = self.lock();
        let late = table.open.iter().filter_map(|(id, entry)| {
            let (limit, reason) = match entry.phase {
                ConnectionPhase::Head => (head, CloseReason::HeaderTimeout),
                ConnectionPhase::Idle => (idle, CloseReason::IdleTimeout),
                ConnectionPhase::Accepted
                | ConnectionPhase::Reading
                | ConnectionPhase::Working
                | ConnectionPhase::Answering(_)
                | ConnectionPhase::Streaming => return None,
            };
            (now.duration_since(entry.since) >= limit).then_some((*id, reason))
        });
        for (id, reason) in late.collect::<Vec<_>>() {
            table.close(id);
            self.count(reason);
        }
    }

    /// Counts the open connections.
    pub(super) fn count_open(&self) -> usize {
        self.lock().open.len()
    }

    /// Closes all connections.
    pub(super) fn close_all(&self) {
        let mut table = self.lock();
        for id in table.open.keys().copied().collect::<Vec<_>>() {
            table.close(id);
        }
    }

    fn make_room(
        &self,
        table: &mut Table,
        now: Instant,
        may_close: impl Fn(&Entry) -> bool,
    ) -> bool {
        let ranked =
            table.open.iter().filter(|(_, entry)| may_close(entry)).filter_map(|(id, entry)| {
                let age = now.duration_since(entry.since);
                Some(((entry.phase.gives_way(age)?, age), *id))
            });
        let Some((_, id)) = ranked.max_by_key(|(rank, _)| *rank) else { return false };
        table.close(id);
        self.count(CloseReason::MadeRoom);
        true
    }

    fn enter(&self, id: u64, phase: ConnectionPhase, now: Instant) {
        let mut table = self.lock();
        let Some(entry) = table.open.get_mut(&id) else { return };
        let before = entry.phase;
        (entry.phase, entry.since) = (phase, now);
        table.unread -= unread(before);
        table.unread += unread(phase);
        let answers = |entry: &Entry| matches!(entry.phase, ConnectionPhase::Answering(_));
        while table.unread > UNREAD_ANSWERS && self.make_room(&mut table, now, answers) {}
    }

    fn count(&self, reason: CloseReason) {
        self.0.metrics.closed.get_or_create(&ClosedLabels::of(reason)).inc();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn add(&mut self, entry: Entry) -> u64 {
        if let Some(address) = &entry.address {
            *self.by_address.entry(address.clone()).or_default() += 1;
        }
        let id = self.next;
        self.next += 1;
        self.open.insert(id, entry);
        id
    }

    /// Closes a connection: its place is free at once, its task ends when it is polled next.
    fn close(&mut self, id: u64) {
        let Some(entry) = self.open.remove(&id) else { return };
        self.unread -= unread(entry.phase);
        entry.close.cancel();
        let Some(address) = entry.address else { return };
        match self.by_address.get_mut(&address) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(self.by_address.remove(&address)),
        }
    }
}

fn unread(phase: ConnectionPhase) -> usize {
    if let ConnectionPhase::Answering(bytes) = phase { bytes } else { 0 }
}

impl ConnectionSlot {
    pub(super) fn connection(&self) -> Connection {
        self.0.clone()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.connections.lock().close(self.0.id);
        self.0.connections.0.metrics.open.dec();
    }
}

impl Connection {
    /// Sets the phase of the connection.
    pub(super) fn enter(&self, phase: ConnectionPhase) {
        self.connections.enter(self.id, phase, Instant::now());
    }

    /// Counts the reason for closing it.
    pub(super) fn count(&self, reason: CloseReason) {
        self.connections.count(reason);
    }

    /// Waits until the connection must close.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(most: usize, per_address: usize) -> Connections {
        let proxies = Proxies(vec![("10.0.0.0".parse().unwrap(), 8)]);
        let limits = ConnectionLimits { most, per_address, proxies, ..Default::default() };
        Connections::new(limits, ConnectionMetrics::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_closed(place: &ConnectionSlot) -> bool {
        place.0.close.is_cancelled()
    }

    impl Connections {
        fn at(&self, place: &ConnectionSlot, phase: ConnectionPhase, now: Instant) {
            self.enter(place.0.id, phase, now);
        }
    }

    /// Admits a connection that has begun to send a request.
    fn begin_request(connections: &Connections, peer: &str, now: Instant) -> ConnectionSlot {
        let place = connections.admit(ip(peer), now).unwrap();
        connections.at(&place, ConnectionPhase::Head, now);
        place
    }

    #[test]
    fn who_has_sent_half_a_request_for_longest_makes_room_and_who_is_worked_for_does_not() {
        let (set, now) = (connections(3, 3), Instant::now());
        let [working, head, idle] = [0, 1, 2].map(|_| begin_request(&set, "192.0.2.1", now));
        set.at(&working, ConnectionPhase::Working, now);
        set.at(&idle, ConnectionPhase::Idle, now);
        let later = now + 2 * SETTLED;
        let _fourth = begin_request(&set, "192.0.2.2", later);
        assert!(is_closed(&head) && !is_closed(&idle) && !is_closed(&working));
        let _fifth = begin_request(&set, "192.0.2.2", later);
        assert!(is_closed(&idle) && !is_closed(&working), "a settled one before a young one");
    }

    #[test]
    fn a_newcomer_waits_while_all_are_worked_for_or_have_only_come() {
        let (set, now) = (connections(3, 3), Instant::now());
        let slots = [0, 1, 2].map(|_| begin_request(&set, "192.0.2.1", now));
        set.at(&slots[0], ConnectionPhase::Working, now);
        set.at(&slots[1], ConnectionPhase::Streaming, now);
        assert!(set.admit(ip("192.0.2.2"), now + YOUNG / 2).is_none());
        let fourth = set.admit(ip("192.0.2.2"), now + YOUNG).unwrap();
        assert!(is_closed(&slots[2]));
        assert!(set.admit(ip("192.0.2.2"), now + 9 * SETTLED).is_none(), "one not looked at yet");
        drop((slots, fourth));
        assert!(set.admit(ip("192.0.2.2"), now).is_some());
        assert!(set.lock().by_address.is_empty(), "nothing is kept of who has none");
    }

    #[test]
    fn an_address_with_too_many_loses_one_of_its_own_and_proxies_are_not_counted() {
        let (set, now) = (connections(10, 2), Instant::now());
        let other = begin_request(&set, "192.0.2.9", now);
        let slots = [0, 1].map(|_| begin_request(&set, "2001:db8:1:2::1", now + SETTLED));
        let _third = begin_request(&set, "2001:db8:1:2::2", now + 2 * SETTLED);
        assert!(!is_closed(&other), "others are left alone");
        assert_eq!(slots.iter().filter(|slot| is_closed(slot)).count(), 1);
        let proxied: Vec<_> = (0..6).map(|_| begin_request(&set, "10.1.2.3", now)).collect();
        assert!(!proxied.iter().any(is_closed));
    }

    #[test]
    fn silence_ends_after_its_time_and_a_request_that_is_worked_on_is_no_silence() {
        let (set, now) = (connections(10, 10), Instant::now());
        let [head, idle, working] = [0, 1, 2].map(|_| begin_request(&set, "192.0.2.1", now));
        set.at(&idle, ConnectionPhase::Idle, now);
        set.at(&working, ConnectionPhase::Working, now);
        let limits = set.limits().clone();
        set.expire(now + limits.header_timeout - Duration::from_millis(1), false);
        assert!(!is_closed(&head));
        set.expire(now + limits.header_timeout, false);
        assert!(is_closed(&head) && !is_closed(&idle));
        set.expire(now + limits.idle_timeout, false);
        assert!(is_closed(&idle) && !is_closed(&working));
        let late = begin_request(&set, "192.0.2.1", now);
        set.expire(now + WHILE_STOPPING, true);
        assert!(is_closed(&late), "a service that stops waits for no half request");
    }

    #[test]
    fn answers_that_nobody_takes_are_bounded_together() {
        let (set, now) = (connections(10, 10), Instant::now());
        let [slow, quick] = [0, 1].map(|_| set.admit(ip("192.0.2.1"), now).unwrap());
        set.at(&slow, ConnectionPhase::Answering(UNREAD_ANSWERS - 10), now);
        set.at(&quick, ConnectionPhase::Answering(11), now + SETTLED);
        assert!(is_closed(&slow) && !is_closed(&quick));
        assert_eq!(set.lock().unread, 11);
        set.at(&quick, ConnectionPhase::Idle, now + SETTLED);
        assert_eq!(set.lock().unread, 0);
    }
}
