//! Whether an image's tag exists: the OCI distribution API, with its tokens.
//!
//! ```text
//! HEAD /v2/<name>/manifests/<tag> ─▶ 200 it is there, 404 it is not
//!         │ 401 WWW-Authenticate: Bearer realm=…
//!         ▼
//! GET realm?service=…&scope=…  (our name and password, if we have them) ─▶ a token, and again
//! ```
//!
//! Tags hardly ever go away, so that one is there is remembered for minutes; that it is not only
//! for seconds, because somebody waits for it to be pushed.

mod client; // whether a tag is there, with the proof that the registry wants
mod route; // to hosts that are named, and to public ones
mod listing; // pages of tags
mod tags; // which tags are kept, and which of them are looked at
mod image_config; // what a manifest and an image's configuration say
mod builds; // the newest images

pub use crate::lookups::registry::builds::{BuildsRange, ImageBuilds};
pub use crate::lookups::registry::client::{ImageLookup, NOT_THERE, Registries, THERE};
pub use crate::lookups::registry::image_config::ImageBuild;
pub use crate::lookups::registry::route::{ANY_OTHER, BasicLogin, RegistryAccess};
