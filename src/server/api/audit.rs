//! `/api/v1/audit`: who did what, why, and from where.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use jiff::Timestamp;

use crate::api::audit::AuditPage;
use crate::model::audit::Search;
use crate::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};
use crate::server::Shared;
use crate::server::api::path::{self, InQuery};
use crate::server::api::query;
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::{Form, Is, Operation, Parameter};

use crate::server::problem::{Kind, Problem};

/// The parameters of the audit log.
const AUDIT: &[Parameter] = &[
    Parameter::text("by", Form::NAME, "Only what this person or token did."),
    Parameter::text("act", Form::ACT, "Only such acts: `rollback`, `lock`, `remove`."),
    Parameter::text("target", Form::TARGET, "Only on this target."),
    Parameter::text("app", Form::APP, "Only on this app: `NAMESPACE/SLUG`."),
    Parameter::of("since", Is::Time, "Only what was done at this time or later."),
    Parameter::of("until", Is::Time, "Only what was done before this time."),
    query::LIMIT,
    query::CURSOR,
];

/// What is said of [`list`].
pub(super) fn operation() -> Operation {
    Operation::reads("listAudit", "Who did what on purpose, newest first.")
        .admin()
        .about(
            "Deployments that came as events are not in it: they are in the list of deployments.",
        )
        .query(AUDIT)
        .gives::<AuditPage>(200, "One page.")
}

/// The newest entries that pass the filters.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    pairs: InQuery,
) -> Result<Json<AuditPage>, Problem> {
    shared.may(&caller, Scope::Admin, &Subject::Everywhere).await?;
    let search = read(&path::pairs(pairs)?).map_err(path::bad)?;
    let found = shared.state.deployments.ledger.audited(&search).await.map_err(|error| {
        tracing::error!(%error, "the audit log could not be read");
        Problem::new(Kind::Unavailable, "the audit log cannot be read now; come again")
    })?;
    Ok(Json(found.into()))
}

/// Reads the parameters, each at most once; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<Search, String> {
    query::once(pairs)?;
    let mut search = Search { limit: query::DEFAULT_LIMIT, ..Search::default() };
    for (name, value) in pairs {
        match name.as_str() {
            "by" => search.by = Some(value.clone()),
            "act" => search.act = Some(value.clone()),
            "target" => search.target = Some(query::id(name, value, TargetName::parse)?),
            "app" => search.app = Some(app(value)?),
            "since" => search.since = Some(time(name, value)?),
            "until" => search.until = Some(time(name, value)?),
            "cursor" => search.before = Some(query::id(name, value, DeployId::parse)?),
            "limit" => search.limit = query::limit(value)?,
            _ => return Err(query::unknown(name, AUDIT)),
        }
    }
    Ok(search)
}

fn app(value: &str) -> Result<AppKey, String> {
    let wrong = || format!("app: {} is not NAMESPACE/APP", query::shown(value));
    let (namespace, slug) = value.split_once('/').ok_or_else(wrong)?;
    let namespace = query::id("app", namespace, Namespace::parse)?;
    Ok(AppKey { namespace, slug: query::id("app", slug, Slug::parse)? })
}

fn time(name: &str, value: &str) -> Result<Timestamp, String> {
    let wrong =
        |_| format!("{name}: {} is not a time like 2026-11-21T08:00:00Z", query::shown(value));
    value.parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Result<Search, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let search = pairs(&[
            ("by", "alice"),
            ("act", "lock"),
            ("target", "prod"),
            ("app", "devx/web"),
            ("since", "2026-11-21T00:00:00Z"),
            ("until", "2026-11-22T00:00:00Z"),
            ("cursor", "20261121-054812123-3f9a2c"),
            ("limit", "7"),
        ]);
        let search = search.unwrap();
        assert_eq!((search.by.as_deref(), search.act.as_deref()), (Some("alice"), Some("lock")));
        assert_eq!(search.app.unwrap().to_string(), "devx/web");
        assert!(search.since < search.until && search.before.is_some());
        assert_eq!((search.limit, pairs(&[]).unwrap().limit), (7, query::DEFAULT_LIMIT));
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_right() {
        for (name, value, says) in [
            ("app", "web", "app: \"web\" is not NAMESPACE/APP"),
            ("since", "today", "since: \"today\" is not a time like 2026-11-21T08:00:00Z"),
            ("actor", "x", "\"actor\" is not known: use by, act,"),
            ("limit", "0", "limit: \"0\" is not a number"),
        ] {
            let said = pairs(&[(name, value)]).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
    }
}
