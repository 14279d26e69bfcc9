//! The machinery of the tests, so that a test itself reads as a sentence.

pub(crate) mod database;
pub(crate) mod deployer;
pub(crate) mod events;
pub(crate) mod git;
pub(crate) mod git_host;
pub(crate) mod github;
pub(crate) mod log;
pub(crate) mod lost;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod receiver;
pub(crate) mod proxy;
pub(crate) mod registry;
pub(crate) mod requests;
pub(crate) mod secrets;
pub(crate) mod service;
pub(crate) mod slack;
pub(crate) mod sshd;
pub(crate) mod tls;
pub(crate) mod world;
