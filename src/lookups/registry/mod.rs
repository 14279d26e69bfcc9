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

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use tokio::sync::Semaphore;

use crate::lookups::credential::Credential;
use crate::lookups::http::Patience;
use crate::lookups::image::Image;
use crate::lookups::registry::builds::ListOrder;
use crate::lookups::registry::question::{Kept, Question, Wanted};
use crate::lookups::registry::route::Route;
use crate::lookups::{NotKnown, SettingsError};
use crate::support::cache::Cache;
use crate::support::http::Outbound;
use crate::support::sync::lock;
use crate::support::time::saturating_add;

pub use crate::lookups::registry::builds::Builds;
pub use crate::lookups::registry::builds::BuildsRange;
pub use crate::lookups::registry::made::Build;

mod route; // to hosts that are named, and to public ones
mod question; // one question, with the proof that the registry wants
mod listing; // pages of tags
mod tags; // which tags are kept, and which of them are looked at
mod made; // what a manifest and an image's configuration say
mod builds; // the newest images

/// How long it is remembered that a tag is there.
pub const THERE: SignedDuration = SignedDuration::from_mins(10);
/// How long it is remembered that a tag is not there.
pub const NOT_THERE: SignedDuration = SignedDuration::from_secs(5);
/// A thousand apps on a few tags each.
const IMAGES: usize = 4096;
const TOKENS: usize = 1024;
/// Lists of builds whose order is remembered: as many as people page through at a time.
const ORDERS: usize = 64;
/// Errors of a registry are short; of a manifest nothing is read.
const ANSWER_BYTES: usize = 16 * 1024;

/// Lists of builds that are made at once: each may hold a page of tags and several manifests in memory.
const LISTS_AT_ONCE: usize = 4;

/// Every kind that a tag can lead to; a registry says 404 for a kind that is not named.
const KINDS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.v1+prettyjws, */*;q=0.1";

/// Every other registry that is on the Internet, asked without credentials.
pub const ANY_OTHER: &str = "*";

/// What is configured of one registry.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Who we are there; `None`: anybody.
    pub login: Option<Login>,
    /// Whether it is reached by http. Everything goes in the clear then.
    pub insecure: bool,
}

/// A name and a password.
#[derive(Debug, Clone)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password, or a token in its place.
    pub password: Credential,
}

/// The registries that may be asked.
#[derive(Debug)]
pub struct Registries {
    route: Route,
    known: BTreeMap<String, Registry>,
    images: Mutex<Cache<Image, (bool, Timestamp)>>,
    tokens: Mutex<Cache<(String, String), Kept>>,
    builds: Mutex<Cache<Image, Build>>,
    /// By image without a reference.
    orders: Mutex<Cache<Image, ListOrder>>,
    /// Lists of builds that may be made now.
    lists: Semaphore,
}

/// What was found, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whether the tag is there.
    pub there: bool,
    /// When the registry said so.
    pub at: Timestamp,
}

impl Registries {
    /// The registries by host, as people name them; [`ANY_OTHER`] is a host too.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(
        known: BTreeMap<String, Registry>,
        patience: Patience,
        outbound: &Outbound,
    ) -> Result<Self, SettingsError> {
        Ok(Self {
            route: Route::new(&known, patience, outbound)?,
            known,
            images: Mutex::new(Cache::new(IMAGES)),
            tokens: Mutex::new(Cache::new(TOKENS)),
            builds: Mutex::new(Cache::new(IMAGES)),
            orders: Mutex::new(Cache::new(ORDERS)),
            lists: Semaphore::new(LISTS_AT_ONCE),
        })
    }

    /// Whether the configuration lets us ask for this image.
    pub fn may_ask(&self, image: &Image) -> bool {
        self.of(image).is_some()
    }

    fn of(&self, image: &Image) -> Option<&Registry> {
        let is_public = |_: &&Registry| self.route.may_be_public(&image.host);
        let other = || self.known.get(ANY_OTHER).filter(is_public);
        self.known.get(&image.host).or_else(other)
    }

    /// Whether the image's tag is there.
    ///
    /// # Errors
    /// [`NotKnown`] when the registry does not say, or is none that we may ask.
    pub async fn has(&self, image: &Image, now: Timestamp) -> Result<Found, NotKnown> {
        if let Some((there, at)) = lock(&self.images).get(image, now) {
            return Ok(Found { there, at });
        }
        let question = self.question(image, now)?;
        let path = format!("manifests/{}", image.reference);
        let wanted = Wanted { method: Method::HEAD, path, accept: KINDS, limit: ANSWER_BYTES };
        let there = question.judge(&question.answer(&wanted).await?)?;
        let life = if there { THERE } else { NOT_THERE };
        lock(&self.images).put(image.clone(), (there, now), saturating_add(now, life));
        Ok(Found { there, at: now })
    }

    fn question<'a>(&'a self, image: &'a Image, now: Timestamp) -> Result<Question<'a>, NotKnown> {
        let registry = self.of(image).ok_or_else(|| {
            NotKnown::new(format!("{} is not under `registries` in the configuration", image.host))
        })?;
        Ok(Question { registries: self, registry, image, now })
    }
}
