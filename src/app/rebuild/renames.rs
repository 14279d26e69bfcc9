//! Follows renames by the code host's number of a repository, which commits have beside its name. Pure.
//!
//! A repository that took a free name has another number, and so nothing of the former one's records.
//! A person who may push can write such a number, so each change of an owner is reported; apps of a repository
//! that went to another account have no owner until an operator sets one, as when an event tells it. Commits of
//! earlier versions have no number: records under their names stay there, unless several repositories had those.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::model::id::RepoName;
use crate::store::{OwnerRecord, RememberedDeployment, RestorableRecords};

/// The name of each number, and the time when it was written.
type Names = BTreeMap<i64, (RepoName, Timestamp)>;

/// The number of a repository whose number is unknown; no repository has it.
const NO_NUMBER: i64 = 0;

/// Puts deployments and owners under the newest name of their repository, and keeps the numbers.
/// Returns remarks about owners, one sentence each.
pub(super) fn follow(remembered: &mut RestorableRecords, now: Timestamp) -> Vec<String> {
    let names = newest_names(&remembered.deployments, now);
    let mut notes = Vec::new();
    for owner in &mut remembered.owners {
        let followed = match number_of(owner, &remembered.deployments) {
            Some(number) => owner_by_number(owner, number, &names),
            None => owner_by_name(owner, &remembered.deployments, &names),
        };
        let Some((name, note)) = followed else { continue };
        owner.repository = name;
        notes.push(note);
    }
    for deployment in &mut remembered.deployments {
        let past = &mut deployment.past;
        if let Some((name, _)) = past.repository_number.and_then(|number| names.get(&number)) {
            past.release.repository = name.clone();
        }
    }
    remembered.repositories = names;
    notes
}

/// Returns the owner of an app whose owner's number is known, and the remark about it; `None` where
/// nothing changed.
fn owner_by_number(owner: &OwnerRecord, number: i64, names: &Names) -> Option<(RepoName, String)> {
    let OwnerRecord { target, app, repository: former, .. } = owner;
    let (name, _) = names.get(&number).filter(|(name, _)| !name.is_same(former))?;
    if name.is_retired() && name.had_owner_of(former) {
        let note = format!(
            "{app} on {target} was owned by {former} with the number {number}, and another repository has that \
             name now: it is kept under {name} until the first one comes with its new name, or until \
             `the-deployer owners move` sets the owner"
        );
        return Some((name.clone(), note));
    }
    if name.had_owner_of(former) || former.had_owner_of(name) {
        let note = format!(
            "{app} on {target} is owned by {name}, whose number {number} {former} had in its commits: if that \
             is wrong, set the owner with `the-deployer owners move`"
        );
        return Some((name.clone(), note));
    }
    let retired = former.retired(number).ok()?;
    let note = format!(
        "{app} on {target} was owned by {former}, whose number {number} went to another account as {name}: it \
         is kept under {retired} until `the-deployer owners move` sets the owner"
    );
    Some((retired, note))
}

/// Returns the owner of an app of whose owner the commits have a name only, and the remark about
/// it. It stays with the name if one repository had that all the time; of several, none may take it
/// over.
fn owner_by_name(
    owner: &OwnerRecord,
    deployments: &[RememberedDeployment],
    names: &Names,
) -> Option<(RepoName, String)> {
    let OwnerRecord { target, app, repository: former, .. } = owner;
    let numbers = numbers_under(former, deployments);
    let number = *numbers.first()?;
    let stayed = names.get(&number).is_some_and(|(name, _)| name.is_same(former));
    if numbers.len() == 1 && stayed {
        let note = format!(
            "{app} on {target} is owned by {former}, by its name only: later commits of that name have the number \
             {number}; if that is another repository, set the owner with `the-deployer owners move`"
        );
        return Some((former.clone(), note));
    }
    let retired = former.retired(NO_NUMBER).ok()?;
    let note = format!(
        "{app} on {target} was owned by {former}, of which no commit has the number, and that name was not one \
         repository's all the time: it is kept under {retired} until `the-deployer owners move` sets the owner"
    );
    Some((retired, note))
}

/// Returns the numbers of the repositories that commits call by a name.
fn numbers_under(name: &RepoName, deployments: &[RememberedDeployment]) -> BTreeSet<i64> {
    let under =
        deployments.iter().filter(|deployment| deployment.past.release.repository.is_same(name));
    under.filter_map(|deployment| deployment.past.repository_number).collect()
}

/// Returns the last name of each number, and its time: never after `now`, or no event would be
/// newer. Of one name the newest number counts: the others have another name by now, which is in no
/// commit.
fn newest_names(deployments: &[RememberedDeployment], now: Timestamp) -> Names {
    let mut names = Names::new();
    for past in deployments.iter().map(|deployment| &deployment.past) {
        let Some(number) = past.repository_number else { continue };
        let (name, at) = (&past.release.repository, past.received_at.min(now));
        if names.get(&number).is_none_or(|(_, newest)| *newest <= at) {
            names.insert(number, (name.clone(), at));
        }
    }
    let entries: Vec<_> =
        names.iter().map(|(number, (name, at))| (*number, name.clone(), *at)).collect();
    for (number, name, at) in &entries {
        let is_newer = |(other, other_name, other_time): &(i64, RepoName, Timestamp)| {
            other != number && other_name.is_same(name) && other_time > at
        };
        if entries.iter().any(is_newer)
            && let Ok(retired) = name.retired(*number)
        {
            names.insert(*number, (retired, *at));
        }
    }
    names
}

/// Returns the number of an app's owner, by the app's newest deployment of that name.
fn number_of(owner: &OwnerRecord, deployments: &[RememberedDeployment]) -> Option<i64> {
    let of_owner = |deployment: &&RememberedDeployment| {
        let past = &deployment.past;
        let is_of_app = past.target == owner.target && past.app == owner.app;
        is_of_app && past.release.repository.is_same(&owner.repository)
    };
    deployments
        .iter()
        .rev()
        .filter(of_owner)
        .find_map(|deployment| deployment.past.repository_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::rebuild::complete_rollbacks;
    use crate::model::commit_record::PastDeployment;
    use crate::model::deployment::Pushed;
    use crate::model::id::{AppKey, DeployId};
    use crate::model::release::Release;
    use crate::model::revision::Digest;
    use crate::model::rollback::{Rollback, TreeId};

    /// The second of the rebuild.
    const NOW: i64 = 100;

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
                app: None,
                commit: "a".repeat(40).parse().unwrap(),
                tag: "v1".parse().unwrap(),
            },
            repository_number: number,
            actor: "jo".to_owned(),
            reason: String::new(),
            template: None,
            templates_commit: None,
            fleet: None,
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

    /// Follows the renames; returns the apps' owners with the numbers' names, and the notes.
    fn follow_renames(
        deployments: Vec<RememberedDeployment>,
        owners: &[(&str, &str)],
    ) -> (Vec<String>, Vec<String>) {
        let owner = |(slug, name): &(&str, &str)| OwnerRecord {
            target: "prod".parse().unwrap(),
            app: app(slug),
            repository: name.parse().unwrap(),
            since: Timestamp::UNIX_EPOCH,
            moved: None,
        };
        let owners = owners.iter().map(owner).collect();
        let mut remembered =
            RestorableRecords { deployments, owners, ..RestorableRecords::default() };
        let notes = follow(&mut remembered, Timestamp::from_second(NOW).unwrap());
        let newest = remembered.repositories.values().map(|(_, at)| at.as_second()).max();
        assert!(
            newest.is_none_or(|at| at <= NOW),
            "an event of now would be from before: {newest:?}"
        );
        let repositories =
            remembered.repositories.iter().map(|(number, (name, _))| format!("{number} {name}"));
        let owners =
            remembered.owners.iter().map(|owner| format!("{} {}", owner.app, owner.repository));
        (owners.chain(repositories).collect(), notes)
    }

    fn owners(deployments: Vec<RememberedDeployment>, owners: &[(&str, &str)]) -> Vec<String> {
        follow_renames(deployments, owners).0
    }

    #[test]
    fn an_app_that_was_not_deployed_since_a_rename_follows_it() {
        let deployments = vec![
            deployed(1, "shop", "acme/shop", Some(7)),
            deployed(2, "cart", "acme/shop", Some(7)),
            deployed(3, "cart", "acme/web-shop", Some(7)),
        ];
        let lines = owners(deployments, &[("shop", "acme/shop"), ("cart", "acme/web-shop")]);
        assert_eq!(
            lines,
            ["devx/shop acme/web-shop", "devx/cart acme/web-shop", "7 acme/web-shop"]
        );
    }

    #[test]
    fn whoever_took_a_name_has_nothing_of_the_one_before_them() {
        let deployments = vec![
            deployed(1, "shop", "acme/shop", Some(7)),
            deployed(2, "cart", "acme/shop", Some(8)),
        ];
        let lines = owners(deployments, &[("shop", "acme/shop"), ("cart", "acme/shop")]);
        let former = "-acme/shop.former-7";
        let expected = [
            format!("devx/shop {former}"),
            "devx/cart acme/shop".to_owned(),
            format!("7 {former}"),
            "8 acme/shop".to_owned(),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn commits_without_a_number_keep_their_names() {
        let deployments = vec![deployed(1, "shop", "acme/shop", None)];
        let (owners, notes) = follow_renames(deployments, &[("shop", "acme/shop")]);
        assert_eq!((owners, notes), (vec!["devx/shop acme/shop".to_owned()], Vec::new()));
    }

    #[test]
    fn a_rollback_without_a_number_has_that_of_its_revision_if_it_is_of_the_same_name() {
        let number = |name: &str, repository_number: Option<i64>| {
            let first = deployed(1, "shop", "acme/shop", Some(7));
            let mut back = deployed(2, "shop", name, repository_number);
            back.past.rollback = Some(Rollback {
                with_data: false,
                with_fewer_pods: false,
                undoes: None,
                replaces: None,
                only_from: false,
                to: first.past.id.clone(),
                from: None,
                away: None,
                tree: TreeId(String::new()),
                reason: String::new(),
                hold: false,
            });
            let mut deployments = [first, back];
            complete_rollbacks(&mut deployments);
            deployments[1].past.repository_number
        };
        assert_eq!(number("acme/shop", None), Some(7));
        assert_eq!(number("acme/other", None), None, "the app was moved to it");
        assert_eq!(number("acme/other", Some(8)), Some(8));
    }

    #[test]
    fn a_transferred_repository_takes_no_app_over() {
        let deployments = vec![
            deployed(1, "shop", "acme/shop", Some(7)),
            deployed(2, "bob", "bob/shop", Some(7)),
        ];
        let (lines, notes) =
            follow_renames(deployments, &[("shop", "acme/shop"), ("bob", "bob/shop")]);
        assert_eq!(lines, ["devx/shop -acme/shop.former-7", "devx/bob bob/shop", "7 bob/shop"]);
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(note.starts_with("devx/shop on prod was owned by acme/shop"), "{note}");
        assert!(note.contains("as bob/shop") && note.contains("owners move"), "{note}");
    }

    /// Nor does it after another repository took its second name.
    #[test]
    fn a_transferred_repository_whose_name_was_taken_takes_no_app_over() {
        let deployments = vec![
            deployed(1, "shop", "acme/shop", Some(7)),
            deployed(2, "bob", "bob/shop", Some(7)),
            deployed(3, "eve", "bob/shop", Some(8)),
        ];
        let lines = owners(deployments, &[("shop", "acme/shop"), ("bob", "bob/shop")]);
        assert_eq!(lines[..2], ["devx/shop -acme/shop.former-7", "devx/bob -bob/shop.former-7"]);
    }

    #[test]
    fn a_forged_number_from_the_future_is_told_and_no_event_is_from_before_it() {
        let deployments = vec![
            deployed(1, "shop", "acme/shop", Some(7)),
            deployed(NOW + 899, "eve", "acme/eve", Some(7)),
        ];
        let (lines, notes) =
            follow_renames(deployments, &[("shop", "acme/shop"), ("eve", "acme/eve")]);
        assert_eq!(lines, ["devx/shop acme/eve", "devx/eve acme/eve", "7 acme/eve"]);
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(note.starts_with("devx/shop on prod is owned by acme/eve"), "{note}");
    }

    #[test]
    fn an_app_that_has_a_name_only_stays_with_the_one_repository_of_that_name() {
        let deployments =
            vec![deployed(1, "shop", "acme/shop", None), deployed(2, "cart", "acme/shop", Some(7))];
        let (lines, notes) =
            follow_renames(deployments, &[("shop", "acme/shop"), ("cart", "acme/shop")]);
        assert_eq!(lines, ["devx/shop acme/shop", "devx/cart acme/shop", "7 acme/shop"]);
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(note.contains("by its name only") && note.contains("number 7"), "{note}");
    }

    #[test]
    fn an_app_that_has_the_name_of_several_repositories_only_is_nobodys() {
        let with_numbers = vec![
            deployed(1, "shop", "acme/shop", None),
            deployed(2, "cart", "acme/shop", Some(7)),
            deployed(3, "new", "acme/shop", Some(8)),
        ];
        let with_another_name = vec![
            deployed(1, "shop", "acme/shop", None),
            deployed(2, "cart", "acme/shop", Some(7)),
            deployed(3, "cart", "acme/web-shop", Some(7)),
        ];
        for deployments in [with_numbers, with_another_name] {
            let (lines, notes) = follow_renames(deployments, &[("shop", "acme/shop")]);
            assert_eq!(lines[0], "devx/shop -acme/shop.former-0", "{lines:?}");
            let [note] = notes.as_slice() else { panic!("{notes:?}") };
            assert!(note.contains("owners move"), "{note}");
        }
    }
}
