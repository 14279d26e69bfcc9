//! The machinery of the tests, so that a test itself reads as a sentence.

pub(crate) mod api_server; // of Kubernetes
pub(crate) mod argocd;
pub(crate) mod attack; // what somebody without the secret can do
pub(crate) mod balancer; // several services behind one address
pub(crate) mod browser; // a real Chromium
pub(crate) mod bigquery; // tables, streaming inserts, and tokens
pub(crate) mod buffering; // a proxy that holds streams back
pub(crate) mod database;
pub(crate) mod deployer;
pub(crate) mod developer; // a working folder, and bart in it
pub(crate) mod device; // GitHub's device flow
pub(crate) mod events;
pub(crate) mod folder;
pub(crate) mod flagger; // Flagger's controller
pub(crate) mod fault; // a bug of the program's own
pub(crate) mod floods; // answers of a hostile registry
pub(crate) mod git;
pub(crate) mod git_host;
pub(crate) mod github;
pub(crate) mod link; // a connection that can be cut
#[path = "../../src/support/log.rs"]
pub(crate) mod log;
pub(crate) mod monitoring; // a real Prometheus and Alertmanager
pub(crate) mod memory; // how much of it something takes
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod receiver;
pub(crate) mod proxy;
pub(crate) mod registry;
pub(crate) mod requests;
pub(crate) mod rollbacks;
pub(crate) mod secrets;
pub(crate) mod secret_stores; // stores that people use with their own login
pub(crate) mod slack;
pub(crate) mod sse; // a client of server-sent events
pub(crate) mod sshd;
pub(crate) mod tap; // the way to the database
pub(crate) mod terminal; // what a program draws
pub(crate) mod tls;
pub(crate) mod wire; // between bart and a service

/// Whether a program is not installed, which is said; where all tests are required, that is a failure.
#[expect(clippy::print_stderr, reason = "who reads the tests' output must see what was left out")]
pub(crate) fn is_missing(program: &str, tests: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let required = std::env::var("THE_DEPLOYER_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
    assert!(found || !required, "{program} is not installed, and all tests are required");
    if !found {
        eprintln!("SKIPPED: {tests}, because {program} is not installed");
    }
    !found
}
