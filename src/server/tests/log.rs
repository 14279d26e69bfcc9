//! What is logged, captured.

use std::sync::{Arc, Mutex};

/// Collects everything that is logged on this thread until it is dropped.
pub(super) struct Log {
    bytes: Arc<Mutex<Vec<u8>>>,
    _guard: tracing::subscriber::DefaultGuard,
}

struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub(super) fn captured() -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let sink = bytes.clone();
        let log = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || Sink(sink.clone()))
            .finish();
        Self { bytes, _guard: tracing::subscriber::set_default(log) }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}
