//! Captures the log of one test, among many that run at once. The integration tests use this file too.
//!
//! There is one subscriber for all of them: with one for each test, `tracing` may cache that nobody listens to a line,
//! because at that moment another test's subscriber came or went.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Once;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

thread_local! {
    static LOG: RefCell<Option<ActiveCapture>> = const { RefCell::new(None) };
}

static SUBSCRIBER: Once = Once::new();

/// The log of this thread, until this is dropped. Only for tests that run on one thread, as those of `#[tokio::test]`
/// without a flavour do.
pub(crate) struct CapturedLog(Rc<RefCell<Vec<u8>>>);

#[derive(Clone)]
struct ActiveCapture {
    lines: Rc<RefCell<Vec<u8>>>,
    target: &'static str,
    level: Level,
}

impl CapturedLog {
    /// Captures everything from `level` up whose target begins with `target`: libraries too, if that is empty.
    pub(crate) fn of(target: &'static str, level: Level) -> Self {
        SUBSCRIBER.call_once(|| {
            let of_this_thread = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(|| Lines)
                .with_filter(dynamic_filter_fn(|line, _| is_kept(line)));
            tracing_subscriber::registry().with(of_this_thread).init();
        });
        let lines = Rc::default();
        LOG.set(Some(ActiveCapture { lines: Rc::clone(&lines), target, level }));
        Self(lines)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

impl Drop for CapturedLog {
    fn drop(&mut self) {
        LOG.take();
    }
}

fn is_kept(line: &Metadata<'_>) -> bool {
    let is_wanted =
        |log: &ActiveCapture| *line.level() <= log.level && line.target().starts_with(log.target);
    LOG.try_with(|log| log.borrow().as_ref().is_some_and(is_wanted)).unwrap_or(false)
}

/// The writer to the log of the current thread.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match LOG.with_borrow(Option::clone) {
            Some(log) => log.lines.borrow_mut().write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
