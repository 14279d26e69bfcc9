//! The embedded database as a file: copied while a service uses it, and put back.
//!
//! Never brings tables up to date: a backup is made before an upgrade, by the version that was.

mod backup; // a copy of one moment, proved
mod file; // the file, and what may go wrong with it
mod restore; // a copy takes its place again

pub use crate::store::embedded::file::{Contents, Embedded, EmbeddedError};
pub use crate::store::embedded::restore::Restored;
