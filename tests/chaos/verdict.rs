//! The check at the end of a round: the manifest repository, the API and GitHub, held against the ledger.
//! Everything that does not fit is a violation; nothing here stops at the first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::chaos::fleet::Fleet;
use crate::chaos::history::{self, Commit, Kind, Tree};
use crate::chaos::ledger::{Accepted, Expectation, Ledger};
use crate::harness::git::Files;
use crate::harness::process::is_given_up;

/// How many revisions of an app are kept.
const KEPT: usize = 5;

/// One round, being judged.
struct Verdict<'r> {
    ledger: &'r Ledger,
    accepted: BTreeMap<String, Accepted>,
    /// What the API says, by deploy id.
    records: BTreeMap<String, Json>,
    /// The hash of the commit of each deploy, rollback and removal id.
    commits: BTreeMap<String, String>,
    /// The place of each commit on the branch, by its hash.
    places: BTreeMap<String, usize>,
}

/// Judges a fleet that rests; one process of it answers.
pub(crate) async fn judge(fleet: &Fleet, ledger: &Ledger) {
    let mut records = BTreeMap::new();
    for record in fleet.records().await {
        let id = text(&record["id"]).to_owned();
        // The list does not say what the code host was told.
        records.insert(id.clone(), fleet.record(&id).await.unwrap_or(record));
    }
    let accepted = ledger.entries().accepted.clone();
    let mut by_id = BTreeMap::new();
    for one in accepted {
        let other = by_id.insert(one.id.clone(), one);
        ledger.require(other.is_none(), || format!("two events became one deployment: {other:?}"));
    }
    let history = history::read(&fleet.bare);
    let places = history.iter().enumerate().map(|(place, commit)| (commit.hash.clone(), place));
    let (commits, places) = (BTreeMap::new(), places.collect());
    let mut verdict = Verdict { ledger, accepted: by_id, records, commits, places };
    let tree = verdict.replay(&history);
    verdict.nothing_was_rewritten(fleet, &history);
    verdict.records_agree();
    verdict.newest_is_live(&fleet.bare.files());
    verdict.hosts_are_unique(&fleet.bare.files());
    verdict.foreign_files_are_there(&fleet.bare.files(), &tree);
    verdict.code_host_was_told_once(fleet);
    let bare = fleet.bare.clone();
    let sound = std::panic::catch_unwind(|| bare.assert_sound());
    ledger.require(sound.is_ok(), || "git fsck finds faults".to_owned());
    for _ in &history {
        ledger.count("commits");
    }
}

impl Verdict<'_> {
    fn say(&self, text: String) {
        self.ledger.violation(text);
    }

    /// Follows the branch commit by commit; the tree at its end.
    fn replay(&mut self, history: &[Commit]) -> Tree {
        let mut tree = Tree::new();
        let mut newest: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        let mut removed: BTreeMap<String, &Commit> = BTreeMap::new();
        for commit in history {
            history::apply(&mut tree, commit);
            let Commit { hash, parents, kind, .. } = commit;
            if *parents > 1 {
                self.say(format!("commit {hash} is a merge"));
            }
            let id = match kind {
                Kind::Foreign => continue,
                Kind::Deployment(id) | Kind::Removal(id) | Kind::Rollback { id, revision: _ } => id,
            };
            if let Some(first) = self.commits.insert(id.clone(), hash.clone()) {
                self.say(format!("{id} is in two commits, {first} and {hash}"));
            }
            if !matches!(kind, Kind::Removal(_)) && !self.records.contains_key(id) {
                self.say(format!("{id} has the commit {hash}, and the API does not know it"));
            }
            let Some(folder) = self.only_folder(commit) else { continue };
            match kind {
                Kind::Foreign => {}
                Kind::Deployment(id) => {
                    self.revision_is_live(&tree, &folder, id, commit);
                    self.is_in_order(id, hash, &mut newest);
                    self.is_the_owner(&folder, commit, &mut owners);
                    self.stays_removed(&folder, id, &mut removed);
                }
                Kind::Rollback { id: _, revision } => {
                    self.revision_is_live(&tree, &folder, revision, commit);
                    if let Some(removal) = removed.get(&folder) {
                        let removal = &removal.hash;
                        self.say(format!("{hash} rolls {folder} back after {removal} removed it"));
                    }
                }
                Kind::Removal(_) => {
                    if !history::below(&tree, &folder).is_empty() {
                        self.say(format!("removal {hash} leaves files in {folder}"));
                    }
                    if tree.contains_key(&application(&folder)) {
                        self.say(format!("removal {hash} leaves {}", application(&folder)));
                    }
                    owners.remove(&folder);
                    removed.insert(folder, commit);
                }
            }
        }
        tree
    }

    /// The one app's folder that a commit of the service changes.
    fn only_folder(&self, commit: &Commit) -> Option<String> {
        let mut folders = BTreeSet::new();
        for (path, _) in &commit.changes {
            if let Some((folder, _)) = history::place(path) {
                folders.insert(folder.to_owned());
            } else if !path.starts_with("apps/") && !path.ends_with("README.md") {
                self.say(format!(
                    "commit {} changes {path}, which is not the service's",
                    commit.hash
                ));
            }
        }
        if folders.len() != 1 {
            self.say(format!("commit {} changes the apps {folders:?}, not one", commit.hash));
        }
        folders.pop_first()
    }

    /// `latest` is that revision, exactly; no more than five are kept, and none is changed.
    fn revision_is_live(&self, tree: &Tree, folder: &str, revision: &str, commit: &Commit) {
        let hash = &commit.hash;
        let live = history::below(tree, &format!("{folder}/latest"));
        let wanted = history::below(tree, &format!("{folder}/{revision}"));
        if live.is_empty() || live != wanted {
            self.say(format!("after {hash} {folder}/latest is not {revision}, file by file"));
        }
        let revisions: BTreeSet<&str> = history::below(tree, folder)
            .into_keys()
            .filter_map(|path| Some(path.split_once('/')?.0))
            .filter(|name| *name != "latest")
            .collect();
        if revisions.len() > KEPT {
            self.say(format!("after {hash} {folder} has {} revisions", revisions.len()));
        }
        for (path, blob) in &commit.changes {
            let Some((_, inner)) = history::place(path) else { continue };
            let ours =
                inner == "latest" || matches!(&commit.kind, Kind::Deployment(id) if id == inner);
            if !ours && blob.is_some() {
                self.say(format!("{hash} changes {path} of another revision"));
            }
            if !ours && revisions.contains(inner) {
                self.say(format!("{hash} takes {path} away and keeps its revision"));
            }
        }
    }

    /// The commits of a repository and target are in the order of their events.
    fn is_in_order(&self, id: &str, hash: &str, newest: &mut BTreeMap<(String, String), usize>) {
        let Some(one) = self.accepted.get(id) else { return };
        let lane = (one.event.repository.clone(), one.event.target.clone());
        let last = newest.entry(lane).or_default();
        if one.sequence < *last {
            let (app, tag) = (&one.app, &one.event.tag);
            self.say(format!(
                "{hash} pushes {app} {tag} (event {} of its lane) over event {last}: the past",
                one.sequence
            ));
        }
        *last = one.sequence.max(*last);
    }

    /// An app is one repository's, until it is removed.
    fn is_the_owner(&self, folder: &str, commit: &Commit, owners: &mut BTreeMap<String, String>) {
        let (hash, repository) = (&commit.hash, &commit.repository);
        let owner = owners.entry(folder.to_owned()).or_insert_with(|| repository.clone());
        if owner != repository {
            self.say(format!("{hash} of {repository} writes {folder}, which is {owner}'s"));
        }
    }

    /// Only what was accepted after a removal was asked for brings an app back.
    fn stays_removed(&self, folder: &str, id: &str, removed: &mut BTreeMap<String, &Commit>) {
        let Some(removal) = removed.remove(folder) else { return };
        let Kind::Removal(done) = &removal.kind else { return };
        let entries = self.ledger.entries();
        let asked = entries.removals.iter().find(|one| one.id == *done).map(|one| one.asked);
        drop(entries);
        let Some(one) = self.accepted.get(id) else { return };
        if asked.is_some_and(|asked| one.answered < asked) {
            let hash = &removal.hash;
            self.say(format!(
                "{id}, accepted before, brings {folder} back after {hash} removed it"
            ));
        }
    }

    /// No commit that the branch ever had is lost.
    fn nothing_was_rewritten(&self, fleet: &Fleet, history: &[Commit]) {
        let known: BTreeSet<&str> = history.iter().map(|commit| &*commit.hash).collect();
        let log = fleet.bare.reflog();
        for hash in log.iter().filter(|hash| !known.contains(hash.as_str())) {
            self.say(format!("commit {hash} was on the branch, and is not any more"));
        }
    }

    /// What the API says of each deployment, and what git says, is the same.
    fn records_agree(&self) {
        let rollbacks = self.ledger.entries().rollbacks.clone();
        for id in self.accepted.keys().chain(&rollbacks) {
            if !self.records.contains_key(id) {
                self.say(format!("{id} was accepted, and the API does not know it"));
            }
        }
        for removed in self.ledger.entries().removals.clone() {
            if !self.commits.contains_key(&removed.id) {
                self.say(format!(
                    "{} is removed, the API says, and no commit does",
                    removed.folder
                ));
            }
        }
        for (id, record) in &self.records {
            let unasked = !self.accepted.contains_key(id) && record["rollback"].is_null();
            if unasked && record["forge_id"].is_i64() {
                self.say(format!("the API has {id}, for which no event was accepted: {record}"));
            }
            self.record_agrees(id, record);
        }
    }

    fn record_agrees(&self, id: &str, record: &Json) {
        let (state, summary) = (text(&record["state"]), text(&record["summary"]));
        let commit = self.commits.get(id).map(String::as_str);
        let pushed = &record["pushed"];
        let expected = match (state, pushed["changed"].as_bool()) {
            ("succeeded", Some(true)) => pushed["commit"].as_str(),
            ("succeeded", Some(false)) | ("failed" | "superseded" | "cancelled", _) => None,
            _ => return self.say(format!("{id} is {state} at the end: {summary}")),
        };
        if !self.names(expected, commit) {
            self.say(format!("{id} is {state}: the API says {expected:?}, git says {commit:?}"));
        }
        let refused = |rule: Option<&str>| {
            let all = record["violations"].as_array().into_iter().flatten();
            let mut errors = all.filter(|one| one["severity"] == "error");
            errors.any(|one| rule.is_none_or(|rule| one["rule"] == rule))
        };
        let Some(one) = self.accepted.get(id) else { return };
        let fits = match (one.expectation, state) {
            (Expectation::Deployed | Expectation::Contested, "succeeded" | "superseded")
            | (Expectation::Cancelled, "cancelled") => true,
            (Expectation::Deployed | Expectation::Contested, "failed")
                if self.may_be_given_up(id) =>
            {
                true
            }
            (Expectation::Contested, "failed") => refused(None),
            (Expectation::Refused(rule), "failed") => refused(Some(rule)),
            _ => false,
        };
        if !fits {
            let (expectation, tag) = (one.expectation, &one.event.tag);
            self.say(format!("{id} ({tag}) is {state}, and was to be {expectation:?}: {summary}"));
        }
    }

    /// Whether the service gave it up because its attempts died three times, and it was we who
    /// killed that often.
    fn may_be_given_up(&self, id: &str) -> bool {
        let kills = self.ledger.entries().counts.get("kills").copied().unwrap_or_default();
        kills >= 3 && self.records.get(id).is_some_and(is_given_up)
    }

    /// Whether the API names the commit that git has. Who finds a push of a process that died may have
    /// a clone that does not go back to it, and names a later commit that holds the revision, too.
    fn names(&self, api: Option<&str>, git: Option<&str>) -> bool {
        match (api, git) {
            (Some(api), Some(git)) => match (self.places.get(api), self.places.get(git)) {
                (Some(api), Some(git)) => api >= git,
                _ => false,
            },
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// The newest event of a repository and target is what runs, where nobody contests that.
    fn newest_is_live(&self, files: &Files) {
        let mut newest: BTreeMap<(&str, &str), &Accepted> = BTreeMap::new();
        let mut contested = BTreeSet::new();
        for one in self.accepted.values() {
            let lane = (&*one.event.repository, &*one.event.target);
            if one.expectation != Expectation::Deployed || self.may_be_given_up(&one.id) {
                contested.insert(lane);
            }
            let found = newest.entry(lane).or_insert(one);
            if found.sequence < one.sequence {
                *found = one;
            }
        }
        for (lane, one) in newest.iter().filter(|(lane, _)| !contested.contains(*lane)) {
            let state =
                self.records.get(&one.id).map_or("unknown", |record| text(&record["state"]));
            if state != "succeeded" {
                self.say(format!("the newest of {lane:?}, {}, is {state}", one.event.tag));
            }
            let path = format!("manifests/{}/devx/{}/latest/deployment.yaml", lane.1, one.app);
            let image = format!(":{}", one.event.tag);
            let runs = files.get(&path).is_some_and(|text| {
                text.lines().any(|line| line.trim_end_matches(['"', '\'']).ends_with(&image))
            });
            if !runs {
                self.say(format!("{path} does not run {}, the newest of {lane:?}", one.event.tag));
            }
        }
    }

    /// On a cluster, a host and path lead to one app.
    fn hosts_are_unique(&self, files: &Files) {
        let mut routes: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
        for (path, text) in files.iter().filter(|(path, _)| path.contains("/latest/ingressroute")) {
            let (folder, _) = history::place(path).expect("an app's file");
            let target = folder.split('/').nth(1).expect("a target").to_owned();
            for line in text.lines().filter_map(|line| line.split_once("match: ")) {
                routes.entry((target.clone(), line.1.to_owned())).or_default().insert(folder);
            }
        }
        for ((target, route), apps) in routes.iter().filter(|(_, apps)| apps.len() > 1) {
            self.say(format!("{route} on {target} leads to {apps:?}"));
        }
    }

    /// What others committed is there, as they committed it.
    fn foreign_files_are_there(&self, files: &Files, tree: &Tree) {
        let foreign = self.ledger.entries().foreign.clone();
        for (path, text) in &foreign {
            if files.get(path) != Some(text) {
                self.say(format!("{path}, which somebody else committed, is lost or changed"));
            }
        }
        if tree.keys().ne(files.keys()) {
            self.say("the commits do not add up to the branch's files".to_owned());
        }
    }

    /// Each state was told at most once, and one end of each deployment.
    fn code_host_was_told_once(&self, fleet: &Fleet) {
        for (id, one) in &self.accepted {
            let Some(record) = self.records.get(id) else { continue };
            let told = fleet.github_states(one.event.number).unwrap_or_else(|| sent(record));
            let different: BTreeSet<&String> = told.iter().collect();
            if different.len() != told.len() {
                self.say(format!("{id}: the code host was told twice: {told:?}"));
            }
            let told_of =
                |ends: &[&str]| told.iter().filter(|one| ends.contains(&one.as_str())).count();
            let fits = match text(&record["state"]) {
                // A success that a newer one overtakes before it is told is told as its end alone.
                "succeeded" => {
                    told_of(&["success", "inactive"]) > 0 && told_of(&["failure", "error"]) == 0
                }
                "failed" => told_of(&["failure", "error"]) == 1 && told_of(&["success"]) == 0,
                _ => told_of(&["inactive"]) == 1 && told_of(&["success", "failure", "error"]) == 0,
            };
            if !fits {
                let state = text(&record["state"]);
                self.say(format!("{id} is {state}, and the code host was told {told:?}"));
            }
        }
    }
}

/// What the local code host was told, as the API has it.
fn sent(record: &Json) -> Vec<String> {
    let all = record["statuses"].as_array().into_iter().flatten();
    let sent = all.filter(|one| !one["sent_at"].is_null());
    sent.map(|one| text(&one["state"]).to_owned()).collect()
}

/// The Application of the app in that folder.
fn application(folder: &str) -> String {
    let mut parts = folder.split('/').skip(1);
    let mut next = || parts.next().unwrap_or_default();
    let (target, namespace, app) = (next(), next(), next());
    format!("apps/{target}/{namespace}.{app}.yaml")
}

pub(crate) fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}
