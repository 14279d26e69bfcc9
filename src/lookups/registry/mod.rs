//! Registries: lookups of an image's tag and of the newest builds, over the OCI distribution API with its tokens.
//!
//! ```text
//! HEAD /v2/<name>/manifests/<tag> ─▶ 200 it exists, 404 it does not
//!         │ 401 WWW-Authenticate: Bearer realm=…
//!         ▼
//! GET realm?service=…&scope=…  (the configured name and password, if any) ─▶ a token, and again
//! ```
//!
//! `client` looks up a tag, `builds` the newest images, with `listing`, `tags` and `image_config` for its answers;
//! `route` decides which hosts may be asked.
//!
//! Tags hardly ever go away, so an existing tag is cached for minutes; a missing one only for seconds, because a person
//! waits for it to be pushed.

mod client; // tags, with the login that the registry requires
mod route; // configured hosts, and public ones
mod listing; // pages of tags
mod tags; // the choice of tags to look up
mod image_config; // manifests and image configurations
mod builds; // the newest images

pub use crate::lookups::registry::builds::{BuildsRange, ImageBuilds};
pub use crate::lookups::registry::client::{ImageLookup, NOT_THERE, Registries, THERE};
pub use crate::lookups::registry::image_config::ImageBuild;
pub use crate::lookups::registry::route::{ANY_OTHER, BasicLogin, RegistryAccess};
