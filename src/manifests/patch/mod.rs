//! Changes of rendered objects: a merge as `kubectl patch` does it, and JSON Patch.
//!
//! [`merge`] and [`operations`] change an object; [`protected`] finds what must not have changed. Pure.

pub(crate) mod merge; // strategic merge
pub(crate) mod operations; // JSON Patch
pub(crate) mod protected; // what stays as it was rendered

/// The deepest that a patched object nests, as deep as what a template renders.
const MAX_DEPTH: usize = crate::manifests::object::BUDGET.depth;

/// The reason why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchError {
    /// The message, one sentence without a full stop.
    pub(crate) message: String,
    /// The way out.
    pub(crate) help: String,
}

impl PatchError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}
