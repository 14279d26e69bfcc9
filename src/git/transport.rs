//! Git's smart HTTP over our own HTTP client, as a transport of libgit2.
//!
//! So that one TLS stack, one proxy setting and one set of limits hold for every connection of
//! this process. The token travels in a header only. Knows requests and bytes of the git
//! protocol; what a fetch or a push is, libgit2 knows.
//!
//! libgit2 gives a transport nothing but an address, so the call that is under way stands in a
//! thread-local. libgit2 works on the calling thread only, and reports back through the same call.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use reqwest::{Client, Method, Url};
use secrecy::{ExposeSecret, SecretString};

use crate::git::error::{Disposition, WriteError};
use crate::git::token::{Answer as TokenAnswer, NoToken, Tokens};
use crate::git::wire::{self, Failure};

/// What libgit2 takes for the address; the real one is in the call.
const SCHEME: &str = "the-deployer";

/// How to reach one repository over HTTP.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) base: Url,
    pub(super) client: Client,
    pub(super) tokens: Tokens,
    /// The longest silence of a server that we sit through.
    pub(super) silence: Duration,
    /// The longest a whole request may take.
    pub(super) total: Duration,
    pub(super) runtime: tokio::runtime::Handle,
}

/// A failed exchange.
pub(super) struct WireError {
    /// libgit2's view.
    pub(super) git: git2::Error,
    /// Ours, where the transport failed: more exact, and typed.
    pub(super) failure: Option<Failure>,
    /// Whether a pack had begun to go out: the server may have taken it.
    pub(super) pack_sent: bool,
}

/// Runs `act` with the address that makes libgit2 come back to `wire` for every byte.
pub(super) fn over<T>(
    wire: &Arc<Wire>,
    act: impl FnOnce(&str) -> Result<T, git2::Error>,
) -> Result<T, WireError> {
    let call = Arc::new(Call {
        wire: Arc::clone(wire),
        failure: Mutex::new(None),
        pack_sent: AtomicBool::new(false),
    });
    let result = register().and_then(|()| {
        let _guard = Entered::enter(Arc::clone(&call));
        act(&format!("{SCHEME}://{}", call.wire.base.host_str().unwrap_or_default()))
    });
    result.map_err(|git| WireError {
        git,
        failure: call.failure.lock().unwrap_or_else(PoisonError::into_inner).take(),
        pack_sent: call.pack_sent.load(Ordering::SeqCst),
    })
}

/// Runs `act`, which connects to a folder of this machine, once no list of transports is written
/// any more: see [`register`].
pub(super) fn beside<T>(act: impl FnOnce() -> Result<T, git2::Error>) -> Result<T, git2::Error> {
    register().and_then(|()| act())
}

impl Wire {
    /// Asks whether the branch could be pushed to, without libgit2: one small request.
    pub(super) fn probe(self: &Arc<Self>) -> Result<(), Failure> {
        let call = Call {
            wire: Arc::clone(self),
            failure: Mutex::new(None),
            pack_sent: AtomicBool::new(false),
        };
        let exchange = Exchange::of(Service::ReceivePackLs);
        call.send(&exchange, Vec::new()).map(drop)
    }

    fn request(&self, exchange: &Exchange, body: Vec<u8>) -> reqwest::RequestBuilder {
        let Exchange { service, advertise, .. } = exchange;
        let (method, tail) = if *advertise {
            (Method::GET, format!("/info/refs?service={service}"))
        } else {
            (Method::POST, format!("/{service}"))
        };
        let address = format!("{}{tail}", self.base.as_str().trim_end_matches('/'));
        let mut request = self.client.request(method, address).timeout(self.total);
        request =
            request.header("User-Agent", "git/2.0 (the-deployer)").header("Pragma", "no-cache");
        if !advertise {
            request = request
                .header("Content-Type", format!("application/x-{service}-request"))
                .header("Accept", exchange.content_type())
                .body(body);
        }
        request
    }

    /// A failure in the writer's words.
    pub(super) fn error(&self, failure: Failure) -> WriteError {
        failure.into_error(self.base.to_string(), self.tokens.help())
    }

    /// Waits for the source of tokens, no longer than for the host itself.
    fn token(
        &self,
        asked: impl Future<Output = TokenAnswer>,
    ) -> Result<Option<SecretString>, Failure> {
        let bounded = async { tokio::time::timeout(self.silence, asked).await };
        let answer = self.runtime.block_on(bounded).unwrap_or_else(|_| {
            let why =
                format!("whoever issues it said nothing for {} s", self.silence.as_secs_f32());
            Err(NoToken { why, next: Disposition::Retry { after: None } })
        });
        Ok(answer?)
    }
}

/// One of the four requests of the protocol.
#[derive(Debug)]
struct Exchange {
    service: &'static str,
    advertise: bool,
    /// The most bytes of an answer.
    limit: u64,
}

impl Exchange {
    /// An advertisement has a line a branch: 64 MiB is half a million of them. A pack can be a
    /// whole repository's tip: 2 GiB. The report of a push is a few lines.
    fn of(service: Service) -> Self {
        const MIB: u64 = 1024 * 1024;
        let (service, advertise, limit) = match service {
            Service::UploadPackLs => ("git-upload-pack", true, 64 * MIB),
            Service::UploadPack => ("git-upload-pack", false, 2048 * MIB),
            Service::ReceivePackLs => ("git-receive-pack", true, 64 * MIB),
            Service::ReceivePack => ("git-receive-pack", false, 16 * MIB),
        };
        Self { service, advertise, limit }
    }

    fn content_type(&self) -> String {
        let kind = if self.advertise { "advertisement" } else { "result" };
        format!("application/x-{}-{kind}", self.service)
    }

    fn is_push(&self) -> bool {
        self.service == "git-receive-pack" && !self.advertise
    }
}

/// One run of [`over`]: shared by the streams that libgit2 opens in it.
#[derive(Debug)]
struct Call {
    wire: Arc<Wire>,
    failure: Mutex<Option<Failure>>,
    pack_sent: AtomicBool,
}

impl Call {
    /// Sends a request; once more with another token, where there is one, if the host answers 401.
    fn send(&self, exchange: &Exchange, body: Vec<u8>) -> Result<reqwest::Response, Failure> {
        let tokens = &self.wire.tokens;
        let request = self.wire.request(exchange, body);
        let again = request.try_clone();
        let token = self.wire.token(tokens.any())?;
        let refused = match (self.exchange(exchange, request, token.as_ref()), token) {
            (Err(Failure::Unauthorized { status: 401 }), Some(token)) => token,
            (other, _) => return other,
        };
        // The host let nothing in, so that nothing can be done twice.
        match (again, self.wire.token(tokens.instead_of(&refused))?) {
            (Some(request), Some(token)) => self.exchange(exchange, request, Some(&token)),
            _ => Err(Failure::Unauthorized { status: 401 }),
        }
    }

    fn exchange(
        &self,
        exchange: &Exchange,
        request: reqwest::RequestBuilder,
        token: Option<&SecretString>,
    ) -> Result<reqwest::Response, Failure> {
        let Wire { runtime, silence, base, .. } = &*self.wire;
        let request = match token {
            Some(token) => request.basic_auth("x-access-token", Some(token.expose_secret())),
            None => request,
        };
        let response = runtime
            .block_on(async { tokio::time::timeout(*silence, request.send()).await })
            .map_err(|_| Failure::silent(*silence))?
            .map_err(|error| Failure::of(&error))?;
        wire::check(&response, base, &exchange.content_type())?;
        Ok(response)
    }

    /// Keeps the typed failure, and gives libgit2 its text.
    fn fail(&self, failure: Failure) -> io::Error {
        let text = failure.to_string();
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        io::Error::other(text)
    }
}

thread_local! {
    static CALL: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

/// Puts a call into the thread-local, and takes it out again also when `act` unwinds.
struct Entered(Option<Arc<Call>>);

impl Entered {
    fn enter(call: Arc<Call>) -> Self {
        Self(CALL.replace(Some(call)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CALL.set(self.0.take());
    }
}

struct Sub;

impl SmartSubtransport for Sub {
    fn action(
        &self,
        _address: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let call = CALL.with_borrow(Clone::clone);
        let call = call.ok_or_else(|| git2::Error::from_str("no HTTP call is under way here"))?;
        let exchange = Exchange::of(service);
        Ok(Box::new(Stream { call, exchange, body: Vec::new(), answer: None }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// A request that is written first and sent when its answer is first read, as git's protocol goes.
struct Stream {
    call: Arc<Call>,
    exchange: Exchange,
    body: Vec<u8>,
    answer: Option<Answer>,
}

struct Answer {
    response: reqwest::Response,
    chunk: io::Cursor<Vec<u8>>,
    received: u64,
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.try_read(into).map_err(|failure| self.call.fail(failure))
    }
}

impl Stream {
    fn try_read(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let Self { call, exchange, body, answer } = self;
        let answer = if let Some(answer) = answer {
            answer
        } else {
            if exchange.is_push() {
                call.pack_sent.store(true, Ordering::SeqCst);
            }
            let response = call.send(exchange, std::mem::take(body))?;
            answer.insert(Answer { response, chunk: io::Cursor::default(), received: 0 })
        };
        if answer.is_read() {
            answer.receive(&call.wire, exchange.limit)?;
        }
        io::Read::read(&mut answer.chunk, into).map_err(|error| Failure::cut(&error))
    }
}

impl Answer {
    fn is_read(&self) -> bool {
        self.chunk.position() >= self.chunk.get_ref().len() as u64
    }

    fn receive(&mut self, wire: &Wire, limit: u64) -> Result<(), Failure> {
        let chunk = wire
            .runtime
            .block_on(async { tokio::time::timeout(wire.silence, self.response.chunk()).await })
            .map_err(|_| Failure::silent(wire.silence))?
            .map_err(|error| Failure::of(&error))?;
        if let Some(bytes) = chunk {
            self.received = self.received.saturating_add(bytes.len() as u64);
            if self.received > limit {
                return Err(Failure::TooLarge { limit });
            }
            self.chunk = io::Cursor::new(bytes.into());
        }
        Ok(())
    }
}

/// Tells libgit2 of the scheme, once in a process.
#[expect(unsafe_code, reason = "libgit2's list of transports has no safe way in; see SAFETY")]
fn register() -> Result<(), git2::Error> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        // SAFETY: `register` appends to a list in libgit2 that is read whenever a transport is
        // made, and must not run beside such a reader or itself. It runs once, inside this lock.
        // All transports of this process are made by this module, in `over` and `beside`, after this lock; the
        // other users of git2 here open repositories and never connect a remote.
        let result = unsafe {
            git2::transport::register(SCHEME, |remote| Transport::smart(remote, true, Sub))
        };
        result.map_err(|error| error.message().to_owned())
    });
    registered.clone().map_err(|message| git2::Error::from_str(&message))
}
