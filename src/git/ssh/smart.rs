//! A child `ssh` as a transport of libgit2, which then fetches or pushes over it.
//!
//! As with HTTP, the exchange that is under way stands in a thread-local: libgit2 gives a transport
//! nothing but an address, and works on the calling thread only.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};

use crate::git::ssh::{Failure, Program, Session, Ssh};

/// How libgit2 says goodbye, and nothing else: elsewhere a flush comes with what it ends.
const FLUSH: &[u8] = b"0000";

/// An exchange of libgit2's.
pub(in crate::git) struct Exchange {
    ssh: Arc<Ssh>,
    failure: Mutex<Option<Failure>>,
    pack_sent: AtomicBool,
}

impl Exchange {
    pub(in crate::git) fn new(ssh: &Arc<Ssh>) -> Arc<Self> {
        let ssh = Arc::clone(ssh);
        Arc::new(Self { ssh, failure: Mutex::new(None), pack_sent: AtomicBool::new(false) })
    }

    /// Runs `act`, in which libgit2 comes to [`Sub`] for every byte.
    pub(in crate::git) fn run<T>(self: &Arc<Self>, act: impl FnOnce() -> T) -> T {
        let _left_at_the_end = Entered(UNDER_WAY.replace(Some(Arc::clone(self))));
        act()
    }

    /// Why it failed, where ssh did; and whether the server may have taken a pack.
    pub(in crate::git) fn outcome(&self) -> (Option<Failure>, bool) {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        (failure, self.pack_sent.load(Ordering::SeqCst))
    }

    /// Keeps the typed failure, and gives libgit2 its text, which must not hold a NUL.
    fn fail(&self, failure: Failure) -> String {
        let text = failure.to_string().replace('\0', " ");
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        text
    }
}

thread_local! {
    static UNDER_WAY: RefCell<Option<Arc<Exchange>>> = const { RefCell::new(None) };
}

/// Puts back what was there before, also when the work unwinds.
struct Entered(Option<Arc<Exchange>>);

impl Drop for Entered {
    fn drop(&mut self) {
        UNDER_WAY.set(self.0.take());
    }
}

/// What libgit2 opens its streams with.
pub(in crate::git) struct Sub;

impl SmartSubtransport for Sub {
    /// Called once for each connection: what follows the list of branches goes over the same
    /// stream.
    fn action(
        &self,
        _address: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let exchange = UNDER_WAY.with_borrow(Clone::clone);
        let exchange =
            exchange.ok_or_else(|| git2::Error::from_str("no exchange over ssh is under way"))?;
        let program = match service {
            Service::UploadPackLs | Service::UploadPack => Program::UploadPack,
            Service::ReceivePackLs | Service::ReceivePack => Program::ReceivePack,
        };
        match exchange.ssh.open(program) {
            Ok(session) => Ok(Box::new(Stream { exchange, session, program })),
            Err(failure) => Err(git2::Error::from_str(&exchange.fail(failure))),
        }
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

struct Stream {
    exchange: Arc<Exchange>,
    session: Session,
    program: Program,
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes == FLUSH {
            self.session.say_goodbye();
            return Ok(bytes.len());
        }
        if self.program == Program::ReceivePack {
            self.exchange.pack_sent.store(true, Ordering::SeqCst);
        }
        let sent = self.session.write(bytes);
        sent.map_err(|failure| io::Error::other(self.exchange.fail(failure)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.session.read(into);
        read.map_err(|failure| io::Error::other(self.exchange.fail(failure)))
    }
}
