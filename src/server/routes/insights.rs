//! `/api/v1/insights`: how long deployments take, and how they end.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use jiff::{SignedDuration, Timestamp};

use crate::api::insights::{InsightsAnswer, IntervalSummary, OutcomeSummary};
use crate::deployments::insights::Insights;
use crate::model::audit::AuthMethod;
use crate::model::id::{AppKey, TargetName};
use crate::server::auth::Resource;
use crate::server::call::{AuthenticatedRequest, QueryPairs, bad, unavailable};
use crate::server::openapi::{Form, Parameter};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::{Params, quote_value};
use crate::store::InsightScope;
use crate::support::time_text;

/// The parameters of insights.
pub(super) const QUERY: &[Parameter] = &[
    Parameter::text(
        "window",
        Form::DURATION,
        "The time before now in which deployments were received: `90m`, `6h`, `7d`, at most 90 days; 6 hours by \
         default.",
    ),
    Parameter::text("target", Form::TARGET, "Only deployments to this target."),
    Parameter::text("app", Form::APP, "Only deployments of this app: `NAMESPACE/SLUG`."),
];

/// The window of a request without one.
const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_hours(6);
/// The longest window: a quarter.
const LONGEST_WINDOW: SignedDuration = SignedDuration::from_hours(90 * 24);
/// The most places that are looked at for a caller who may not see everything; each is a value of a statement.
const MAX_PLACES: u32 = 5_000;

/// The parameters of a request.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct InsightsQuery {
    pub(in crate::server) window: SignedDuration,
    pub(in crate::server) target: Option<TargetName>,
    pub(in crate::server) app: Option<AppKey>,
}

/// Returns the figures of the deployments that the caller may see.
pub(super) async fn get(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<InsightsAnswer>, Problem> {
    let query = read(&pairs).map_err(bad)?;
    let _place = open_read(&call)?;
    let now = call.deployments().clock.now();
    let insights = match visible_scope(&call, query, now).await? {
        Ok(scope) => call.deployments().insights(scope).await,
        Err(since) => Ok(Insights::empty(since)),
    };
    let insights = insights.map_err(|error| unavailable(&error))?;
    Ok(Json(answer(insights, now)))
}

/// Returns the deployments that the caller may see of a window that ends now; the begin of the window if there are none.
pub(in crate::server) async fn visible_scope(
    call: &AuthenticatedRequest,
    query: InsightsQuery,
    now: Timestamp,
) -> Result<Result<InsightScope, Timestamp>, Problem> {
    let InsightsQuery { window, target, app } = query;
    // A deployment of this millisecond counts.
    let until = now.saturating_add(SignedDuration::from_millis(1)).unwrap_or(now);
    let since = now.saturating_sub(window).unwrap_or(now);
    let mut scope = InsightScope { since, until, target, app, places: None };
    if !call.can_read(&Resource::Everywhere).await? {
        let places = call.deployments().store.deployment_places(&scope, MAX_PLACES + 1).await;
        let places = places.map_err(|error| unavailable(&error))?;
        if places.len() > MAX_PLACES as usize {
            let problem = "too many apps for a caller who may not see all of them: name a `target` or an `app`";
            return Err(bad(problem));
        }
        let visible = call.filter_visible(places, |place| call.caller.resource_of_place(place));
        let visible = visible.await?;
        if visible.is_empty() {
            return Ok(Err(since));
        }
        scope.places = Some(visible);
    }
    Ok(Ok(scope))
}

/// Takes the caller's place: a long window takes seconds of the database, and one caller has one at a time.
pub(in crate::server) fn open_read(
    call: &AuthenticatedRequest,
) -> Result<Option<Arc<()>>, Problem> {
    if call.caller.via == AuthMethod::Loopback {
        return Ok(None);
    }
    let account = format!("{} insights", call.caller.account());
    let place = call.shared.reads_of_callers.open(account, 1).ok_or_else(|| {
        let detail = "your last question for insights is not answered yet; wait for the answer";
        Problem::new(ProblemKind::TooMany, detail).after(Duration::from_secs(1))
    });
    place.map(Some)
}

/// Reads the parameters; the message says which one is wrong.
pub(in crate::server) fn read(pairs: &[(String, String)]) -> Result<InsightsQuery, String> {
    let params = Params::of(pairs, QUERY)?;
    Ok(InsightsQuery {
        window: params.read("window", window)?.unwrap_or(DEFAULT_WINDOW),
        target: params.id("target", TargetName::parse)?,
        app: params.app()?,
    })
}

fn window(value: &str) -> Result<SignedDuration, String> {
    let is_plain = value.len() <= 5 && value.starts_with(|c: char| c.is_ascii_digit());
    let long = time_text::duration(value).filter(|long| is_plain && long.is_positive());
    match long {
        Some(long) if long <= LONGEST_WINDOW => Ok(long),
        Some(_) => Err(format!("window: {} is longer than 90d", quote_value(value))),
        None => Err(format!(
            "window: {} is not a length of time from 1m to 90d: {}",
            quote_value(value),
            time_text::DURATIONS
        )),
    }
}

fn answer(insights: Insights, until: Timestamp) -> InsightsAnswer {
    let Insights { since, is_complete, outcomes, intervals, dora, rollouts } = insights;
    let outcome = |(state, count)| OutcomeSummary { state, count };
    let interval = |(interval, lengths)| IntervalSummary { interval, lengths };
    InsightsAnswer {
        since,
        until,
        complete: is_complete,
        deployments: outcomes.values().sum(),
        outcomes: outcomes.into_iter().map(outcome).collect(),
        intervals: intervals.into_iter().map(interval).collect(),
        dora,
        rollouts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Result<InsightsQuery, String> {
        let owned = text.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read(&owned.collect::<Vec<_>>())
    }

    #[test]
    fn a_window_is_six_hours_or_what_the_caller_asks_for() {
        assert_eq!(pairs(&[]).unwrap().window, SignedDuration::from_hours(6));
        for (text, hours) in [("24h", 24), ("7d", 168), ("90d", 2160), ("2w", 336)] {
            assert_eq!(
                pairs(&[("window", text)]).unwrap().window,
                SignedDuration::from_hours(hours)
            );
        }
        let both = pairs(&[("target", "prod"), ("app", "devx/shop")]).unwrap();
        assert_eq!(both.target.unwrap().as_str(), "prod");
        assert_eq!(both.app.unwrap().to_string(), "devx/shop");
    }

    #[test]
    fn a_wrong_window_is_named_with_what_is_right() {
        for wrong in ["", "0h", "-1h", "six hours", "6", "1y", "99999d", "PT6H", " 6h"] {
            let problem = pairs(&[("window", wrong)]).unwrap_err();
            assert!(
                problem.starts_with("window: ") && problem.contains("90m, 2h or 2d"),
                "{problem}"
            );
        }
        assert_eq!(pairs(&[("window", "91d")]).unwrap_err(), "window: \"91d\" is longer than 90d");
        assert!(pairs(&[("since", "1h")]).unwrap_err().contains("use window, target, app"));
    }
}
