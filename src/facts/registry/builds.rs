//! The newest images of a repository: pages of tags, then a look at those that are likely to be the newest.
//!
//! ```text
//! GET tags/list ─▶ pages ─▶ the likely ones ─▶ GET manifests/<tag> ─▶ (its platform's manifest) ─▶ GET blobs/<config>
//! ```
//!
//! A registry has no list by time. So this is bounded twice, in pages and in images, and says what it has
//! not looked at.

use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use reqwest::Method;
use reqwest::header::LINK;
use sha2::{Digest as _, Sha256};

use crate::facts::NotKnown;
use crate::facts::image::Image;
use crate::facts::registry::made::{self, Build, Manifest, Said};
use crate::facts::registry::question::{Question, Wanted};
use crate::facts::registry::tags::{self, Page};
use crate::facts::registry::{KINDS, Registries, THERE, later, lock};

/// How many tags a page is asked for: what the larger registries give at most.
const A_PAGE: usize = 1000;
/// Twenty thousand tags are years of builds.
const PAGES: usize = 20;
/// Google's answer has all tags with their times in one page.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Manifests are at most 4 MiB by the specification; honest ones have some 10 KiB.
const MANIFEST_BYTES: usize = 1024 * 1024;
/// An image's configuration has its whole history.
const CONFIG_BYTES: usize = 1024 * 1024;
/// Images that are looked at for one answer, where their times are not known beforehand.
const LOOKED_AT: usize = 60;
/// How many at once; the client has a bound of its own over all of them.
const AT_ONCE: usize = 8;

/// The newest images of a repository, as far as they were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builds {
    /// Newest first; those that do not say when they were made come last.
    pub builds: Vec<Build>,
    /// How many tags there are, as far as they were listed.
    pub tags: usize,
    /// Whether every tag was listed and looked at. If not, newer builds may be missing.
    pub complete: bool,
}

impl Registries {
    /// The newest images beside that one, at most so many. What was not found out by the end of `patience`
    /// is left out.
    ///
    /// # Errors
    /// [`NotKnown`] when the registry does not list its tags, or is none that we may ask.
    pub async fn builds(
        &self,
        image: &Image,
        most: usize,
        patience: Duration,
        now: Timestamp,
    ) -> Result<Builds, NotKnown> {
        let question = self.question(image, now)?;
        let listing = tokio::time::timeout(patience / 2, question.tags());
        let (page, all_listed) = listing.await.map_err(|_| {
            question.not_known(&format!("did not list its tags within {:?}", patience / 2))
        })??;
        let looked_at = if page.times.is_empty() { LOOKED_AT.max(most) } else { most };
        let likely = tags::likely(&page.tags, &page.times, looked_at);
        let all_likely = likely.len() == page.tags.len();
        let (mut builds, all_seen) = question.look(&likely, patience / 2).await;
        for build in &mut builds {
            build.created = build.created.or_else(|| page.times.get(&build.tag).copied());
        }
        builds.sort_by(|a, b| {
            (b.created).cmp(&a.created).then_with(|| tags::natural(&b.tag, &a.tag))
        });
        builds.truncate(most);
        Ok(Builds { builds, tags: page.tags.len(), complete: all_listed && all_likely && all_seen })
    }
}

impl Question<'_> {
    /// All tags, and whether these are all.
    async fn tags(&self) -> Result<(Page, bool), NotKnown> {
        let mut all = Page::default();
        let mut query = format!("n={A_PAGE}");
        for _ in 0..PAGES {
            let Page { tags, times, next } = self.page(&query).await?;
            all.tags.extend(tags);
            all.times.extend(times);
            match next {
                // A registry that leads back to the same page would never end.
                Some(next) if next != query => query = next,
                Some(_) | None => return Ok((all, true)),
            }
        }
        Ok((all, false))
    }

    async fn page(&self, query: &str) -> Result<Page, NotKnown> {
        let path = format!("tags/list?{query}");
        let accept = "application/json";
        let wanted = Wanted { method: Method::GET, path, accept, limit: PAGE_BYTES };
        let answer = self.answer(&wanted).await?;
        if !self.judge(&answer)? {
            return Err(self.not_known(&format!("has no {}", self.image.name)));
        }
        let link = answer.headers.get(LINK).and_then(|link| link.to_str().ok());
        let page = tags::page(&answer.body, link);
        page.ok_or_else(|| self.not_known("does not list tags as registries do"))
    }

    /// What these tags lead to, in any order, and whether every one was looked at in time. One that cannot
    /// be read is told without its time rather than left out.
    async fn look(&self, tags: &[&str], patience: Duration) -> (Vec<Build>, bool) {
        let looking: Vec<_> = tags.iter().map(|tag| Box::pin(self.build(tag))).collect();
        let mut looking = futures::stream::iter(looking).buffer_unordered(AT_ONCE);
        let mut builds = Vec::new();
        let all = async {
            while let Some(found) = looking.next().await {
                builds.extend(found);
            }
        };
        let in_time = tokio::time::timeout(patience, all).await.is_ok();
        (builds, in_time)
    }

    /// One tag; `None` if it is no image.
    async fn build(&self, tag: &str) -> Option<Build> {
        let image = Image { reference: tag.to_owned(), ..self.image.clone() };
        if let Some(build) = lock(&self.registries.builds).get(&image, self.now) {
            return Some(build);
        }
        match self.looked_up(tag).await {
            Ok(Some(build)) => {
                let until = later(self.now, THERE);
                lock(&self.registries.builds).put(image, build.clone(), until);
                Some(build)
            }
            Ok(None) => None,
            Err(why) => {
                tracing::debug!(%image, %why, "an image could not be looked at");
                Some(Build { tag: tag.to_owned(), digest: None, created: None, commit: None })
            }
        }
    }

    async fn looked_up(&self, tag: &str) -> Result<Option<Build>, NotKnown> {
        let Some((body, digest)) = self.manifest(tag).await? else { return Ok(None) };
        let (config, said) = match made::manifest(&body) {
            Some(Manifest::Index { child, said }) => {
                let child = self.manifest(&child).await?.map(|(body, _)| body);
                match child.and_then(|body| made::manifest(&body)) {
                    Some(Manifest::Image { config, said: own }) => (config, said.or(own)),
                    Some(Manifest::Index { .. } | Manifest::Other) | None => return Ok(None),
                }
            }
            Some(Manifest::Image { config, said }) => (config, said),
            Some(Manifest::Other) | None => return Ok(None),
        };
        let Said { created, commit } =
            if said.is_complete() { said } else { said.or(self.config(&config).await?) };
        Ok(Some(Build { tag: tag.to_owned(), digest: Some(digest), created, commit }))
    }

    /// The text of a manifest, and its digest.
    async fn manifest(&self, reference: &str) -> Result<Option<(Vec<u8>, String)>, NotKnown> {
        let path = format!("manifests/{reference}");
        let wanted = Wanted { method: Method::GET, path, accept: KINDS, limit: MANIFEST_BYTES };
        let answer = self.answer(&wanted).await?;
        if !self.judge(&answer)? {
            return Ok(None);
        }
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&answer.body)));
        Ok(Some((answer.body, digest)))
    }

    async fn config(&self, digest: &str) -> Result<Said, NotKnown> {
        let path = format!("blobs/{digest}");
        let wanted = Wanted { method: Method::GET, path, accept: "*/*", limit: CONFIG_BYTES };
        let answer = self.answer(&wanted).await?;
        let there = self.judge(&answer)?;
        let read = there.then(|| made::config(&answer.body)).flatten();
        read.ok_or_else(|| self.not_known(&format!("has no configuration {digest}")))
    }
}
