//! Holds that deployments will end are told before they are asked for: a hold is there because somebody wants nothing
//! else to be deployed for a while.

use jiff::Timestamp;
use serde::Deserialize;

use super::super::client::Server;
use super::super::offline::WAML_FILE;
use super::super::output::{self, NOTE};
use super::super::times::Times;
use super::tree::Tree;
use crate::model::id::{AppKey, TargetName};
use crate::waml::Waml;

/// What matters here of an app.
#[derive(Debug, Deserialize)]
struct App {
    #[serde(default)]
    hold: Option<Hold>,
}

#[derive(Debug, Deserialize)]
struct Hold {
    by: String,
    reason: String,
    since: Timestamp,
}

/// Tells which holds there are on the targets. Where the WAML is not here, or the service does not say, nothing is told:
/// the hold is judged by the service all the same.
pub(super) async fn tell(server: &Server, tree: &Tree, targets: &[TargetName]) {
    let waml = tree.waml.as_ref().and_then(|bytes| Waml::parse(WAML_FILE, bytes).ok());
    let Some(AppKey { namespace, slug }) = waml.map(|waml| waml.app.clone()) else { return };
    for target in targets {
        let path = format!("/api/v1/apps/{target}/{namespace}/{slug}");
        if let Ok(Some(App { hold: Some(hold) })) = server.find(&path).await {
            output::note(&note(target, &hold, Times::system()));
        }
    }
}

fn note(target: &TargetName, hold: &Hold, times: Times) -> String {
    let Hold { by, reason, since } = hold;
    format!(
        "{NOTE}note{NOTE:#}: {target} is held by {by}, {}: {reason}; a person's deployment of another release ends the \
         hold\n",
        times.ago(*since)
    )
}
