//! How many requests are left, as GitHub says with every answer.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use crate::forge::delivery::Budget;
use crate::forge::github::client::GitHub;

/// The limit that everything we do counts against; searches and others have their own.
const CORE: &str = "core";

/// What the answers said.
#[derive(Debug, Clone, Default)]
pub(super) struct Budgets(Arc<Mutex<Option<Budget>>>);

impl Budgets {
    pub(super) fn note(&self, headers: &HeaderMap) {
        if let Some(budget) = said(headers) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(budget);
        }
    }
}

impl GitHub {
    /// How many requests are left, by the last answer that said so; `None` where no answer did, as
    /// on an Enterprise Server without limits.
    pub fn budget(&self) -> Option<Budget> {
        *self.budgets.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the headers of an answer say.
fn said(headers: &HeaderMap) -> Option<Budget> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    if text("x-ratelimit-resource").is_some_and(|resource| resource != CORE) {
        return None;
    }
    let reset = i64::try_from(number("x-ratelimit-reset")?).ok()?;
    Some(Budget {
        limit: number("x-ratelimit-limit")?,
        remaining: number("x-ratelimit-remaining")?,
        reset: Timestamp::from_second(reset).ok()?,
    })
}
