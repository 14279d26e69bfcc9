//! All integration tests, as one binary: one folder a suite, the machinery in `harness/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test may fail loudly, and needs real clocks and processes"
)]

mod action;
mod architecture;
mod browser;
mod chaos;
mod cli;
mod cluster;
mod controller;
mod docs;
mod facts;
mod fleets;
mod git;
mod github;
mod harness;
mod outbound;
mod pipeline;
mod progress;
mod notify;
mod rollouts;
mod scenarios;
mod server;
mod service;
mod setup;
mod slack;
mod store;
mod watch;
