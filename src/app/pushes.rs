//! Metrics of the writers of the manifest repositories, for Prometheus.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::deployments::ServedRepository;
use crate::git::writer::{ManifestRepository, WriterCounts};

/// A collector that reads the writers' counters at each scrape.
struct Pushes(Vec<(String, ManifestRepository)>);

/// Registers the metrics of these repositories' writers.
pub(super) fn register(registry: &mut Registry, manifests: &[ServedRepository]) {
    let repositories =
        manifests.iter().map(|served| (served.name.clone(), served.repository.clone()));
    registry.register_collector(Box::new(Pushes(repositories.collect())));
}

impl Collector for Pushes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.encode_each(
            &mut encoder,
            ("manifest_pushes", "Pushes that moved a manifest repository's branch."),
            |totals| ConstCounter::new(totals.pushes),
        )?;
        self.encode_each(
            &mut encoder,
            ("manifest_changes", "Deployments and removals in those pushes."),
            |totals| ConstCounter::new(totals.changes),
        )?;
        self.encode_each(
            &mut encoder,
            (
                "manifest_changes_waiting",
                "Changes that wait for a push, or are in a push under way.",
            ),
            |totals| ConstGauge::new(i64::try_from(totals.waiting).unwrap_or(i64::MAX)),
        )
    }
}

impl Pushes {
    fn encode_each<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        value: impl Fn(WriterCounts) -> M,
    ) -> Result<(), fmt::Error> {
        let kind = value(WriterCounts { pushes: 0, changes: 0, waiting: 0 }).metric_type();
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (name, repository) in &self.0 {
            let label = [("repository", name.as_str())];
            value(repository.counts()).encode(family.encode_family(&label)?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Pushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
