//! Lists, page by page, by the page's number.
//!
//! Never by the link to the next page: on an Enterprise Server octocrab would send it without our
//! token. A list may grow while it is read, so that something of one page is on the next again.

use serde::de::DeserializeOwned;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};

/// GitHub's most.
pub(super) const PER_PAGE: usize = 100;

/// What a list is about, and how it is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    about: About<'a>,
    needs: Permission,
    /// Whether it leaves the last of the hour's requests to others.
    yields: bool,
}

impl<'a> List<'a> {
    /// One that is read to tell people something: it waits for deployments, as statuses do.
    pub(super) fn yielding(about: About<'a>, needs: Permission) -> Self {
        Self { about, needs, yields: true }
    }

    fn call(&self, route: String) -> Call<'a> {
        let call = Call::get(self.about, self.needs, route);
        if self.yields { call.yielding() } else { call }
    }
}

impl<'a> From<(About<'a>, Permission)> for List<'a> {
    fn from((about, needs): (About<'a>, Permission)) -> Self {
        Self { about, needs, yields: false }
    }
}

/// Whether another page is wanted.
pub(super) enum Next<R> {
    Page,
    Enough(R),
}

impl GitHub {
    /// Reads pages of a list until there is no more, or `look` has enough; at most `most` pages.
    /// `None` if it never had.
    pub(super) async fn pages<T: DeserializeOwned + Page, R>(
        &self,
        list: List<'_>,
        route: &str,
        most: usize,
        mut look: impl FnMut(Vec<T::Item>) -> Next<R>,
    ) -> Result<Option<R>, ForgeError> {
        let sign = if route.contains('?') { '&' } else { '?' };
        for page in 1..=most {
            let route = format!("{route}{sign}per_page={PER_PAGE}&page={page}");
            let items = self.read::<T>(list.call(route)).await?.items();
            let is_last = items.len() < PER_PAGE;
            if let Next::Enough(result) = look(items) {
                return Ok(Some(result));
            }
            if is_last {
                break;
            }
        }
        Ok(None)
    }

    /// All elements of a list that has at most so many pages; what is beyond is left out.
    pub(super) async fn all<T: DeserializeOwned + Page>(
        &self,
        list: List<'_>,
        route: &str,
        most: usize,
    ) -> Result<Vec<T::Item>, ForgeError> {
        let mut found = Vec::new();
        self.pages::<T, ()>(list, route, most, |items| {
            found.extend(items);
            Next::Page
        })
        .await?;
        Ok(found)
    }
}

/// A page as GitHub sends it: a list, or an object with a list in it.
pub(super) trait Page {
    type Item;
    fn items(self) -> Vec<Self::Item>;
}

impl<T> Page for Vec<T> {
    type Item = T;
    fn items(self) -> Vec<T> {
        self
    }
}
