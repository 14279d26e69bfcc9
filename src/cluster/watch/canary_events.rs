//! Reads the events of a canary that is held back: they say why, and its status does not.
//!
//! They are read when the Canary changes, and not watched: most clusters have many thousand events that nobody here
//! needs. Without the right to list them everything goes on without the reason.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube::core::params::ListParams;
use serde_json::Value as Json;

use crate::cluster::canary_report::read_report;
use crate::cluster::flagger::{CanaryReport, FlaggerCanary};
use crate::cluster::watch::protocol::{ListPage, WatchProblem};
use crate::cluster::watched::WatchedObject;

/// The longest wait for the events: the change of the Canary waits as long.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause before they are read once more: Flagger writes an event beside the status, and not before it.
const PAUSE: Duration = Duration::from_millis(300);
/// The most events of one canary that are read. Flagger's own are about twenty.
const MAX_EVENTS: u32 = 200;
/// The most bytes of them.
const MAX_BYTES: usize = 1 << 20;
/// The most canaries of one list whose events are read: the list goes on after those.
pub(super) const MAX_REPORTS: usize = 50;

/// Adds the reason to a Canary that is held back; returns true if events were read.
pub(super) async fn add_report(client: &Client, object: &mut WatchedObject) -> bool {
    let WatchedObject::Canary(canary) = object else { return false };
    if !canary.is_held_back() {
        return false;
    }
    let fetch = async {
        let first = fetch_report(client, canary).await?;
        if first.is_some() {
            return Ok(first);
        }
        tokio::time::sleep(PAUSE).await;
        fetch_report(client, canary).await
    };
    let report: Result<Option<CanaryReport>, WatchProblem> =
        tokio::time::timeout(PATIENCE, fetch).await.unwrap_or(Ok(None));
    if let Err(problem) = &report {
        let (namespace, name) = (&*canary.meta.namespace, &*canary.meta.name);
        tracing::debug!(namespace, name, ?problem, "events of a canary not read");
    }
    canary.report = report.unwrap_or_default();
    true
}

async fn fetch_report(
    client: &Client,
    canary: &FlaggerCanary,
) -> Result<Option<CanaryReport>, WatchProblem> {
    let page =
        ListPage::fetch_bounded(client, events_request(canary)?, MAX_BYTES, PATIENCE).await?;
    let parts = page.parts()?;
    let events: Vec<Json> = parts.objects().collect();
    Ok(read_report(&events))
}

fn events_request(canary: &FlaggerCanary) -> Result<Request<Vec<u8>>, WatchProblem> {
    let name = &canary.meta.name;
    let params = ListParams {
        field_selector: Some(format!("involvedObject.kind=Canary,involvedObject.name={name}")),
        limit: Some(MAX_EVENTS),
        ..ListParams::default()
    };
    let path = format!("/api/v1/namespaces/{}/events", canary.meta.namespace);
    let request = kube::core::Request::new(path).list(&params);
    request.map_err(|error| WatchProblem::Failed(error.to_string()))
}
