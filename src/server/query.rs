//! Parses the parameters of the list of deployments, and those that other lists share. Pure.

use jiff::Timestamp;

use crate::model::deployment::State;
use crate::model::id::{
    AppKey, DeployId, IdError, ImageTag, Namespace, RepoName, Slug, TargetName,
};
use crate::server::openapi::{Form, Parameter, ParameterForm};
use crate::store::Filter;
use crate::support::percent::encode_query_value;

/// The default size of a page.
pub(super) const DEFAULT_LIMIT: u32 = 50;
/// The largest size of a page, which is built in memory.
const MAX: u32 = 200;
/// The longest name of an actor at a code host, in characters.
const LONGEST_ACTOR: usize = 100;

/// The parameter with the size of a page.
pub(super) const LIMIT: Parameter = Parameter::new(
    "limit",
    ParameterForm::Number(1, MAX as i64),
    "The largest number of results; 50 by default.",
);
/// The parameter with the beginning of a page.
pub(super) const CURSOR: Parameter = Parameter::text(
    "cursor",
    Form::DEPLOY_ID,
    "The `next` of the page before, with the same other parameters.",
);

/// The parameters of the list of deployments.
pub(super) const DEPLOYMENTS: &[Parameter] = &[
    Parameter::text("target", Form::TARGET, "Only deployments to this target."),
    Parameter::text(
        "repository",
        Form::REPOSITORY,
        "Only deployments of this service repository: `OWNER/NAME`.",
    ),
    Parameter::text(
        "app",
        Form::APP,
        "Only deployments of this app: `NAMESPACE/SLUG`. A deployment has an app once its WAML has \
         been read.",
    ),
    Parameter::new("state", ParameterForm::State, "Only deployments in this state."),
    Parameter::text("actor", Form::NAME, "Only deployments that this person or program created."),
    Parameter::text("tag", Form::TAG, "Only deployments of this image tag."),
    Parameter::new(
        "forge_id",
        ParameterForm::Number(0, i64::MAX),
        "The deployment with this number at the code host.",
    ),
    Parameter::new(
        "since",
        ParameterForm::Time,
        "Only deployments received at this time or later.",
    ),
    Parameter::new("until", ParameterForm::Time, "Only deployments received before this time."),
    LIMIT,
    CURSOR,
];

/// One page of a list of deployments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DeploymentsQuery {
    /// The filter.
    pub(super) filter: Filter,
    /// The deployment before the page: the page has older ones.
    pub(super) before: Option<DeployId>,
    /// The size of the page, at least 1.
    pub(super) limit: u32,
}

/// Reads the parameters; the message says which one is wrong.
pub(super) fn read(pairs: &[(String, String)]) -> Result<DeploymentsQuery, String> {
    let params = Params::of(pairs, DEPLOYMENTS)?;
    Ok(DeploymentsQuery {
        filter: Filter {
            target: params.id("target", TargetName::parse)?,
            repository: params.id("repository", RepoName::parse)?,
            app: params.app()?,
            state: params.read("state", state)?,
            actor: params.read("actor", actor)?,
            tag: params.id("tag", ImageTag::parse)?,
            forge_id: params.read("forge_id", forge_id)?,
            since: params.time("since")?,
            until: params.time("until")?,
            unfinished: false,
            pushed: false,
        },
        before: params.id("cursor", DeployId::parse)?,
        limit: params.limit()?,
    })
}

/// Returns the same parameters for the page after that deployment.
pub(super) fn from(pairs: &[(String, String)], cursor: &DeployId) -> String {
    with_cursor(pairs, cursor.as_str())
}

/// Returns the same parameters with another cursor.
pub(super) fn with_cursor(pairs: &[(String, String)], cursor: &str) -> String {
    let params = pairs.iter().filter(|(name, _)| name != "cursor").cloned();
    write(&params.chain([("cursor".to_owned(), cursor.to_string())]).collect::<Vec<_>>())
}

/// Writes parameters as a query.
pub(super) fn write(pairs: &[(String, String)]) -> String {
    let params = pairs.iter();
    let params = params.map(|(name, value)| format!("{name}={}", encode_query_value(value)));
    params.collect::<Vec<_>>().join("&")
}

/// The parameters of a query: each is known, and given once.
pub(super) struct Params<'q>(&'q [(String, String)]);

impl<'q> Params<'q> {
    /// Checks that each pair is one of the known parameters.
    pub(super) fn of(
        pairs: &'q [(String, String)],
        parameters: &[Parameter],
    ) -> Result<Self, String> {
        for (position, (name, _)) in pairs.iter().enumerate() {
            if pairs.iter().take(position).any(|(earlier, _)| earlier == name) {
                return Err(format!("{} is given twice", quote_value(name)));
            }
            if !parameters.iter().any(|parameter| parameter.name == name) {
                let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
                return Err(format!(
                    "{} is not known: use {}",
                    quote_value(name),
                    names.join(", ")
                ));
            }
        }
        Ok(Self(pairs))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    pub(super) fn read<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        self.text(name).map(|value| parse(&value)).transpose()
    }

    pub(super) fn id<T>(
        &self,
        name: &str,
        parse: impl Fn(String) -> Result<T, IdError>,
    ) -> Result<Option<T>, String> {
        self.text(name).map(parse).transpose().map_err(|error| format!("{name}: {error}"))
    }

    pub(super) fn app(&self) -> Result<Option<AppKey>, String> {
        self.read("app", app)
    }

    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, String> {
        self.read(name, |value| {
            value.parse().map_err(|_| {
                format!(
                    "{name}: {} is not a time; write it like 2026-11-21T05:48:12Z",
                    quote_value(value)
                )
            })
        })
    }

    pub(super) fn limit(&self) -> Result<u32, String> {
        Ok(self.read("limit", limit)?.unwrap_or(DEFAULT_LIMIT))
    }
}

/// Parses `NAMESPACE/SLUG`.
pub(super) fn app(value: &str) -> Result<AppKey, String> {
    let Some((namespace, slug)) = value.split_once('/') else {
        return Err(format!("app: {} is not NAMESPACE/SLUG", quote_value(value)));
    };
    let wrong = |error: IdError| format!("app: {error}");
    let namespace = Namespace::parse(namespace).map_err(wrong)?;
    Ok(AppKey { namespace, slug: Slug::parse(slug).map_err(wrong)? })
}

fn actor(value: &str) -> Result<String, String> {
    if (1..=LONGEST_ACTOR).contains(&value.chars().count()) {
        return Ok(value.to_owned());
    }
    Err(format!("actor: a name has 1 to {LONGEST_ACTOR} characters"))
}

fn forge_id(value: &str) -> Result<i64, String> {
    let number = value.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| format!("forge_id: {} is not a number from 0 on", quote_value(value)))
}

fn state(value: &str) -> Result<State, String> {
    State::parse(value).ok_or_else(|| {
        let words: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("state: {} is not a state: use {}", quote_value(value), words.join(", "))
    })
}

pub(super) fn limit(value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| format!("limit: {} is not a number from 1 to {MAX}", quote_value(value)))
}

/// Quotes a caller's text, escaped and cut.
pub(super) fn quote_value(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}

/// Checks that no parameters make the parser panic, and that those of the next page differ only in where it begins.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    let pairs = |query: &str| -> Option<Vec<(String, String)>> {
        let uri = format!("/?{query}").parse().ok()?;
        Some(axum::extract::Query::try_from_uri(&uri).ok()?.0)
    };
    let Some(first) = std::str::from_utf8(data).ok().and_then(pairs) else { return };
    let Ok(query) = read(&first) else { return };
    let cursor = DeployId::parse("20261121-054812123-3f9a2c").expect("an id");
    let next = pairs(&from(&first, &cursor)).expect("the next page's parameters are a query");
    let next = read(&next).expect("the next page's parameters are read");
    assert_eq!(next, DeploymentsQuery { before: Some(cursor), ..query });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Result<DeploymentsQuery, String> {
        let to_owned_pair =
            |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(to_owned_pair).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let query = pairs(&[
            ("target", "prod-cluster-1"),
            ("repository", "acme/shop"),
            ("state", "failed"),
            ("app", "devx/shop"),
            ("actor", "octo dev"),
            ("tag", "1.10"),
            ("forge_id", "12"),
            ("since", "2026-11-21T05:48:12Z"),
            ("until", "2026-11-21T07:48:12+01:00"),
            ("limit", "7"),
            ("cursor", "20261121-054812123-3f9a2c"),
        ]);
        let query = query.unwrap();
        assert_eq!(query.filter.target.unwrap().as_str(), "prod-cluster-1");
        assert_eq!(query.filter.repository.unwrap().as_str(), "acme/shop");
        assert_eq!((query.filter.state, query.limit), (Some(State::Failed), 7));
        assert_eq!(query.filter.app.unwrap().to_string(), "devx/shop");
        assert_eq!(
            (query.filter.actor.as_deref(), query.filter.forge_id),
            (Some("octo dev"), Some(12))
        );
        assert_eq!(query.filter.tag.unwrap().as_str(), "1.10");
        let time = |text: &str| Some(text.parse().unwrap());
        assert_eq!(query.filter.since, time("2026-11-21T05:48:12Z"));
        assert_eq!(query.filter.until, time("2026-11-21T06:48:12Z"));
        assert_eq!(query.before.unwrap().as_str(), "20261121-054812123-3f9a2c");
        assert_eq!(pairs(&[]).unwrap().limit, DEFAULT_LIMIT);
    }

    #[test]
    fn the_next_page_has_the_same_parameters_whatever_is_in_them() {
        let to_owned_pair =
            |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let pairs = [("app", "devx/shop"), ("actor", "a&b=c d+ü"), ("cursor", "x")];
        let pairs: Vec<_> = pairs.iter().map(to_owned_pair).collect();
        let cursor = DeployId::parse("20261121-054812123-3f9a2c").unwrap();
        let expected_query = format!("app=devx/shop&actor=a%26b%3Dc%20d%2B%C3%BC&cursor={cursor}");
        assert_eq!(from(&pairs, &cursor), expected_query);
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_right() {
        let message = |name, value| pairs(&[(name, value)]).unwrap_err();
        assert_eq!(message("limit", "0"), "limit: \"0\" is not a number from 1 to 200");
        assert!(message("limit", "-1").starts_with("limit"));
        assert!(message("state", "x").contains("queued, running, pushing"));
        let target = message("target", "../x");
        assert!(target.starts_with("target: ") && target.contains("../x"), "{target}");
        assert_eq!(
            message("tagret", "x"),
            "\"tagret\" is not known: use target, repository, app, state, actor, tag, forge_id, \
             since, until, limit, cursor"
        );
        assert_eq!(message("app", "shop"), "app: \"shop\" is not NAMESPACE/SLUG");
        assert!(message("app", "devx/Shop").starts_with("app: \"Shop\" is not a legal slug"));
        assert_eq!(message("actor", ""), "actor: a name has 1 to 100 characters");
        assert!(message("forge_id", "-1").starts_with("forge_id: \"-1\" is not a number"));
        assert!(message("since", "yesterday").contains("write it like 2026-11-21T05:48:12Z"));
        assert!(message("tag", "a b").starts_with("tag: "));
        let twice = pairs(&[("limit", "1"), ("limit", "2")]).unwrap_err();
        assert_eq!(twice, "\"limit\" is given twice");
    }
}
