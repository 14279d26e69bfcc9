//! Machinery shared by the suites.

pub(crate) mod git;
pub(crate) mod git_host;
