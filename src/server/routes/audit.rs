//! `/api/v1/audit`: lists the audit log.

use axum::Json;

use crate::api::audit::AuditPage;
use crate::model::audit::{AuditRecords, Search};
use crate::model::callers::Scope;
use crate::model::id::{DeployId, TargetName};
use crate::server::auth::Resource;
use crate::server::call::{AuthenticatedRequest, QueryPairs, bad};
use crate::server::openapi::{Form, Parameter, ParameterForm};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::{self, Params};

/// The parameters of the audit log.
pub(super) const QUERY: &[Parameter] = &[
    Parameter::text("by", Form::NAME, "Only acts of this person or token."),
    Parameter::text("act", Form::ACT, "Only acts of this kind: `rollback`, `lock`, `remove`."),
    Parameter::text("target", Form::TARGET, "Only acts on this target."),
    Parameter::text("app", Form::APP, "Only acts on this app: `NAMESPACE/SLUG`."),
    Parameter::new("since", ParameterForm::Time, "Only acts at this time or later."),
    Parameter::new("until", ParameterForm::Time, "Only acts before this time."),
    query::LIMIT,
    query::CURSOR,
];

/// Lists the newest entries that pass the filters.
pub(super) async fn list(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<AuditPage>, Problem> {
    Ok(Json(search(&call, &pairs).await?.into()))
}

/// Returns the newest entries that pass the filters, for administrators.
pub(in crate::server) async fn search(
    call: &AuthenticatedRequest,
    pairs: &[(String, String)],
) -> Result<AuditRecords, Problem> {
    call.authorize(Scope::Admin, Resource::Everywhere).await?;
    let search = read(pairs).map_err(bad)?;
    call.deployments().ledger.audit_records(&search).await.map_err(|error| {
        tracing::error!(%error, "audit log could not be read");
        Problem::new(ProblemKind::Unavailable, "the audit log cannot be read now; try again later")
    })
}

/// Reads the parameters; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<Search, String> {
    let params = Params::of(pairs, QUERY)?;
    Ok(Search {
        by: params.text("by"),
        act: params.text("act"),
        target: params.id("target", TargetName::parse)?,
        app: params.app()?,
        since: params.time("since")?,
        until: params.time("until")?,
        before: params.id("cursor", DeployId::parse)?,
        limit: params.limit()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Result<Search, String> {
        let to_owned_pair =
            |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(to_owned_pair).collect::<Vec<_>>())
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
        for (name, value, expected) in [
            ("app", "web", "app: \"web\" is not NAMESPACE/SLUG"),
            (
                "since",
                "today",
                "since: \"today\" is not a time; write it like 2026-11-21T05:48:12Z",
            ),
            ("actor", "x", "\"actor\" is not known: use by, act,"),
            ("limit", "0", "limit: \"0\" is not a number"),
        ] {
            let message = pairs(&[(name, value)]).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
