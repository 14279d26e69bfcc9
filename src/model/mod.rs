//! The nouns: plain values with their rules of form, and nothing that does anything.
//!
//! Imports nothing of ours, knows no file, no clock and no network. What is here may be
//! stored, printed and sent; a value that exists is well formed.

pub mod deployment;
pub mod event;
pub mod facts;
pub mod id;
pub mod lane;
pub mod release;
pub mod revision;
pub mod status;
pub mod target;
pub mod template;
pub mod violation;
