//! What one test logs, among many that run at once.
//!
//! There is one subscriber for all of them: with one per test, `tracing` may remember of a line
//! that nobody listens, because at that moment another test's subscriber came or went.

use std::cell::RefCell;
use std::io::{Write, sink};
use std::rc::Rc;
use std::sync::Once;

use tracing_subscriber::EnvFilter;

thread_local! {
    static LOG: RefCell<Option<Rc<RefCell<Vec<u8>>>>> = const { RefCell::new(None) };
}

static SUBSCRIBER: Once = Once::new();

/// The log of this thread, from [`Log::begin`] until it is read or dropped. Only for tests that
/// run on one thread, as those of `#[tokio::test]` without a flavour do.
pub(crate) struct Log(Rc<RefCell<Vec<u8>>>);

impl Log {
    pub(crate) fn begin() -> Self {
        SUBSCRIBER.call_once(|| {
            tracing_subscriber::fmt()
                .with_env_filter(EnvFilter::new("the_deployer=info"))
                .with_ansi(false)
                .with_writer(of_this_thread)
                .init();
        });
        let lines = Rc::default();
        LOG.set(Some(Rc::clone(&lines)));
        Self(lines)
    }

    /// Ends the log; its lines.
    pub(crate) fn lines(self) -> Vec<String> {
        let text = String::from_utf8(self.0.take()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LOG.take();
    }
}

fn of_this_thread() -> Box<dyn Write> {
    match LOG.with_borrow(Option::clone) {
        Some(lines) => Box::new(Lines(lines)),
        None => Box::new(sink()),
    }
}

struct Lines(Rc<RefCell<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
