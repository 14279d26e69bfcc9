//! Checks that the servers of gates can be asked, before a rollout waits for them.

use crate::config::settings::Settings;
use crate::lookups::gates::clients::GateClients;
use crate::model::violation::Violation;

/// Asks Prometheus for the value of `1` and Alertmanager for its status, where they are configured; returns what is
/// wrong. HTTP gates name their addresses later.
pub async fn check_gates(settings: &Settings) -> Vec<Violation> {
    crate::support::http::install_tls_provider();
    let clients = match GateClients::new(settings.gates.clone(), &settings.outbound) {
        Ok(clients) => clients,
        Err(error) => return vec![violation("gates", &error.to_string())],
    };
    let faults = clients.check().await;
    let violations =
        faults.into_iter().map(|(part, reason)| violation(&format!("gates.{part}"), &reason.0));
    violations.collect()
}

fn violation(path: &str, reason: &str) -> Violation {
    let message = format!("`{path}` cannot be asked: {reason}");
    let help = "no gate of that kind would pass: docs/rollouts.md says what it needs";
    Violation::error("configuration", message).at(path, None).help(help)
}
