//! The ways to a server, as a transport of libgit2.
//!
//! libgit2 knows the protocol of a fetch; this module only moves its bytes. libgit2 gives a transport nothing but an
//! address, so the call that is under way is in a thread-local. libgit2 works on the calling thread only, and reports
//! back through the same call.

pub(super) mod http;
pub mod ssh;
pub mod token;
pub(super) mod remote;
pub(super) mod failure;
pub(crate) mod push;
pub mod address;
pub mod push_rejection;

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};

use crate::git::error::StepError;
use crate::git::transport::failure::Failure;
use crate::git::transport::http::{Exchange, HttpRemote};
use crate::git::transport::remote::Remote;
use crate::git::transport::ssh::options::GitService;
use crate::git::transport::ssh::session::Session;
use crate::git::writer::fence::Fence;
use crate::support::sync::lock;

/// The scheme of the address for libgit2; the real address is in the call.
const SCHEME: &str = "the-deployer";
/// The scheme for a transport with one connection in both directions.
const SPOKEN_SCHEME: &str = "the-deployer-ssh";

/// A failed exchange.
pub(super) struct WireError {
    /// libgit2's view.
    pub(super) git: git2::Error,
    /// The transport's own error: more exact, and typed.
    pub(super) failure: Option<Failure>,
    /// True if a pack had begun to go out: the server may have accepted it.
    pub(super) pack_sent: bool,
}

impl WireError {
    /// Converts it into the writer's error, where the transport failed.
    pub(super) fn into_step_error(self, remote: &Remote) -> StepError {
        match self.failure {
            Some(failure) => remote.error(failure).into(),
            None => StepError::Damaged(self.git),
        }
    }
}

/// Runs `act` with the address that makes libgit2 call `remote` for every byte. When the fence closes, the exchange is
/// cut.
pub(super) fn over<T>(
    remote: &Remote,
    fence: &Fence,
    act: impl FnOnce(&str) -> Result<T, git2::Error>,
) -> Result<T, WireError> {
    let call = Arc::new(Call {
        remote: remote.clone(),
        fence: fence.clone(),
        failure: Mutex::new(None),
        pack_sent: AtomicBool::new(false),
    });
    let result = register().and_then(|()| {
        let _guard = Entered::enter(Arc::clone(&call));
        // The host is for libgit2 alone.
        act(&match remote {
            Remote::Http(wire) => {
                format!("{SCHEME}://{}", wire.base.host_str().unwrap_or_default())
            }
            Remote::Ssh(_) => format!("{SPOKEN_SCHEME}://ssh"),
        })
    });
    result.map_err(|git| WireError {
        git,
        failure: lock(&call.failure).take(),
        pack_sent: call.pack_sent.load(Ordering::SeqCst),
    })
}

/// Runs `act`, which connects to a folder of this machine, once no list of transports is written
/// any more: see [`register`].
pub(super) fn with_local_transport<T>(
    act: impl FnOnce() -> Result<T, git2::Error>,
) -> Result<T, git2::Error> {
    register().and_then(|()| act())
}

/// One run of [`over`]: shared by the streams that libgit2 opens in it.
#[derive(Debug)]
struct Call {
    remote: Remote,
    fence: Fence,
    failure: Mutex<Option<Failure>>,
    pack_sent: AtomicBool,
}

impl Call {
    /// Keeps the typed failure, and gives libgit2 its text, which must not hold a NUL.
    fn fail(&self, failure: Failure) -> io::Error {
        let text = failure.to_string().replace('\0', " ");
        *lock(&self.failure) = Some(failure);
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
        let call = call.ok_or_else(|| git2::Error::from_str("no call is under way here"))?;
        match &call.remote {
            Remote::Http(wire) => {
                let exchange = match service {
                    Service::UploadPackLs => Exchange::UPLOAD_PACK_REFS,
                    Service::UploadPack => Exchange::UPLOAD_PACK,
                    Service::ReceivePackLs => Exchange::RECEIVE_PACK_REFS,
                    Service::ReceivePack => Exchange::RECEIVE_PACK,
                };
                Ok(Box::new(Stream {
                    wire: wire.within(&call.fence),
                    call,
                    exchange,
                    body: Vec::new(),
                    response: None,
                    chunk: io::Cursor::default(),
                    received: 0,
                }))
            }
            // libgit2 asks for this once a connection: what follows the list of branches goes over the
            // same.
            Remote::Ssh(ssh) => {
                let program = match service {
                    Service::UploadPackLs | Service::UploadPack => GitService::UploadPack,
                    Service::ReceivePackLs | Service::ReceivePack => GitService::ReceivePack,
                };
                let session = ssh.open(program);
                let mut session = session
                    .map_err(|failure| git2::Error::from_str(&call.fail(failure).to_string()))?;
                session.within(&call.fence);
                Ok(Box::new(Spoken { call, session, program }))
            }
        }
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// A connection on which the server speaks first.
struct Spoken {
    call: Arc<Call>,
    session: Session,
    program: GitService,
}

impl io::Write for Spoken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // libgit2's goodbye, and nothing else: elsewhere a flush comes with what it ends.
        if bytes == b"0000" {
            self.session.end_request();
            return Ok(bytes.len());
        }
        if self.program == GitService::ReceivePack {
            self.call.pack_sent.store(true, Ordering::SeqCst);
        }
        self.session.write(bytes).map_err(|failure| self.call.fail(failure))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Spoken {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.session.read(into).map_err(|failure| self.call.fail(failure))
    }
}

/// A request that is written first and sent when its answer is first read, as git's protocol goes.
struct Stream {
    call: Arc<Call>,
    wire: HttpRemote,
    exchange: Exchange,
    body: Vec<u8>,
    response: Option<reqwest::Response>,
    /// The part of the answer that was not read yet.
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
        self.receive().map_err(|failure| self.call.fail(failure))?;
        io::Read::read(&mut self.chunk, into)
    }
}

impl Stream {
    /// Sends the request, and waits for more of the answer if nothing of it is here.
    fn receive(&mut self) -> Result<(), Failure> {
        let Self { call, wire, exchange, body, response, chunk, received } = self;
        let response = if let Some(response) = response {
            response
        } else {
            if exchange.is_push() {
                call.pack_sent.store(true, Ordering::SeqCst);
            }
            response.insert(wire.send(*exchange, std::mem::take(body))?)
        };
        if chunk.position() < chunk.get_ref().len() as u64 {
            return Ok(());
        }
        if let Some(bytes) = wire.chunk(response)? {
            *received = received.saturating_add(bytes.len() as u64);
            if *received > exchange.limit {
                return Err(Failure::TooLarge(exchange.limit));
            }
            *chunk = io::Cursor::new(bytes);
        }
        Ok(())
    }
}

/// Registers the scheme with libgit2, once in a process.
#[expect(unsafe_code, reason = "libgit2's list of transports has no safe way in; see SAFETY")]
fn register() -> Result<(), git2::Error> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        // SAFETY: `register` appends to a list in libgit2 that is read whenever a transport is
        // made, and must not run beside such a reader or itself. It runs once, inside this lock.
        // All transports of this process are made by this module, in `over` and `with_local_transport`, after this lock; the
        // other users of git2 here open repositories and never connect a remote.
        let smart_http = unsafe {
            git2::transport::register(SCHEME, |remote| Transport::smart(remote, true, Sub))
        };
        // SAFETY: as above.
        let spoken_registration = unsafe {
            git2::transport::register(SPOKEN_SCHEME, |remote| Transport::smart(remote, false, Sub))
        };
        smart_http.and(spoken_registration).map_err(|error| error.message().to_owned())
    });
    registered.clone().map_err(|message| git2::Error::from_str(&message))
}
