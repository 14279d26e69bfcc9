//! `/api/v1/apps`: what is where, as the manifest repositories have it.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};

use crate::api::apps::{AppPage, AppSummary, FailedDeployment, MissingRepository};
use crate::deployments::apps::{AppLine, AppState, AppsPage, AppsQuery};
use crate::model::id::TargetName;
use crate::model::placed::{Placed, Spot};
use crate::server::Shared;
use crate::server::api::path::{self, InQuery};
use crate::server::api::query;
use crate::server::auth::{Caller, Subject};
use crate::server::openapi::{Form, Is, Operation, Parameter};
use crate::server::problem::{Kind, Problem};

/// The parameters of the list of apps.
pub(super) const APPS: &[Parameter] = &[
    Parameter::text("target", Form::TARGET, "Only on this target."),
    Parameter::text("app", Form::APP, "Only this app: `NAMESPACE/SLUG`."),
    Parameter::text(
        "owner",
        Form::OWNER,
        "Only of this owner: an e-mail address, as its Application says.",
    ),
    Parameter::of(
        "state",
        Is::Words(&["live", "edited", "locked", "held"]),
        "Only such: `edited` is what somebody has edited by hand.",
    ),
    query::LIMIT,
    Parameter::text("cursor", Form::SPOT, "The `next` of the page before."),
];

/// What is said of [`list`].
pub(super) fn operation() -> Operation {
    Operation::reads("listApps", "What is where, by target, namespace and name.")
        .about(
            "It is what the manifest repositories have, and not what clusters run. Where `missing` is \
             not empty there may be more.",
        )
        .query(APPS)
        .gives::<AppPage>(200, "One page.")
}

/// The apps that pass the filter, by target, namespace and name.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    pairs: InQuery,
) -> Result<Json<AppPage>, Problem> {
    let query = read(&path::pairs(pairs)?).map_err(path::bad)?;
    let page = shared.state.deployments.apps(&query).await;
    let mut page = page.map_err(|detail| Problem::new(Kind::Unavailable, detail))?;
    page.apps = shared.seen(&caller, page.apps, seen_as).await?;
    Ok(Json(view(page)))
}

fn seen_as(line: &AppLine) -> Subject {
    let spot = &line.placed.spot;
    Subject::App(spot.target.clone(), spot.app.clone())
}

/// Reads the parameters, each at most once; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<AppsQuery, String> {
    query::once(pairs)?;
    let mut query = AppsQuery { limit: query::DEFAULT_LIMIT, ..AppsQuery::default() };
    for (name, value) in pairs {
        match name.as_str() {
            "target" => query.target = Some(query::id(name, value, TargetName::parse)?),
            "app" => query.app = Some(query::app(value)?),
            "owner" => query.owner = Some(value.clone()),
            "state" => query.state = Some(state(value)?),
            "cursor" => query.after = Some(cursor(value)?),
            "limit" => query.limit = query::limit(value)?,
            _ => return Err(query::unknown(name, APPS)),
        }
    }
    Ok(query)
}

fn state(value: &str) -> Result<AppState, String> {
    let found = AppState::ALL.into_iter().find(|state| state.as_str() == value);
    found.ok_or_else(|| {
        let words = AppState::ALL.map(AppState::as_str).join(", ");
        format!("state: {} is not a state of an app: use {words}", query::shown(value))
    })
}

fn cursor(value: &str) -> Result<Spot, String> {
    let wrong = || format!("cursor: {} is not the `next` of a page", query::shown(value));
    Spot::parse(value).ok_or_else(wrong)
}

fn view(page: AppsPage) -> AppPage {
    let AppsPage { apps, next, missing } = page;
    let one = |AppLine { placed, locked, held, tag, at, failed }: AppLine| {
        let Placed { spot: Spot { target, app }, live, hosts, owner, repository } = placed;
        AppSummary {
            target: target.into(),
            namespace: app.namespace.into(),
            app: app.slug.into(),
            live_revision: live.map(String::from),
            tag: tag.map(String::from),
            at,
            hosts: hosts.into_iter().collect(),
            owner,
            repository: repository.map(String::from),
            locked,
            held,
            failed: failed.map(|(id, tag)| FailedDeployment { id: id.into(), tag: tag.into() }),
        }
    };
    let missing =
        missing.into_iter().map(|(repository, why)| MissingRepository { repository, why });
    AppPage {
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
        let query = pairs(&[
            ("target", "prod"),
            ("app", "devx/shop"),
            ("owner", "squad@example.com"),
            ("state", "held"),
            ("limit", "7"),
            ("cursor", "prod/devx/shop"),
        ]);
        let AppsQuery { target, app, owner, state, after, limit } = query.unwrap();
        assert_eq!((owner.as_deref(), state), (Some("squad@example.com"), Some(AppState::Held)));
        assert_eq!(app.unwrap().to_string(), "devx/shop");
        assert_eq!((target.unwrap().as_str(), limit), ("prod", 7));
        assert_eq!(after, Spot::parse("prod/devx/shop"));
        assert_eq!(pairs(&[]).unwrap().limit, query::DEFAULT_LIMIT);
    }

    #[test]
    fn the_contract_has_every_state() {
        let state = APPS.iter().find(|one| one.name == "state").unwrap();
        let Is::Words(words) = state.kind else { panic!("{state:?}") };
        assert_eq!(words, AppState::ALL.map(AppState::as_str));
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_right() {
        for (name, value, says) in [
            ("limit", "0", "limit: \"0\" is not a number from 1 to 200"),
            ("cursor", "../x", "cursor: \"../x\" is not the `next` of a page"),
            (
                "state",
                "failed",
                "state: \"failed\" is not a state of an app: use live, edited, locked, held",
            ),
            ("stat", "live", "\"stat\" is not known: use target, app, owner, state, limit, cursor"),
        ] {
            assert_eq!(pairs(&[(name, value)]).unwrap_err(), says);
        }
        assert!(pairs(&[("target", "a/b")]).unwrap_err().starts_with("target: "));
        let twice = pairs(&[("limit", "1"), ("limit", "2")]).unwrap_err();
        assert_eq!(twice, "\"limit\" is given twice");
    }
}
