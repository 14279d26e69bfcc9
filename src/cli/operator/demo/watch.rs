//! Reads the end of each stage from the log lines that the service writes.

use std::fmt::Debug;

use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::error::CliError;

/// A stage that has ended.
#[derive(Debug, Default)]
pub(super) struct EndedStage {
    pub(super) deployment: String,
    pub(super) stage: String,
    pub(super) micros: Option<u64>,
}

/// The size of the queue: a deployment has seven stages, so it never fills up.
const WAITING: usize = 256;

/// Listens to this process's log from now on; prints errors on standard error.
pub(super) fn install() -> Result<mpsc::Receiver<EndedStage>, CliError> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let errors = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .compact()
        .with_filter(tracing_subscriber::filter::LevelFilter::from_level(Level::ERROR));
    let installed = tracing_subscriber::registry().with(Stages { sender }).with(errors).try_init();
    installed.map_err(|error| CliError::io(format!("cannot listen to the log: {error}")))?;
    Ok(receiver)
}

struct Stages {
    sender: mpsc::Sender<EndedStage>,
}

impl<S: Subscriber> Layer<S> for Stages {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "the_deployer::stage" {
            let mut stage = EndedStage::default();
            event.record(&mut stage);
            if stage.micros.is_some() {
                let _ = self.sender.try_send(stage);
            }
        }
    }
}

impl Visit for EndedStage {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "deployment" {
            self.deployment = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "stage" {
            value.clone_into(&mut self.stage);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "micros" {
            self.micros = Some(value);
        }
    }
}
