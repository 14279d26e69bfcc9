//! Whether somebody edited an app's `latest` by hand, and what. Pure.
//!
//! `latest` is always one of the app's revisions, whoever put it there: a deployment, or a person who
//! rolled back by hand. Files that no revision has are an edit. It is told against the revision that
//! differs least. Knows no repository: `look` reads there.

mod afterwards;
mod difference;
mod look;
mod secret;
mod watch;

pub(super) use crate::git::handedit::look::look;
pub use crate::git::handedit::watch::Watch;
