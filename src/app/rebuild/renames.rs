//! Follows renames by the forge's number of a repository, which commits say beside its name. Pure.
//!
//! Whoever takes a name that became free has another number, and so nothing of what the one before them
//! had. Commits of earlier versions say no number: what is under their names stays there.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::id::RepoName;
use crate::store::{Owned, Remembered, RememberedDeployment};

/// Puts deployments and owners under the newest name of their repository, and keeps the numbers.
pub(super) fn follow(remembered: &mut Remembered) {
    let names = newest_names(&remembered.deployments);
    for owned in &mut remembered.owners {
        if let Some((name, _)) =
            number_of(owned, &remembered.deployments).and_then(|number| names.get(&number))
        {
            owned.repository = name.clone();
        }
    }
    for one in &mut remembered.deployments {
        let past = &mut one.past;
        if let Some((name, _)) = past.repository_number.and_then(|number| names.get(&number)) {
            past.release.repository = name.clone();
        }
    }
    remembered.repositories = names;
}

/// The name that each number had last, and when. Of one name the newest number counts: the others have
/// another name by now, which no commit says.
fn newest_names(deployments: &[RememberedDeployment]) -> BTreeMap<i64, (RepoName, Timestamp)> {
    let mut names: BTreeMap<i64, (RepoName, Timestamp)> = BTreeMap::new();
    for past in deployments.iter().map(|one| &one.past) {
        let Some(number) = past.repository_number else { continue };
        let (name, at) = (&past.release.repository, past.received_at);
        if names.get(&number).is_none_or(|(_, known)| *known <= at) {
            names.insert(number, (name.clone(), at));
        }
    }
    let all: Vec<_> =
        names.iter().map(|(number, (name, at))| (*number, name.clone(), *at)).collect();
    for (number, name, at) in &all {
        let is_newer = |(other, theirs, then): &(i64, RepoName, Timestamp)| {
            other != number && theirs.is_same(name) && then > at
        };
        if all.iter().any(is_newer)
            && let Ok(retired) = name.retired(*number)
        {
            names.insert(*number, (retired, *at));
        }
    }
    names
}

/// The number of an app's owner, as the app's newest deployment of that name says.
fn number_of(owned: &Owned, deployments: &[RememberedDeployment]) -> Option<i64> {
    let of_owner = |one: &&RememberedDeployment| {
        let past = &one.past;
        let is_of_app = past.target == owned.target && past.app == owned.app;
        is_of_app && past.release.repository.is_same(&owned.repository)
    };
    deployments.iter().rev().filter(of_owner).find_map(|one| one.past.repository_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::deployment::Pushed;
    use crate::model::id::{AppKey, DeployId};
    use crate::model::past::PastDeployment;
    use crate::model::release::Release;
    use crate::model::revision::Digest;

    fn app(slug: &str) -> AppKey {
        AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() }
    }

    fn deployed(second: i64, slug: &str, name: &str, number: Option<i64>) -> RememberedDeployment {
        let at = Timestamp::from_second(second).unwrap();
        let past = PastDeployment {
            id: DeployId::parse(format!("20261121-054812{second:03}-3f9a2c")).unwrap(),
            app: app(slug),
            target: "prod".parse().unwrap(),
            release: Release {
                repository: name.parse().unwrap(),
                commit: "a".repeat(40).parse().unwrap(),
                tag: "v1".parse().unwrap(),
            },
            repository_number: number,
            actor: "jo".to_owned(),
            reason: String::new(),
            template: None,
            templates_commit: None,
            pushed: Pushed {
                commit: "c".repeat(40).parse().unwrap(),
                changed: true,
                digest: Digest(String::new()),
                files: Vec::new(),
            },
            rollback: None,
            received_at: at,
            finished_at: at,
        };
        RememberedDeployment { past, number: None, newest: false, hold: None }
    }

    fn owners(deployments: Vec<RememberedDeployment>, owners: &[(&str, &str)]) -> Vec<String> {
        let owned = |(slug, name): &(&str, &str)| Owned {
            target: "prod".parse().unwrap(),
            app: app(slug),
            repository: name.parse().unwrap(),
            since: Timestamp::UNIX_EPOCH,
            moved: None,
        };
        let owners = owners.iter().map(owned).collect();
        let mut remembered = Remembered { deployments, owners, ..Remembered::default() };
        follow(&mut remembered);
        let known =
            remembered.repositories.iter().map(|(number, (name, _))| format!("{number} {name}"));
        let owners = remembered.owners.iter().map(|one| format!("{} {}", one.app, one.repository));
        owners.chain(known).collect()
    }

    #[test]
    fn an_app_that_was_not_deployed_since_a_rename_follows_it() {
        let deployments = vec![
            deployed(1, "shop", "acme/shop", Some(7)),
            deployed(2, "cart", "acme/shop", Some(7)),
            deployed(3, "cart", "acme/web-shop", Some(7)),
        ];
        let all = owners(deployments, &[("shop", "acme/shop"), ("cart", "acme/web-shop")]);
        assert_eq!(all, ["devx/shop acme/web-shop", "devx/cart acme/web-shop", "7 acme/web-shop"]);
    }

    #[test]
    fn whoever_took_a_name_has_nothing_of_the_one_before_them() {
        let deployments = vec![
            deployed(1, "shop", "acme/shop", Some(7)),
            deployed(2, "cart", "acme/shop", Some(8)),
        ];
        let all = owners(deployments, &[("shop", "acme/shop"), ("cart", "acme/shop")]);
        let former = "-acme/shop.former-7";
        let expected = [
            format!("devx/shop {former}"),
            "devx/cart acme/shop".to_owned(),
            format!("7 {former}"),
            "8 acme/shop".to_owned(),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn commits_without_a_number_keep_their_names() {
        let deployments = vec![deployed(1, "shop", "acme/shop", None)];
        assert_eq!(owners(deployments, &[("shop", "acme/shop")]), ["devx/shop acme/shop"]);
    }
}
