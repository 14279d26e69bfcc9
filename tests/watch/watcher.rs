//! The driver: watches of one cluster, and what a consumer makes of what they tell.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use the_deployer::cluster::connection::client::{ClientLimits, ClusterConnection};
use the_deployer::cluster::connection::settings::ClusterAccess;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::watch::event::ClusterEvent;
use the_deployer::cluster::watch::health::{ClusterHealth, KindSight};
use the_deployer::cluster::watch::metrics::WatchMetrics;
use the_deployer::cluster::watch::reflector::ClusterWatch;
use the_deployer::cluster::watch::schedule::WatchLimits;
use the_deployer::cluster::watched::WatchedObject;
use the_deployer::model::id::TargetName;
use the_deployer::support::clock::Clock;
use the_deployer::support::credential::Credential;
use the_deployer::support::http::OutboundHttp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::harness::api_server::{ApiServer, TOKEN};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was told of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    RelistBegun,
    Listed(String),
    RelistDone,
    Applied(String),
    Deleted(String),
    Unseen(String),
    Seen,
    Unavailable,
}

/// How a cluster is watched: fast, so that tests are.
pub(super) struct Setup {
    pub(super) access: ClusterAccess,
    pub(super) outbound: OutboundHttp,
    pub(super) clock: Clock,
    pub(super) limits: WatchLimits,
    pub(super) connection: ClientLimits,
    previews: bool,
    /// Whether nothing is kept of objects.
    forgets: bool,
}

/// Watches that run, and what they have told.
pub(super) struct Watcher {
    events: mpsc::Receiver<ClusterEvent>,
    pub(super) health: ClusterHealth,
    pub(super) stop: CancellationToken,
    pub(super) clock: Clock,
    told: BTreeMap<WatchedKind, Vec<Said>>,
    known: BTreeMap<WatchedKind, BTreeMap<String, String>>,
    listing: BTreeMap<WatchedKind, BTreeSet<String>>,
    forgets: bool,
}

impl Watcher {
    /// Over the server's own address.
    pub(super) fn of(server: &ApiServer) -> Setup {
        Self::at(&server.url())
    }

    /// Over another address of it, with the service's token.
    pub(super) fn at(server: &str) -> Setup {
        let token = Credential { secret: TOKEN.into(), file: None };
        Self::by(ClusterAccess::Server { server: server.to_owned(), token, ca: None })
    }

    pub(super) fn by_kubeconfig(file: PathBuf) -> Setup {
        Self::by(ClusterAccess::Kubeconfig { file, context: None })
    }

    pub(super) fn by(access: ClusterAccess) -> Setup {
        the_deployer::support::http::install_tls_provider();
        let limits = WatchLimits {
            first_pause: Duration::from_millis(40),
            longest_pause: Duration::from_millis(400),
            least_gap: Duration::from_millis(50),
            watch: Duration::from_mins(1),
            grace: Duration::from_secs(5),
            page: Duration::from_secs(5),
            page_items: 50,
            relist: Duration::from_mins(30),
            probe: Duration::from_millis(300),
        };
        let connection = ClientLimits {
            connect: Duration::from_secs(5),
            head: Duration::from_secs(5),
            build: Duration::from_secs(10),
            life: Duration::from_hours(1),
            pause: Duration::from_millis(100),
        };
        Setup {
            access,
            outbound: OutboundHttp::default(),
            clock: Clock::system(),
            limits,
            connection,
            previews: false,
            forgets: false,
        }
    }

    /// Hears everything that is told until it holds, or fails.
    pub(super) async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !holds(self) {
            let event = tokio::time::timeout_at(deadline, self.events.recv()).await;
            let Ok(Some(event)) = event else {
                panic!("{what}: {:?} {:?} {:?}", self.known, self.health.kinds(), self.told)
            };
            self.hear(event);
        }
    }

    /// Each kind was listed, or cannot be.
    pub(super) async fn settles(&mut self) {
        let is_settled = |said: &Said| matches!(said, Said::RelistDone | Said::Unavailable);
        self.until("each kind was listed", |watcher| {
            WatchedKind::ALL.iter().all(|kind| {
                let told = watcher.told.get(kind);
                let seen = watcher.health.kinds()[kind] != KindSight::Starting;
                told.is_some_and(|told| told.iter().any(is_settled)) && seen
            })
        })
        .await;
        self.catches_up().await;
    }

    /// Hears what has been told already.
    pub(super) async fn catches_up(&mut self) {
        let pause = Duration::from_millis(50);
        while let Ok(Some(event)) = tokio::time::timeout(pause, self.events.recv()).await {
            self.hear(event);
        }
    }

    /// Waits until exactly these objects of the kind are known.
    pub(super) async fn knows(&mut self, kind: &str, names: &[&str]) {
        let kind = WatchedKind::parse(kind).unwrap();
        let wanted: BTreeSet<&str> = names.iter().copied().collect();
        let what = format!("{names:?} are known");
        self.until(&what, |watcher| {
            let known = watcher.known.get(&kind).map(|known| known.keys().map(String::as_str));
            known.into_iter().flatten().collect::<BTreeSet<_>>() == wanted
        })
        .await;
    }

    /// Waits until the kind is not seen for a reason that contains the text.
    pub(super) async fn is_blind(&mut self, kind: &str, text: &str) {
        let kind = WatchedKind::parse(kind).unwrap();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            self.catches_up().await;
            let sight = self.sight(kind);
            if matches!(&sight, KindSight::Unseen { reason, .. } if reason.contains(text)) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{text:?}: {sight:?}");
        }
    }

    /// Waits until the kind is seen.
    pub(super) async fn sees(&mut self, kind: &str) {
        let kind = WatchedKind::parse(kind).unwrap();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.sight(kind) != KindSight::Seen {
            self.catches_up().await;
            assert!(tokio::time::Instant::now() < deadline, "{:?}", self.sight(kind));
        }
        self.catches_up().await;
    }

    pub(super) fn sight(&self, kind: WatchedKind) -> KindSight {
        self.health.kinds()[&kind].clone()
    }

    pub(super) fn told(&self, kind: WatchedKind) -> &[Said] {
        self.told.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// What was told of the kind since it was asked last.
    pub(super) fn take(&mut self, kind: &str) -> Vec<Said> {
        self.told.remove(&WatchedKind::parse(kind).unwrap()).unwrap_or_default()
    }

    /// The uid of an object that is known.
    pub(super) fn uid(&self, kind: &str, name: &str) -> &str {
        &self.known[&WatchedKind::parse(kind).unwrap()][name]
    }

    fn hear(&mut self, event: ClusterEvent) {
        if self.forgets && matches!(event, ClusterEvent::Listed(_) | ClusterEvent::Applied(_)) {
            return;
        }
        let name = |object: &WatchedObject| {
            let key = object.key();
            format!("{}/{}", key.namespace, key.name)
        };
        let (kind, said) = match event {
            ClusterEvent::RelistBegun(kind) => {
                self.listing.insert(kind, BTreeSet::new());
                (kind, Said::RelistBegun)
            }
            ClusterEvent::Listed(object) => {
                let (kind, name) = (object.kind(), name(&object));
                self.listing.get_mut(&kind).unwrap().insert(name.clone());
                self.keep(&object, &name);
                (kind, Said::Listed(name))
            }
            ClusterEvent::RelistDone(kind) => {
                let listed = self.listing.remove(&kind).expect("a list has begun");
                self.known.entry(kind).or_default().retain(|name, _| listed.contains(name));
                (kind, Said::RelistDone)
            }
            ClusterEvent::Applied(object) => {
                let name = name(&object);
                self.keep(&object, &name);
                (object.kind(), Said::Applied(name))
            }
            ClusterEvent::Deleted(object) => {
                let name = name(&object);
                self.known.entry(object.kind()).or_default().remove(&name);
                (object.kind(), Said::Deleted(name))
            }
            ClusterEvent::Unseen { kind, reason, .. } => (kind, Said::Unseen(reason)),
            ClusterEvent::Seen(kind) => (kind, Said::Seen),
            ClusterEvent::Unavailable(kind) => {
                self.known.remove(&kind);
                (kind, Said::Unavailable)
            }
        };
        self.told.entry(kind).or_default().push(said);
    }

    fn keep(&mut self, object: &WatchedObject, name: &str) {
        let uid = object.meta().uid.to_string();
        self.known.entry(object.kind()).or_default().insert(name.to_owned(), uid);
    }
}

impl Setup {
    pub(super) fn page(mut self, items: u32) -> Self {
        self.limits.page_items = items;
        self
    }

    pub(super) fn relist(mut self, after: Duration) -> Self {
        self.limits.relist = after;
        self
    }

    /// The pause after a first failure, so long that a test has time before the fifth.
    pub(super) fn pause(mut self, first: Duration) -> Self {
        self.limits.first_pause = first;
        self.limits.longest_pause = first.max(self.limits.longest_pause);
        self
    }

    pub(super) fn previews(mut self) -> Self {
        self.previews = true;
        self
    }

    pub(super) fn forgetful(mut self) -> Self {
        self.forgets = true;
        self
    }

    /// Answers are waited for no longer.
    pub(super) fn impatient(mut self) -> Self {
        self.connection.head = Duration::from_millis(300);
        self.limits.page = Duration::from_millis(300);
        self.limits.watch = Duration::from_secs(1);
        self.limits.grace = Duration::from_millis(200);
        self
    }

    pub(super) fn clock(mut self, clock: &Clock) -> Self {
        self.clock = clock.clone();
        self
    }

    pub(super) fn outbound(mut self, outbound: OutboundHttp) -> Self {
        self.outbound = outbound;
        self
    }

    pub(super) fn start(self) -> Watcher {
        let Self { access, outbound, clock, limits, connection, previews, forgets } = self;
        let cluster = TargetName::parse("prod-1").unwrap();
        let health = ClusterHealth::new(cluster.clone());
        let connection = ClusterConnection::within(access, outbound, clock.clone(), connection);
        let stop = CancellationToken::new();
        let watch = ClusterWatch {
            connection: Arc::new(connection),
            previews,
            limits,
            health: health.clone(),
            metrics: WatchMetrics::default().of_cluster(&cluster),
            clock: clock.clone(),
        };
        let events = watch.start(&stop);
        Watcher {
            events,
            health,
            stop,
            clock,
            told: BTreeMap::new(),
            known: BTreeMap::new(),
            listing: BTreeMap::new(),
            forgets,
        }
    }
}
