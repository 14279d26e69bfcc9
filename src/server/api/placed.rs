//! `/api/v1/apps`: what is where, as the manifest repositories have it.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::Serialize;

use crate::model::id::TargetName;
use crate::model::placed::{Placed, Spot};
use crate::server::Shared;
use crate::server::api::query;
use crate::server::auth::{Caller, Subject};
use crate::server::ports::{AppsPage, AppsQuery, Backend};
use crate::server::problem::{Kind, Problem};

const DEFAULT_LIMIT: u32 = 50;

const KNOWN: &str = "target, limit, cursor";

/// One page.
#[derive(Serialize)]
pub(super) struct ListView {
    apps: Vec<View>,
    /// The `cursor` of the next page.
    next: Option<String>,
    /// Where there may be more.
    missing: Vec<MissingView>,
}

/// A manifest repository that cannot be read now.
#[derive(Serialize)]
struct MissingView {
    /// What the configuration calls it.
    repository: String,
    why: String,
}

/// An app on a target.
#[derive(Serialize)]
struct View {
    target: String,
    namespace: String,
    app: String,
    /// The deploy id of the revision that `latest` has; null where somebody edited it by hand.
    live_revision: Option<String>,
    hosts: Vec<String>,
    /// As the app's Application says, like the repository.
    owner: Option<String>,
    repository: Option<String>,
}

/// The apps that pass the filter, by target, namespace and name.
pub(super) async fn list<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<ListView>, Problem> {
    let bad = |detail: String| Problem::new(Kind::BadRequest, detail);
    let Query(pairs) = pairs.map_err(|_| bad("the query string cannot be read".to_owned()))?;
    let query = read(&pairs).map_err(bad)?;
    let page = shared.state.backend.apps(&query).await;
    let mut page = page.map_err(|detail| Problem::new(Kind::Unavailable, detail))?;
    page.apps = shared.seen(&caller, page.apps, seen_as).await?;
    Ok(Json(view(page)))
}

fn seen_as(placed: &Placed) -> Subject {
    Subject::App(placed.spot.target.clone(), placed.spot.app.clone())
}

/// Reads the parameters, each at most once; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<AppsQuery, String> {
    query::once(pairs)?;
    let mut query = AppsQuery { limit: DEFAULT_LIMIT, ..AppsQuery::default() };
    for (name, value) in pairs {
        match name.as_str() {
            "target" => query.target = Some(query::id(name, value, TargetName::parse)?),
            "cursor" => query.after = Some(cursor(value)?),
            "limit" => query.limit = query::limit(value)?,
            _ => return Err(format!("{} is not known: use {KNOWN}", query::shown(name))),
        }
    }
    Ok(query)
}

fn cursor(value: &str) -> Result<Spot, String> {
    let wrong = || format!("cursor: {} is not the `next` of a page", query::shown(value));
    Spot::parse(value).ok_or_else(wrong)
}

fn view(page: AppsPage) -> ListView {
    let AppsPage { apps, next, missing } = page;
    let one = |placed: Placed| {
        let Placed { spot: Spot { target, app }, live, hosts, owner, repository } = placed;
        View {
            target: target.into(),
            namespace: app.namespace.into(),
            app: app.slug.into(),
            live_revision: live.map(String::from),
            hosts: hosts.into_iter().collect(),
            owner,
            repository: repository.map(String::from),
        }
    };
    let missing = missing.into_iter().map(|(repository, why)| MissingView { repository, why });
    ListView {
        apps: apps.into_iter().map(one).collect(),
        next: next.map(|spot| spot.to_string()),
        missing: missing.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Result<AppsQuery, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let query = pairs(&[("target", "prod"), ("limit", "7"), ("cursor", "prod/devx/shop")]);
        let AppsQuery { target, after, limit } = query.unwrap();
        assert_eq!((target.unwrap().as_str(), limit), ("prod", 7));
        assert_eq!(after, Spot::parse("prod/devx/shop"));
        assert_eq!(pairs(&[]).unwrap().limit, DEFAULT_LIMIT);
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_right() {
        for (name, value, says) in [
            ("limit", "0", "limit: \"0\" is not a number from 1 to 200"),
            ("cursor", "../x", "cursor: \"../x\" is not the `next` of a page"),
            ("state", "failed", "\"state\" is not known: use target, limit, cursor"),
        ] {
            assert_eq!(pairs(&[(name, value)]).unwrap_err(), says);
        }
        assert!(pairs(&[("target", "A")]).unwrap_err().starts_with("target: "));
        let twice = pairs(&[("limit", "1"), ("limit", "2")]).unwrap_err();
        assert_eq!(twice, "\"limit\" is given twice");
    }
}
