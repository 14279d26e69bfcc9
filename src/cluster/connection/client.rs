//! The connection to one cluster's API server: one client for all requests, made anew when its credentials expire or
//! are refused. One attempt at a time makes it, for all callers, and within a deadline.
//!
//! ```text
//! ClusterAccess ─┬─ Kubeconfig ─▶ kubeconfig ─┐           ┌ deadline for the head of an answer
//!                └─ Server ───────────────────┴─▶ client ─┼ bearer: the token, now
//!                                                         └ kube: TLS, proxy, address
//! ```
//!
//! The library's own retries are off: they ask fifteen times before they say that a server is not there.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::{HeaderValue, Request, header};
use jiff::{SignedDuration, Timestamp};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Semaphore;
use tower::BoxError;
use tower::buffer::BufferLayer;
use tower::filter::AsyncFilterLayer;
use tower::timeout::TimeoutLayer;

use crate::cluster::connection::bearer::BearerToken;
use crate::cluster::connection::error::ConnectError;
use crate::cluster::connection::exec_plugin::ExecPlugin;
use crate::cluster::connection::kubeconfig::{self, KubeconfigContext, KubeconfigUser};
use crate::cluster::connection::settings::ClusterAccess;
use crate::cluster::connection::trust;
use crate::support::cause::innermost_cause;
use crate::support::clock::Clock;
use crate::support::http::{AGENT, OutboundHttp};
use crate::support::sync::lock;

/// The number of requests that wait for the client: more than there can be watches.
const WAITING_REQUESTS: usize = 64;

/// The limits of a connection: deadlines, and the life of a client.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    /// The deadline of a TCP and TLS connection.
    pub connect: Duration,
    /// The deadline of the head of an answer, with the connection and a credential plugin before it. The body of a
    /// watch has none.
    pub head: Duration,
    /// The deadline of making a client, with the files and the credential plugin that it needs.
    pub build: Duration,
    /// A client is made anew after so long: certificates and kubeconfigs are replaced on disk.
    pub life: Duration,
    /// A client whose token was refused, or that could not be made, is made anew after so long and not before.
    pub pause: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            head: Duration::from_secs(30),
            build: Duration::from_secs(30),
            life: Duration::from_hours(1),
            pause: Duration::from_secs(10),
        }
    }
}

/// A certificate is replaced so long before it expires.
const EARLY: SignedDuration = SignedDuration::from_secs(120);

/// The connection to one cluster.
pub struct ClusterConnection {
    builder: ClientBuild,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    /// The number of clients that were made; 0 before the first.
    generation: u64,
    last: Option<Attempt>,
    /// The attempt under way, which all callers share.
    pending: Option<PendingAttempt>,
}

type PendingAttempt = Shared<BoxFuture<'static, Attempt>>;

/// The last client, or the reason why there is none.
#[derive(Clone)]
struct Attempt {
    client: Result<Client, ConnectError>,
    /// The time of the attempt's end on the clock that is never put back.
    at: Duration,
    /// The expiry of its certificate.
    until: Option<Timestamp>,
    is_refused: bool,
}

/// A client of the API server with its generation: a later one has other credentials.
#[derive(Clone)]
pub struct ClusterClient {
    /// The client; clones share its connections.
    pub client: Client,
    generation: u64,
}

impl ClusterConnection {
    /// Makes a connection that has asked and read nothing yet.
    pub fn new(access: ClusterAccess, outbound: OutboundHttp, clock: Clock) -> Self {
        Self::within(access, outbound, clock, ClientLimits::default())
    }

    /// Makes the same with limits of the caller's choice.
    pub fn within(
        access: ClusterAccess,
        outbound: OutboundHttp,
        clock: Clock,
        limits: ClientLimits,
    ) -> Self {
        let reader = Arc::new(Semaphore::new(1));
        let builder = ClientBuild { access, outbound, clock, limits, reader };
        Self { builder, state: Mutex::default() }
    }

    /// Returns the client, or makes one: all callers wait for one attempt. Its failure is the answer to all for some
    /// seconds.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub async fn client(&self) -> Result<ClusterClient, ConnectError> {
        let pending = {
            let mut state = self.state();
            if let Some(last) = state.last.as_ref().filter(|last| self.is_usable(last)) {
                return last.client(state.generation);
            }
            state.pending.get_or_insert_with(|| self.builder.start()).clone()
        };
        let attempt = pending.clone().await;
        let mut state = self.state();
        if state.pending.as_ref().is_some_and(|current| current.ptr_eq(&pending)) {
            state.pending = None;
            state.generation += 1;
            state.last = Some(attempt.clone());
        }
        attempt.client(state.generation)
    }

    /// Records that the server refused this client's credentials (401): the next client has others.
    pub fn report_refusal(&self, client: &ClusterClient) {
        let mut state = self.state();
        let is_current = state.generation == client.generation;
        if let Some(last) = state.last.as_mut().filter(|_| is_current) {
            last.is_refused = true;
        }
    }

    fn is_usable(&self, last: &Attempt) -> bool {
        let ClientBuild { clock, limits, .. } = &self.builder;
        let age = clock.moment().monotonic.saturating_sub(last.at);
        let now = clock.now();
        let expires = last.until.is_some_and(|until| until.duration_since(now) < EARLY);
        if last.client.is_err() || last.is_refused || expires {
            age < limits.pause
        } else {
            age < limits.life
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.state)
    }
}

impl Attempt {
    fn client(&self, generation: u64) -> Result<ClusterClient, ConnectError> {
        let client = self.client.clone()?;
        Ok(ClusterClient { client, generation })
    }
}

/// The parts of a client that does not exist yet.
#[derive(Clone)]
struct ClientBuild {
    access: ClusterAccess,
    outbound: OutboundHttp,
    clock: Clock,
    limits: ClientLimits,
    /// The right to read files: a disk that does not answer holds one thread and no more.
    reader: Arc<Semaphore>,
}

impl ClientBuild {
    /// Starts an attempt, which ends at the deadline, also when all callers are gone.
    fn start(&self) -> PendingAttempt {
        let parts = self.clone();
        let task = tokio::spawn(async move {
            let deadline = parts.limits.build;
            let result = tokio::time::timeout(deadline, Box::pin(parts.build())).await;
            let seconds = deadline.as_secs_f64();
            let late = |_elapsed| {
                let problem =
                    format!("its files and credential plugin take longer than {seconds} seconds");
                Err(ConnectError::Settings(problem))
            };
            (result.unwrap_or_else(late), parts.clock.moment().monotonic)
        });
        let start = self.clock.moment().monotonic;
        let attempt = async move {
            let ended = task.await;
            let (result, at) = ended
                .unwrap_or_else(|fault| (Err(ConnectError::Settings(fault.to_string())), start));
            let (client, until) = match result {
                Ok((client, until)) => (Ok(client), until),
                Err(error) => (Err(error), None),
            };
            Attempt { client, at, until, is_refused: false }
        };
        attempt.boxed().shared()
    }

    async fn build(&self) -> Result<(Client, Option<Timestamp>), ConnectError> {
        let (config, token, until) = match self.access.clone() {
            ClusterAccess::Server { server, token, ca } => {
                let config = self.read(move || by_address(&server, ca.as_deref())).await?;
                (config, Some(BearerToken::Credential(token)), None)
            }
            ClusterAccess::Kubeconfig { file, context } => {
                let load = move || kubeconfig::load(&file, context.as_deref());
                self.authenticate(self.read(load).await?).await?
            }
        };
        let (outbound, limits) = (self.outbound.clone(), self.limits);
        // Certificates are read from files.
        let client = self.read(move || make_client(config, token, &outbound, limits)).await?;
        Ok((client, until))
    }

    /// Runs the credential plugin before the client is made: its answer can be a certificate.
    async fn authenticate(
        &self,
        context: KubeconfigContext,
    ) -> Result<(Config, Option<BearerToken>, Option<Timestamp>), ConnectError> {
        let KubeconfigContext { mut config, user } = context;
        let plugin: Box<ExecPlugin> = match user {
            KubeconfigUser::Plain => return Ok((config, None, None)),
            KubeconfigUser::Token(token) => return Ok((config, Some(token), None)),
            KubeconfigUser::Plugin(plugin) => plugin,
        };
        let credential = plugin.run().await?;
        let mut until = None;
        if let Some((chain, key)) = credential.certificate {
            config.auth_info.client_certificate_data = Some(to_base64(&chain));
            let key = SecretString::from(to_base64(key.expose_secret()));
            config.auth_info.client_key_data = Some(key);
            until = credential.expires;
        }
        let (expires, clock) = (credential.expires, self.clock.clone());
        let token =
            credential.token.map(|token| BearerToken::plugin(*plugin, token, expires, clock));
        Ok((config, token, until))
    }

    /// Reads files on a thread that may block, one at a time for each connection.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
    ) -> Result<T, ConnectError> {
        let failed = |fault: String| ConnectError::Settings(fault);
        let permit = Arc::clone(&self.reader).acquire_owned().await;
        let permit = permit.map_err(|closed| failed(closed.to_string()))?;
        let task = tokio::task::spawn_blocking(move || {
            let _until_the_end = permit;
            work()
        });
        task.await.unwrap_or_else(|fault| Err(failed(fault.to_string())))
    }
}

fn to_base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn by_address(server: &str, ca: Option<&std::path::Path>) -> Result<Config, ConnectError> {
    let address = server.parse::<http::Uri>().ok().filter(|address| address.host().is_some());
    let address = address.ok_or_else(|| {
        ConnectError::Settings(format!("{server} is not an address of an API server"))
    })?;
    let mut config = Config::new(address);
    if let Some(file) = ca {
        trust::follow_file(&mut config, file).map_err(ConnectError::Settings)?;
    }
    Ok(config)
}

fn make_client(
    mut config: Config,
    token: Option<BearerToken>,
    outbound: &OutboundHttp,
    limits: ClientLimits,
) -> Result<Client, ConnectError> {
    config.default_retry = false;
    config.connect_timeout = Some(limits.connect);
    config.headers.push((header::USER_AGENT, HeaderValue::from_static(AGENT)));
    if config.proxy_url.is_none() {
        config.proxy_url = outbound.proxy_of(&config.cluster_url);
    }
    if config.root_cert.is_none() && !outbound.authorities.is_empty() {
        config.root_cert = Some(trust::with_machines_own(&outbound.authorities));
    }
    let failed = |error: kube::Error| ConnectError::Settings(describe(&error));
    let authorize = AsyncFilterLayer::new(move |mut request: Request<Body>| {
        let token = token.clone();
        async move {
            if let Some(token) = token {
                request.headers_mut().insert(header::AUTHORIZATION, token.header().await?);
            }
            Ok::<_, BoxError>(request)
        }
    });
    let client = ClientBuilder::try_from(config)
        .map_err(failed)?
        .with_layer(&BufferLayer::<Request<Body>>::new(WAITING_REQUESTS))
        .with_layer(&authorize)
        .with_layer(&TimeoutLayer::new(limits.head))
        .build();
    Ok(client)
}

/// Describes an error by its innermost cause: the outer ones have addresses, which can have a proxy's password.
pub(in crate::cluster) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::ProxyProtocolDisabled { .. }
        | kube::Error::ProxyProtocolUnsupported { .. } => {
            "the proxy is not one for HTTP: clusters are reached through http and https proxies"
                .to_owned()
        }
        error => innermost_cause(error).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::credential::Credential;

    fn connection(clock: &Clock) -> ClusterConnection {
        crate::support::http::install_tls_provider();
        let access = ClusterAccess::Server {
            server: "https://127.0.0.1:1".to_owned(),
            token: Credential { secret: "s3cret".into(), file: None },
            ca: None,
        };
        ClusterConnection::new(access, OutboundHttp::default(), clock.clone())
    }

    #[tokio::test]
    async fn a_client_is_used_for_an_hour_and_a_refused_one_for_some_seconds() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let connection = connection(&clock);
        let generation = async || connection.client().await.unwrap().generation;
        assert_eq!(generation().await, 1);
        clock.advance(Duration::from_mins(59));
        let first = connection.client().await.unwrap();
        assert_eq!(first.generation, 1);
        clock.advance(Duration::from_mins(1));
        assert_eq!(generation().await, 2);
        connection.report_refusal(&first);
        clock.advance(Duration::from_secs(10));
        assert_eq!(generation().await, 2, "another client was refused");
        let second = connection.client().await.unwrap();
        connection.report_refusal(&second);
        assert_eq!(generation().await, 3, "it is older than the pause");
        let third = connection.client().await.unwrap();
        connection.report_refusal(&third);
        assert_eq!(generation().await, 3);
        clock.advance(Duration::from_secs(10));
        assert_eq!(generation().await, 4);
    }

    #[tokio::test]
    async fn why_there_is_no_client_is_told_for_some_seconds_and_then_tried_again() {
        let (clock, folder) = (Clock::manual(Timestamp::UNIX_EPOCH), tempfile::tempdir().unwrap());
        let file = folder.path().join("config");
        let access = ClusterAccess::Kubeconfig { file: file.clone(), context: None };
        let connection = ClusterConnection::new(access, OutboundHttp::default(), clock.clone());
        let reason = connection.client().await.err().unwrap().to_string();
        assert!(reason.contains("cannot be read"), "{reason}");
        std::fs::write(
            &file,
            "{current-context: a, contexts: [{name: a, context: {cluster: b}}], \
             clusters: [{name: b, cluster: {server: 'http://127.0.0.1:1'}}]}",
        )
        .unwrap();
        assert!(connection.client().await.is_err());
        clock.advance(Duration::from_secs(10));
        assert!(connection.client().await.is_ok());
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_at_once_and_without_its_token() {
        let client = connection(&Clock::system()).client().await.unwrap().client;
        let error = client.apiserver_version().await.unwrap_err();
        let reason = describe(&error);
        assert!(reason.contains("refused") && !reason.contains("s3cret"), "{reason}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_credential_plugin_that_hangs_is_run_once_for_all_callers_and_not_waited_for() {
        let (clock, folder) = (Clock::manual(Timestamp::UNIX_EPOCH), tempfile::tempdir().unwrap());
        let (file, runs) = (folder.path().join("config"), folder.path().join("runs"));
        let script = format!("echo run >> {}; exec sleep 60", runs.display());
        let text = format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: b, user: c}}}}], \
             clusters: [{{name: b, cluster: {{server: 'https://127.0.0.1:1'}}}}], \
             users: [{{name: c, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, \
             command: sh, args: ['-c', '{script}']}}}}}}]}}"
        );
        std::fs::write(&file, text).unwrap();
        let access = ClusterAccess::Kubeconfig { file, context: None };
        let limits = ClientLimits { build: Duration::from_millis(500), ..ClientLimits::default() };
        let outbound = OutboundHttp::default();
        let connection = ClusterConnection::within(access, outbound, clock.clone(), limits);
        let count = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
        let callers = async || {
            let all = (0..9).map(|_| connection.client());
            let all = futures::future::join_all(all);
            let all = tokio::time::timeout(Duration::from_secs(10), all).await;
            all.expect("the deadline holds for all of them together")
        };
        for client in callers().await {
            let reason = client.err().unwrap().to_string();
            assert!(reason.contains("take longer than 0.5 seconds"), "{reason}");
        }
        assert_eq!(count(), 1);
        assert!(connection.client().await.is_err());
        assert_eq!(count(), 1, "the failure is shared for some seconds");
        clock.advance(Duration::from_secs(10));
        // Callers that go away end no attempt, and those that come find it.
        let gone = tokio::time::timeout(Duration::from_millis(100), connection.client()).await;
        assert!(gone.is_err());
        callers().await;
        assert_eq!(count(), 2);
    }
}
