//! The parameters of the list of deployments, and what other lists share. Pure.

use crate::model::deployment::State;
use crate::model::id::{DeployId, IdError, RepoName, TargetName};
use crate::server::ports::Query;

const DEFAULT_LIMIT: u32 = 50;
/// A page is built in memory.
const MOST: u32 = 200;

const KNOWN: &str = "target, repository, state, limit, cursor";

/// Reads the parameters, each at most once; the message says which one is wrong.
pub(in crate::server) fn read(pairs: &[(String, String)]) -> Result<Query, String> {
    once(pairs)?;
    let mut query = Query { limit: DEFAULT_LIMIT, ..Query::default() };
    for (name, value) in pairs {
        match name.as_str() {
            "target" => query.target = Some(id(name, value, TargetName::parse)?),
            "repository" => query.repository = Some(id(name, value, RepoName::parse)?),
            "cursor" => query.before = Some(id(name, value, DeployId::parse)?),
            "state" => query.state = Some(state(value)?),
            "limit" => query.limit = limit(value)?,
            _ => return Err(format!("{} is not known: use {KNOWN}", shown(name))),
        }
    }
    Ok(query)
}

/// The same parameters, for the page that begins after that deployment.
pub(in crate::server) fn from(pairs: &[(String, String)], cursor: &DeployId) -> String {
    let kept = pairs.iter().filter(|(name, _)| name != "cursor");
    // What has been read has no character that means something in a query.
    let kept = kept.map(|(name, value)| format!("{name}={value}"));
    kept.chain([format!("cursor={cursor}")]).collect::<Vec<_>>().join("&")
}

/// Whether each parameter is given once.
pub(super) fn once(pairs: &[(String, String)]) -> Result<(), String> {
    for (at, (name, _)) in pairs.iter().enumerate() {
        if pairs.iter().take(at).any(|(before, _)| before == name) {
            return Err(format!("{} is given twice", shown(name)));
        }
    }
    Ok(())
}

pub(super) fn id<T>(
    name: &str,
    value: &str,
    parse: impl Fn(String) -> Result<T, IdError>,
) -> Result<T, String> {
    parse(value.to_owned()).map_err(|error| format!("{name}: {error}"))
}

fn state(value: &str) -> Result<State, String> {
    State::parse(value).ok_or_else(|| {
        let words: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("state: {} is not a state: use {}", shown(value), words.join(", "))
    })
}

pub(super) fn limit(value: &str) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("limit: {} is not a number from 1 to {MOST}", shown(value)))
}

/// A caller's text, escaped and cut.
pub(super) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Result<Query, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let query = pairs(&[
            ("target", "prod-cluster-1"),
            ("repository", "acme/shop"),
            ("state", "failed"),
            ("limit", "7"),
            ("cursor", "20261121-054812123-3f9a2c"),
        ]);
        let query = query.unwrap();
        assert_eq!(query.target.unwrap().as_str(), "prod-cluster-1");
        assert_eq!(query.repository.unwrap().as_str(), "acme/shop");
        assert_eq!((query.state, query.limit), (Some(State::Failed), 7));
        assert_eq!(query.before.unwrap().as_str(), "20261121-054812123-3f9a2c");
        assert_eq!(pairs(&[]).unwrap().limit, DEFAULT_LIMIT);
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_right() {
        let message = |name, value| pairs(&[(name, value)]).unwrap_err();
        assert_eq!(message("limit", "0"), "limit: \"0\" is not a number from 1 to 200");
        assert!(message("limit", "-1").starts_with("limit"));
        assert!(message("state", "x").contains("queued, running, pushing"));
        let target = message("target", "../x");
        assert!(target.starts_with("target: ") && target.contains("../x"), "{target}");
        assert_eq!(message("tagret", "x"), format!("\"tagret\" is not known: use {KNOWN}"));
        let twice = pairs(&[("limit", "1"), ("limit", "2")]).unwrap_err();
        assert_eq!(twice, "\"limit\" is given twice");
    }
}
