//! The connection to one cluster's API server: one client for all that is asked there, made anew when its credentials
//! no longer count.
//!
//! ```text
//! ClusterAccess ─┬─ Kubeconfig ─▶ kubeconfig ─┐           ┌ deadline for the head of an answer
//!                └─ Server ───────────────────┴─▶ client ─┼ bearer: the token, now
//!                                                         └ kube: TLS, proxy, address
//! ```
//!
//! The library's own retries are off: they ask fifteen times before they say that a server is not there.

use std::time::Duration;

use http::{HeaderValue, Request, header};
use jiff::{SignedDuration, Timestamp};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;
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

/// No more requests wait for the client than there can be watches.
const WAITING_REQUESTS: usize = 64;

/// How long things may take, and how long a client is used.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    /// For a TCP and TLS connection.
    pub connect: Duration,
    /// For the head of an answer, with the connection and a credential plugin before it. The body of a watch may take
    /// as long as it likes.
    pub head: Duration,
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
            life: Duration::from_hours(1),
            pause: Duration::from_secs(10),
        }
    }
}

/// A certificate is replaced so long before it expires.
const EARLY: SignedDuration = SignedDuration::from_secs(120);

/// The way to one cluster.
pub struct ClusterConnection {
    access: ClusterAccess,
    outbound: OutboundHttp,
    clock: Clock,
    limits: ClientLimits,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    /// How many clients were made; 0 is none.
    generation: u64,
    last: Option<Attempt>,
}

/// The last client, or why there is none.
struct Attempt {
    client: Result<Client, ConnectError>,
    /// On the clock that is never put back.
    at: Duration,
    /// Until when its certificate counts.
    until: Option<Timestamp>,
    refused: bool,
}

/// A client of the API server, and which one: of a later generation are other credentials.
#[derive(Clone)]
pub struct ClusterClient {
    /// The client; clones share its connections.
    pub client: Client,
    generation: u64,
}

impl ClusterConnection {
    /// Nothing is asked or read yet.
    pub fn new(access: ClusterAccess, outbound: OutboundHttp, clock: Clock) -> Self {
        Self::within(access, outbound, clock, ClientLimits::default())
    }

    /// The same, with limits of the caller's choice.
    pub fn within(
        access: ClusterAccess,
        outbound: OutboundHttp,
        clock: Clock,
        limits: ClientLimits,
    ) -> Self {
        Self { access, outbound, clock, limits, state: Mutex::default() }
    }

    /// Returns the client, or makes one. One makes it, all others wait for it; why there is none is told to all for
    /// some seconds.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub async fn client(&self) -> Result<ClusterClient, ConnectError> {
        let mut state = self.state.lock().await;
        if state.last.as_ref().is_none_or(|last| !self.is_usable(last)) {
            let built = Box::pin(self.build()).await;
            let (client, until) = match built {
                Ok((client, until)) => (Ok(client), until),
                Err(error) => (Err(error), None),
            };
            let at = self.clock.moment().monotonic;
            state.last = Some(Attempt { client, at, until, refused: false });
            state.generation += 1;
        }
        let generation = state.generation;
        match state.last.as_ref().map(|last| &last.client) {
            Some(Ok(client)) => Ok(ClusterClient { client: client.clone(), generation }),
            Some(Err(error)) => Err(error.clone()),
            None => Err(ConnectError::Settings("there is no client".to_owned())),
        }
    }

    /// Takes note that the server refused this client's credentials (401): the next one has others.
    pub async fn refused(&self, client: &ClusterClient) {
        let mut state = self.state.lock().await;
        let is_current = state.generation == client.generation;
        if let Some(last) = state.last.as_mut().filter(|_| is_current) {
            last.refused = true;
        }
    }

    fn is_usable(&self, last: &Attempt) -> bool {
        let age = self.clock.moment().monotonic.saturating_sub(last.at);
        let now = self.clock.now();
        let expires = last.until.is_some_and(|until| until.duration_since(now) < EARLY);
        if last.client.is_err() || last.refused || expires {
            age < self.limits.pause
        } else {
            age < self.limits.life
        }
    }

    async fn build(&self) -> Result<(Client, Option<Timestamp>), ConnectError> {
        let (config, token, until) = match self.access.clone() {
            ClusterAccess::Server { server, token, ca } => {
                let config = blocking(move || by_address(&server, ca.as_deref())).await?;
                (config, Some(BearerToken::Credential(token)), None)
            }
            ClusterAccess::Kubeconfig { file, context } => {
                let load = move || kubeconfig::load(&file, context.as_deref());
                self.authenticate(blocking(load).await?).await?
            }
        };
        let (outbound, limits) = (self.outbound.clone(), self.limits);
        // Certificates are read from files.
        let client = blocking(move || make_client(config, token, &outbound, limits)).await?;
        Ok((client, until))
    }

    /// What a credential plugin says is needed before the client is made: it can be a certificate.
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
        let found = plugin.run().await?;
        let mut until = None;
        if let Some((chain, key)) = found.certificate {
            config.auth_info.client_certificate_data = Some(to_base64(&chain));
            let key = SecretString::from(to_base64(key.expose_secret()));
            config.auth_info.client_key_data = Some(key);
            until = found.expires;
        }
        let token = found
            .token
            .map(|token| BearerToken::plugin(*plugin, token, found.expires, self.clock.clone()));
        Ok((config, token, until))
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

/// Says what is wrong by the innermost cause: the outer ones have addresses, which can have a proxy's password.
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

/// Files can be on disks that are slow to answer.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|fault| Err(ConnectError::Settings(fault.to_string())))
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
        connection.refused(&first).await;
        clock.advance(Duration::from_secs(10));
        assert_eq!(generation().await, 2, "another client was refused");
        let second = connection.client().await.unwrap();
        connection.refused(&second).await;
        assert_eq!(generation().await, 3, "it is older than the pause");
        let third = connection.client().await.unwrap();
        connection.refused(&third).await;
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
        let said = connection.client().await.err().unwrap().to_string();
        assert!(said.contains("cannot be read"), "{said}");
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
        let said = describe(&error);
        assert!(said.contains("refused") && !said.contains("s3cret"), "{said}");
    }
}
