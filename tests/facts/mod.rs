//! Tests the lookups: each client against a stand-in that speaks its protocol, and all of them together.

mod gather; // all facts of one deployment
mod registry;
mod builds;
mod strangers; // where developers and registries send us
mod gates; // of rollouts
mod secrets; // Vault, and an API server
mod tls; // an API server as it really is

use std::time::Duration;

use the_deployer::lookups::LookupLimits;

/// Enough for loopback, even where every core is busy; and soon over where nobody answers.
const PATIENCE: LookupLimits = LookupLimits { one_try: Duration::from_millis(500), at_once: 4 };

/// What makes TLS; the program does it at its start.
fn provider() {
    the_deployer::support::http::install_tls_provider();
}
