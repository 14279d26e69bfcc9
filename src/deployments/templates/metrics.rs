//! What is measured of the templates.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::model::id::CommitSha;

/// The metrics of the templates. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    info: Family<Info, Gauge>,
    current: Gauge,
    age: Gauge,
    refused: Counter,
    unreachable: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Info {
    origin: String,
    commit: String,
}

impl Metrics {
    /// Metrics that the registry knows; what only a repository has, only where there is one.
    pub(super) fn new(registry: &mut Registry, followed: bool) -> Self {
        let new = Self::default();
        let Self { info, current, age, refused, unreachable } = new.clone();
        registry.register("templates_info", "The templates in use; always 1", info);
        if !followed {
            return new;
        }
        registry.register_with_unit(
            "templates_current_timestamp",
            "When the templates in use were last seen to be those on their branch",
            Unit::Seconds,
            current,
        );
        let about =
            "Since when nobody has seen that the templates in use are those on their branch";
        registry.register_with_unit("templates_age", about, Unit::Seconds, age);
        let about = "Commits of the templates that were refused because they are broken";
        registry.register("templates_refused", about, refused);
        let about = "Looks at the templates' repository that failed";
        registry.register("templates_unreachable", about, unreachable);
        new
    }

    pub(super) fn in_use(&self, origin: &str, commit: Option<&CommitSha>) {
        self.info.clear();
        let commit = commit.map(ToString::to_string).unwrap_or_default();
        self.info.get_or_create(&Info { origin: origin.to_owned(), commit }).set(1);
    }

    pub(super) fn current(&self, at: Timestamp) {
        self.current.set(at.as_second());
    }

    pub(super) fn age(&self, seconds: i64) {
        self.age.set(seconds);
    }

    pub(super) fn refused(&self) {
        self.refused.inc();
    }

    pub(super) fn unreachable(&self) {
        self.unreachable.inc();
    }
}
