//! The newest images of a repository: pages of tags, then a look at those that are likely to be the newest.
//!
//! ```text
//! GET tags/list ─▶ pages ─▶ the likely ones ─▶ GET manifests/<tag> ─▶ (its platform's manifest) ─▶ GET blobs/<config>
//! ```
//!
//! A registry has no list by time. So this is bounded, in pages, bytes, tags and images, in all and at once, and says
//! what it has not looked at.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use reqwest::Method;
use reqwest::header::LINK;
use sha2::{Digest as _, Sha256};

use crate::lookups::http::HttpAnswer;
use crate::lookups::image::ImageReference;
use crate::lookups::registry::client::{ImageQuestion, KINDS, Registries, RegistryRequest, THERE};
use crate::lookups::registry::image_config::{self, ImageBuild, ImageClaims, Manifest};
use crate::lookups::registry::listing;
use crate::lookups::registry::tags::{self, ListOrder, MAX_TAGS, TagListing};
use crate::model::facts::FactUnavailable;
use crate::support::sync::lock;
use crate::support::time::saturating_add;

/// The number of tags that a page should have: the most that the larger registries give.
const A_PAGE: usize = 1000;
const PAGES: usize = 20;
/// Google's answer has all tags with their times in one page.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The limit of bytes for all pages of one request.
const LISTING_BYTES: usize = 16 * 1024 * 1024;
/// Manifests are at most 4 MiB by the specification; honest ones have some 10 KiB.
const MANIFEST_BYTES: usize = 1024 * 1024;
/// An image's configuration has its whole history.
const CONFIG_BYTES: usize = 1024 * 1024;
/// The note in place of a page that may not be the last.
const END_UNKNOWN: &str = "there may be older builds: not all tags were looked at, or not in time";
/// The limit of requests at once; the client has its own limit over all of them.
const AT_ONCE: usize = 8;

/// The newest images of a repository, as far as they were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageBuilds {
    /// The builds, newest first; those without a time come last.
    pub builds: Vec<ImageBuild>,
    /// The number of tags, as far as they were listed.
    pub tags: usize,
    /// True if every tag was listed and looked up. If not, newer builds may be missing.
    pub complete: bool,
    /// The limits that were reached, for people.
    pub notes: Vec<String>,
    /// The `skip` of the next page, if there is one.
    pub next: Option<usize>,
}

/// One page of the newest images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildsRange {
    /// The number of newest images to skip.
    pub skip: usize,
    /// The largest number of images on the page.
    pub limit: usize,
}

impl BuildsRange {
    /// Returns the first page.
    pub fn first(limit: usize) -> Self {
        Self { skip: 0, limit }
    }

    /// Returns the `skip` of the next page.
    fn end(self) -> usize {
        self.skip.saturating_add(self.limit)
    }
}

/// The reason why not all tags were listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListLimit {
    /// The registry has more pages.
    Pages,
    /// The pages have more bytes.
    Bytes,
    /// The registry has more tags.
    Tags,
}

impl ListLimit {
    fn note(self) -> String {
        let most = match self {
            Self::Pages => format!("{PAGES} pages"),
            Self::Bytes => {
                let [page, total] = [PAGE_BYTES, LISTING_BYTES].map(|bytes| bytes / (1024 * 1024));
                format!("{page} MiB of a page and {total} MiB in all")
            }
            Self::Tags => format!("{MAX_TAGS} tags"),
        };
        format!("the registry's list of tags is longer than what is read of it, {most}")
    }
}

impl Registries {
    /// Returns a page of the newest images beside that one. Lookups that are not finished at the end of `patience` are
    /// left out.
    ///
    /// # Errors
    /// [`FactUnavailable`] when the registry does not list its tags, or may not be asked.
    pub async fn builds(
        &self,
        image: &ImageReference,
        range: BuildsRange,
        patience: Duration,
        now: Timestamp,
    ) -> Result<ImageBuilds, FactUnavailable> {
        let question = self.question(image, now)?;
        let turn = tokio::time::timeout(patience / 4, self.lists.acquire());
        let _turn = turn.await.map_err(|_| {
            FactUnavailable::new("too many lists of builds are being created at once; try again")
        })?;
        let request = tokio::time::timeout(patience / 2, question.tags());
        let (listing, cut) = request.await.map_err(|_| {
            question.not_known(&format!("did not list its tags within {:?}", patience / 2))
        })??;
        let key = ImageReference { reference: String::new(), ..image.clone() };
        // The first page shows what was pushed meanwhile; the others go on where it ended.
        let cached = (range.skip > 0).then(|| lock(&self.orders).get(&key, now)).flatten();
        let mut order = cached.unwrap_or_default();
        let (mut looked_up, mut in_time) = (BTreeMap::new(), true);
        let looked_at_before = order.looked_at.len();
        if order.tags.len() < range.end() {
            (looked_up, in_time) =
                question.extend(&mut order, &listing, range.end(), patience / 2).await;
            lock(&self.orders).put(key, order.clone(), saturating_add(now, THERE));
        }
        let count = order.tags.len().saturating_sub(range.skip).min(range.limit);
        let page: Vec<&String> = order.tags.iter().skip(range.skip).take(range.limit).collect();
        let missing = page.iter().filter(|tag| !looked_up.contains_key(**tag));
        let missing: Vec<&str> = missing.map(|tag| tag.as_str()).collect();
        let (fetched, found_in_time) = question.fetch_builds(&missing, patience / 2).await;
        looked_up.extend(fetched.into_iter().map(|build| (build.tag.clone(), build)));
        let mut builds: Vec<ImageBuild> =
            page.into_iter().filter_map(|tag| looked_up.remove(tag)).collect();
        for build in &mut builds {
            build.created = build.created.or_else(|| listing.times.get(&build.tag).copied());
        }
        builds.sort_by(newest_first);
        let all_looked_at = listing.tags.iter().all(|tag| order.looked_at.contains(tag));
        let complete = cut.is_none() && all_looked_at && in_time && found_in_time;
        // A page may be short where the look ended first; without progress nothing would ever come after it.
        let end = range.skip.saturating_add(count);
        let has_grown = count > 0 || order.looked_at.len() > looked_at_before;
        let has_more = order.tags.len() > end || (has_grown && order.may_grow(&listing));
        let mut notes: Vec<String> = cut.map(ListLimit::note).into_iter().collect();
        if builds.is_empty() && range.skip > 0 && !complete {
            notes.push(END_UNKNOWN.to_owned());
        }
        let next = has_more.then_some(end);
        Ok(ImageBuilds { builds, tags: listing.tags.len(), complete, notes, next })
    }

    /// Returns the images of these tags beside that one, without missing ones and those that do not answer within
    /// `patience`.
    pub async fn builds_of(
        &self,
        image: &ImageReference,
        tags: &[String],
        patience: Duration,
        now: Timestamp,
    ) -> Vec<ImageBuild> {
        let Ok(question) = self.question(image, now) else { return Vec::new() };
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        question.fetch_builds(&tags, patience).await.0
    }
}

/// Orders builds by time; those without a time come last.
fn newest_first(a: &ImageBuild, b: &ImageBuild) -> Ordering {
    (b.created).cmp(&a.created).then_with(|| tags::natural_order(&b.tag, &a.tag))
}

impl ImageQuestion<'_> {
    /// Looks up further tags, so that the order has that many images; returns their builds, and false if the time was
    /// too short.
    async fn extend(
        &self,
        order: &mut ListOrder,
        listing: &TagListing,
        count: usize,
        patience: Duration,
    ) -> (BTreeMap<String, ImageBuild>, bool) {
        let next = order.next(listing, count);
        let to_owned_tag = |tag: &&str| (*tag).to_owned();
        if listing.is_dated() {
            // The list itself says their order.
            order.looked_at.extend(next.iter().map(to_owned_tag));
            order.tags.extend(next.iter().map(to_owned_tag));
            return (BTreeMap::new(), true);
        }
        let (mut builds, in_time) = self.fetch_builds(&next, patience).await;
        for build in &mut builds {
            build.created = build.created.or_else(|| listing.times.get(&build.tag).copied());
        }
        builds.sort_by(newest_first);
        order.tags.extend(builds.iter().map(|build| build.tag.clone()));
        if in_time {
            order.looked_at.extend(next.iter().map(to_owned_tag));
        } else {
            order.looked_at.extend(builds.iter().map(|build| build.tag.clone()));
        }
        (builds.into_iter().map(|build| (build.tag.clone(), build)).collect(), in_time)
    }

    /// Lists the tags, with the reason why these are not all.
    async fn tags(&self) -> Result<(TagListing, Option<ListLimit>), FactUnavailable> {
        let mut listing = TagListing::default();
        let mut query = format!("n={A_PAGE}");
        let mut room = LISTING_BYTES;
        for _ in 0..PAGES {
            let answer = self.page(&query, PAGE_BYTES.min(room)).await?;
            room -= answer.body.len().min(room);
            if !listing::read_page(&answer.body, answer.cut, &mut listing) {
                return Err(self.not_known("does not list tags as registries do"));
            }
            let link = answer.headers.get(LINK).and_then(|link| link.to_str().ok());
            match link.and_then(tags::next_page) {
                _ if listing.is_full => return Ok((listing, Some(ListLimit::Tags))),
                _ if answer.cut => return Ok((listing, Some(ListLimit::Bytes))),
                // A registry that leads back to the same page would never end.
                Some(next) if next != query => query = next,
                Some(_) | None => return Ok((listing, None)),
            }
            if room == 0 {
                return Ok((listing, Some(ListLimit::Bytes)));
            }
        }
        Ok((listing, Some(ListLimit::Pages)))
    }

    async fn page(&self, query: &str, limit: usize) -> Result<HttpAnswer, FactUnavailable> {
        let path = format!("tags/list?{query}");
        let accept = "application/json";
        let request = RegistryRequest { method: Method::GET, path, accept, limit };
        let answer = self.answer(&request).await?;
        if !self.judge(&answer)? {
            return Err(self.not_known(&format!("has no {}", self.image.name)));
        }
        Ok(answer)
    }

    /// Fetches the builds of these tags, in any order, and returns false beside them if the time was too short. A build
    /// that cannot be read has no time, rather than being left out.
    async fn fetch_builds(&self, tags: &[&str], patience: Duration) -> (Vec<ImageBuild>, bool) {
        let requests: Vec<_> = tags.iter().map(|tag| Box::pin(self.build(tag))).collect();
        let mut requests = futures::stream::iter(requests).buffer_unordered(AT_ONCE);
        let mut builds = Vec::new();
        let collect = async {
            while let Some(build) = requests.next().await {
                builds.extend(build);
            }
        };
        let in_time = tokio::time::timeout(patience, collect).await.is_ok();
        (builds, in_time)
    }

    /// Looks up one tag; `None` if it is no image.
    async fn build(&self, tag: &str) -> Option<ImageBuild> {
        let image = ImageReference { reference: tag.to_owned(), ..self.image.clone() };
        if let Some(build) = lock(&self.registries.builds).get(&image, self.now) {
            return Some(build);
        }
        match self.look_up(tag).await {
            Ok(Some(build)) => {
                let until = saturating_add(self.now, THERE);
                lock(&self.registries.builds).put(image, build.clone(), until);
                Some(build)
            }
            Ok(None) => None,
            Err(why) => {
                tracing::debug!(%image, error = %why, "image lookup failed");
                Some(ImageBuild { tag: tag.to_owned(), digest: None, created: None, commit: None })
            }
        }
    }

    async fn look_up(&self, tag: &str) -> Result<Option<ImageBuild>, FactUnavailable> {
        let Some((body, digest)) = self.manifest(tag).await? else { return Ok(None) };
        let (config, claims) = match image_config::manifest(&body) {
            Some(Manifest::Index { child, claims }) => {
                let child = self.manifest(&child).await?.map(|(body, _)| body);
                match child.and_then(|body| image_config::manifest(&body)) {
                    Some(Manifest::Image { config, claims: own_claims }) => {
                        (config, claims.or(own_claims))
                    }
                    Some(Manifest::Index { .. } | Manifest::Other) | None => return Ok(None),
                }
            }
            Some(Manifest::Image { config, claims }) => (config, claims),
            Some(Manifest::Other) | None => return Ok(None),
        };
        let ImageClaims { created, commit } =
            if claims.is_complete() { claims } else { claims.or(self.config(&config).await?) };
        Ok(Some(ImageBuild { tag: tag.to_owned(), digest: Some(digest), created, commit }))
    }

    /// Returns the text of a manifest, and its digest.
    async fn manifest(
        &self,
        reference: &str,
    ) -> Result<Option<(Vec<u8>, String)>, FactUnavailable> {
        let path = format!("manifests/{reference}");
        let request =
            RegistryRequest { method: Method::GET, path, accept: KINDS, limit: MANIFEST_BYTES };
        let answer = self.answer(&request).await?;
        if !self.judge(&answer)? {
            return Ok(None);
        }
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&answer.body)));
        Ok(Some((answer.body, digest)))
    }

    async fn config(&self, digest: &str) -> Result<ImageClaims, FactUnavailable> {
        let path = format!("blobs/{digest}");
        let request =
            RegistryRequest { method: Method::GET, path, accept: "*/*", limit: CONFIG_BYTES };
        let answer = self.answer(&request).await?;
        let is_there = self.judge(&answer)?;
        let claims = is_there.then(|| image_config::config(&answer.body)).flatten();
        claims.ok_or_else(|| self.not_known(&format!("has no configuration {digest}")))
    }
}
