//! A bug of the program's own, wherever it logs a line: there it panics, once.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::harness::log::CapturedLog;

/// The bug, until it is dropped. Only for tests on one thread, as [`CapturedLog`] is; it keeps no log.
pub(crate) struct Bug {
    happened: Arc<AtomicBool>,
    _of_this_thread: DefaultGuard,
    /// Its subscriber hears all lines of all threads, so that `tracing` does not take any for unheard.
    _log: CapturedLog,
}

impl Bug {
    /// The next line of this thread with these words in its message panics.
    pub(crate) fn at(words: &'static str) -> Self {
        let log = CapturedLog::of("nothing", Level::ERROR);
        let happened = Arc::new(AtomicBool::new(false));
        let panics = Panics { words, happened: Arc::clone(&happened) };
        let subscriber = tracing_subscriber::registry().with(panics);
        Self { happened, _of_this_thread: tracing::subscriber::set_default(subscriber), _log: log }
    }

    /// Whether the line was logged.
    pub(crate) fn happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }
}

struct Panics {
    words: &'static str,
    happened: Arc<AtomicBool>,
}

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let first = message.0.contains(self.words) && !self.happened.swap(true, Ordering::SeqCst);
        assert!(!first, "a bug, which a test has put there");
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}
