//! Sets up logs and metrics: their format and destination, not their content.
//!
//! Reads no environment: the filter is an argument. Knows no metric; each part registers its own.

use std::hash::Hash;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, ParseError, filter_fn};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The default filter.
pub const DEFAULT_FILTER: &str = "info";

/// The libraries that write whole requests at `debug` or `trace`, tokens in headers included.
const NEVER_BELOW_INFO: [&str; 4] = ["h2", "hyper", "hyper_util", "reqwest"];

/// The library that writes each failed request as an error, and whole answers as warnings. A failure at a cluster is
/// logged once, where it is handled.
const NEVER: &str = "kube_client";

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: one compact line, coloured on a terminal.
    #[default]
    #[value(help = "For people")]
    Text,
    /// For machines: one JSON object on each line, with the event's fields at its top.
    #[value(help = "One JSON object a line")]
    Json,
}

/// The reason why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be parsed.
    #[error("the log filter {filter:?} cannot be read: write it like `info,the_deployer=debug`")]
    Filter {
        /// The filter as given.
        filter: String,
        /// The parser's error.
        source: ParseError,
    },
    /// Logging is set up already.
    #[error("logging is set up already")]
    Twice,
}

/// Writes this process's log to standard error.
///
/// # Errors
/// [`LogError`] if the filter cannot be read, or at the second call.
pub fn init(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let colour = std::io::stderr().is_terminal();
    subscriber(format, filter, colour, std::io::stderr)?.try_init().map_err(|_| LogError::Twice)
}

/// Makes a subscriber that writes a log of that format.
///
/// # Errors
/// [`LogError::Filter`]
pub fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    colour: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = match filter.trim() {
        "" => DEFAULT_FILTER,
        filter => filter,
    };
    let parsed = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    let base = tracing_subscriber::registry().with(parsed).with(filter_fn(is_safe));
    let lines = fmt::layer().with_ansi(colour).with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(base.with(lines.with_target(false).compact())),
        LogFormat::Json => {
            // The module would take the key of an event's own `target`, the deployment's.
            let json = lines.with_target(false).json().flatten_event(true);
            Box::new(base.with(json.with_current_span(true).with_span_list(false)))
        }
    })
}

/// Returns whether an event may be logged, whatever the filter says: more detail must never print a token.
fn is_safe(metadata: &Metadata<'_>) -> bool {
    let krate = metadata.target().split("::").next().unwrap_or_default();
    krate != NEVER && (*metadata.level() <= Level::INFO || !NEVER_BELOW_INFO.contains(&krate))
}

/// All metrics of this process; clones share them.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Registry::with_prefix("the_deployer"))))
    }
}

impl Metrics {
    /// Lets a part of the program register its metrics.
    pub fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes all metrics in the text format that Prometheus reads.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("writing into a String does not fail");
        text
    }
}

/// Exports a counter with 0 for each of these labels. Prometheus sees no increase in a series that begins with its first
/// event, so an alert would miss that one.
pub fn export_zeros<L>(counter: &Family<L, Counter>, labels: impl IntoIterator<Item = L>)
where
    L: Clone + Eq + Hash,
{
    for labels in labels {
        drop(counter.get_or_create(&labels));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = subscriber(format, filter, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(log, || {
            let span = tracing::info_span!("job", deployment = "20261121-054812123-3f9a2c");
            let _entered = span.enter();
            tracing::info!(stage = "push", target = "prod", "stage ends");
            tracing::trace!(target: "hyper::proto", "authorization: Bearer s3cret");
            tracing::error!(target: "kube_client::client", "{{\"data\": \"s3cret\"}}");
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_lines_carry_the_fields_and_the_span_they_are_in() {
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, "")).unwrap();
        assert_eq!(line["message"], "stage ends");
        assert_eq!(line["stage"], "push");
        assert_eq!(line["target"], "prod");
        assert_eq!(line["span"]["deployment"], "20261121-054812123-3f9a2c");
    }

    #[test]
    fn text_lines_carry_them_too() {
        let text = logged(LogFormat::Text, "info");
        assert!(text.contains("stage ends") && text.contains("20261121-054812123"), "{text}");
    }

    #[test]
    fn crates_that_write_headers_stay_quiet_whatever_the_filter_says() {
        for filter in ["trace", "hyper=trace", "info,hyper::proto=trace", "kube_client=trace"] {
            let text = logged(LogFormat::Text, filter);
            assert!(!text.contains("s3cret"), "{filter}: {text}");
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused_with_an_example() {
        let Err(error) = subscriber(LogFormat::Text, "info,=x=", false, std::io::sink) else {
            panic!("read");
        };
        assert!(error.to_string().contains("info,the_deployer=debug"), "{error}");
    }

    #[test]
    fn metrics_are_encoded_for_prometheus() {
        let metrics = Metrics::default();
        let counter = Counter::<u64>::default();
        metrics.register(|registry| registry.register("events", "Events", counter.clone()));
        counter.inc();
        assert!(metrics.encode().contains("the_deployer_events_total 1"), "{}", metrics.encode());
        assert!(metrics.encode().ends_with("# EOF\n"));
    }
}
