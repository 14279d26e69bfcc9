//! The audit log: added to, read, never changed.

use std::fs;
use std::path::Path;

use the_deployer::model::audit::{AuditRecord, AuthMethod, Principal, Search};
use the_deployer::model::id::{AppKey, TargetName};
use the_deployer::store::{Accepted, OwnerMove, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};

fn shop() -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() }
}

fn prod() -> TargetName {
    TargetName::parse("prod").unwrap()
}

/// An act at second `n`.
fn entry(n: i64, name: &str, act: &'static str) -> AuditRecord {
    let by = Principal {
        name: name.to_owned(),
        via: AuthMethod::GitHub,
        from: Some("192.0.2.1".to_owned()),
        request: Some(format!("r-{n}")),
    };
    AuditRecord {
        id: id(n),
        at: at(n),
        by,
        act: act.into(),
        target: (act != "lock").then(prod),
        app: (act == "remove").then(shop),
        subject: format!("subject {n}"),
        reason: "why".to_owned(),
        outcome: "done".to_owned(),
    }
}

async fn found(store: &Store, search: Search) -> Vec<String> {
    let found = store.audit_records(&Search { limit: 50, ..search }).await.unwrap();
    found.entries.into_iter().map(|entry| entry.subject).collect()
}

#[tokio::test]
async fn a_deployment_that_was_asked_for_here_has_one_entry_and_its_duplicate_none() {
    run_on_both(async |db| {
        let (asked, by) = (request("web", "prod", 1), entry(1, "alice", "deploy"));
        let accept = async |n, entry: &AuditRecord| {
            db.store
                .accept_act(&delivery(1), &asked, &id(n), Some((entry, None)), at(n))
                .await
                .unwrap()
        };
        assert_eq!(accept(1, &by).await, Accepted::New);
        assert_eq!(accept(2, &entry(2, "alice", "deploy")).await, Accepted::Duplicate(id(1)));
        let act = Search { act: Some("deploy".to_owned()), ..Search::default() };
        assert_eq!(found(&db.store, act).await, ["subject 1"]);
    })
    .await;
}

#[tokio::test]
async fn entries_are_found_newest_first_by_who_what_where_and_when_in_pages() {
    run_on_both(async |db| {
        let acts = [("alice", "lock"), ("bob", "remove"), ("alice", "remove"), ("bob", "hold")];
        for ((name, act), n) in acts.into_iter().zip(1..) {
            db.store.audit(&entry(n, name, act)).await.unwrap();
        }
        let none = Search::default;
        let by = Search { by: Some("alice".to_owned()), ..none() };
        assert_eq!(found(&db.store, by).await, ["subject 3", "subject 1"]);
        let act = Search { act: Some("remove".to_owned()), ..none() };
        assert_eq!(found(&db.store, act).await, ["subject 3", "subject 2"]);
        let on = Search { target: Some(prod()), app: Some(shop()), ..none() };
        assert_eq!(found(&db.store, on).await, ["subject 3", "subject 2"]);
        let time = Search { since: Some(at(2)), until: Some(at(4)), ..none() };
        assert_eq!(found(&db.store, time).await, ["subject 3", "subject 2"]);
        let page = db.store.audit_records(&Search { limit: 3, ..none() }).await.unwrap();
        assert_eq!((page.entries.len(), page.next.as_ref()), (3, Some(&id(2))));
        let rest = db.store.audit_records(&Search { before: page.next, limit: 3, ..none() }).await;
        let rest = rest.unwrap();
        assert_eq!((rest.entries.len(), rest.next), (1, None));
        let whole = &page.entries[1];
        let AuditRecord { id, at, by, act, target, app, subject, reason, outcome } =
            entry(3, "alice", "remove");
        assert_eq!((&whole.id, whole.at, &whole.by), (&id, at, &by));
        assert_eq!((&*whole.act, &whole.target, &whole.app), (&*act, &target, &app));
        assert_eq!((&whole.subject, &whole.reason, &whole.outcome), (&subject, &reason, &outcome));
    })
    .await;
}

#[tokio::test]
async fn an_id_is_written_once_and_a_hostile_name_is_a_name() {
    run_on_both(async |db| {
        let hostile = "x'; DROP TABLE audit; --\0";
        db.store.audit(&entry(1, hostile, "lock")).await.unwrap();
        assert!(db.store.audit(&entry(1, "bob", "remove")).await.is_err(), "nothing is replaced");
        let all = db.store.audit_records(&Search { limit: 9, ..Search::default() }).await.unwrap();
        assert_eq!(all.entries.len(), 1);
        assert_eq!(all.entries[0].by.name, hostile.trim_end_matches('\0'));
    })
    .await;
}

#[tokio::test]
async fn giving_an_app_away_is_in_the_log_with_whose_it_was() {
    run_on_both(async |db| {
        let act = OwnerMove { by: "root".to_owned(), reason: "a new team".to_owned() };
        for (to, n) in [("acme/a", 1), ("acme/b", 2)] {
            let to = to.parse().unwrap();
            db.store.move_owner(&prod(), &shop(), &to, &act, (at(n), &id(n))).await.unwrap();
        }
        let all = db.store.audit_records(&Search { limit: 9, ..Search::default() }).await.unwrap();
        let newest = &all.entries[0];
        assert_eq!((&*newest.act, newest.by.via), ("move-owner", AuthMethod::Operator));
        assert_eq!((newest.by.name.as_str(), newest.reason.as_str()), ("root", "a new team"));
        assert_eq!(newest.outcome, "it is acme/b's now, and was acme/a's");
        assert!(all.entries[1].outcome.contains("nobody's"));
        let owned = db.store.list_owned_apps(&"acme/b".parse().unwrap()).await.unwrap();
        assert_eq!(owned, [(prod(), shop())]);
        assert_eq!(db.store.list_owned_apps(&"acme/a".parse().unwrap()).await.unwrap(), []);
    })
    .await;
}

/// Nothing of ours changes or deletes an entry: no statement does.
#[test]
fn no_statement_changes_the_audit_log() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations"));
    let (mut seen, mut inserts) = (0, 0);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let text = text.to_lowercase().replace('\n', " ");
            seen += 1;
            inserts += text.matches("insert into audit ").count();
            for forbidden in ["update audit ", "delete from audit", "drop table audit"] {
                assert!(!text.contains(forbidden), "{}: {forbidden}", path.display());
            }
        }
    }
    assert!(seen > 100 && inserts == 1, "{seen} files, {inserts} inserts");
}
