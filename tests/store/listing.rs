//! Tests the queries of pages and of the API.

use the_deployer::model::app_instance::AppInstance;
use the_deployer::model::deployment::State;
use the_deployer::model::id::{AppKey, Namespace, RepoName, Slug, TargetName};
use the_deployer::model::violation::Violation;
use the_deployer::store::{Completion, Filter, FinalState, Findings, LeaseState};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id, request};
use crate::store::{accept, claim, succeeded};

#[tokio::test]
async fn pages_go_from_the_newest_to_the_oldest_without_gap_or_overlap() {
    run_on_both(async |db| {
        for n in 1..=7 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = db.store.deployments(&Filter::default(), before.as_ref(), 3).await.unwrap();
            seen.extend(page.deployments.into_iter().map(|d| d.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, (1..=7).rev().map(id).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_filter_keeps_what_matches_all_of_it() {
    run_on_both(async |db| {
        for n in 1..=3 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let app = AppKey {
            namespace: Namespace::parse("shop").unwrap(),
            slug: Slug::parse("web").unwrap(),
        };
        let first = claim(&db.store, 9).await.unwrap();
        let known = Findings { app: Some(app.clone()), ..Findings::default() };
        let _yes = db.store.begin_push(&first, &known, at(10)).await.unwrap();
        let count = async |filter: Filter| {
            db.store.deployments(&filter, None, 100).await.unwrap().deployments.len()
        };
        let all = Filter::default();
        let repository = Some(RepoName::parse("acme/app2").unwrap());
        let [prod, dev] = ["prod", "dev"].map(|name| Some(TargetName::parse(name).unwrap()));
        assert_eq!(count(Filter { state: Some(State::Queued), ..all.clone() }).await, 2);
        assert_eq!(count(Filter { repository: repository.clone(), ..all.clone() }).await, 1);
        assert_eq!(count(Filter { target: prod.clone(), ..all.clone() }).await, 3);
        assert_eq!(count(Filter { target: dev, ..all.clone() }).await, 0);
        assert_eq!(count(Filter { app: Some(app.clone()), ..all.clone() }).await, 1);
        let both = Filter { app: Some(app), repository, target: prod, ..all };
        assert_eq!(count(both).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_filter_knows_people_tags_numbers_and_times() {
    run_on_both(async |db| {
        for n in 1..=4 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let ended = claim(&db.store, 9).await.unwrap();
        let _yes = db.store.begin_push(&ended, &Findings::default(), at(10)).await.unwrap();
        assert_eq!(db.store.finish(&ended, &succeeded(), at(11)).await.unwrap(), LeaseState::Held);
        let found = async |filter: Filter| {
            let page = db.store.deployments(&filter, None, 100).await.unwrap();
            page.deployments.into_iter().map(|one| one.request.forge_id).collect::<Vec<_>>()
        };
        let all = Filter::default();
        let asked = request("app1", "prod", 1);
        let actor = Some(asked.actor);
        assert_eq!(found(Filter { actor, ..all.clone() }).await, [4, 3, 2, 1]);
        let actor = Some("nobody\0".to_owned());
        assert_eq!(found(Filter { actor, ..all.clone() }).await, [0; 0]);
        let tag = Some(asked.release.tag);
        assert_eq!(found(Filter { tag, forge_id: Some(1), ..all.clone() }).await, [1]);
        assert_eq!(found(Filter { forge_id: Some(3), ..all.clone() }).await, [3]);
        let tag = Some("another".parse().unwrap());
        assert_eq!(found(Filter { tag, ..all.clone() }).await, [0; 0]);
        let (since, until) = (Some(at(2)), Some(at(4)));
        assert_eq!(found(Filter { since, until, ..all.clone() }).await, [3, 2]);
        assert_eq!(found(Filter { since, ..all.clone() }).await, [4, 3, 2]);
        assert_eq!(found(Filter { unfinished: true, ..all.clone() }).await, [4, 3, 2]);
        let target = Some("prod".parse().unwrap());
        assert_eq!(found(Filter { unfinished: true, target, until, ..all }).await, [3, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_bell_rings_after_each_change_and_not_after_a_look() {
    run_on_both(async |db| {
        let mut bell = db.store.changes();
        let rang = |bell: &mut tokio::sync::watch::Receiver<()>| {
            let rang = bell.has_changed().unwrap();
            bell.mark_unchanged();
            rang
        };
        accept(&db.store, "app1", 1).await;
        assert!(rang(&mut bell));
        assert!(db.store.deployment(&id(1)).await.unwrap().is_some());
        assert!(!rang(&mut bell));
        let claimed = claim(&db.store, 9).await.unwrap();
        assert!(rang(&mut bell));
        let _yes = db.store.begin_push(&claimed, &Findings::default(), at(10)).await.unwrap();
        assert!(rang(&mut bell));
        let other = db.store.clone();
        assert_eq!(other.finish(&claimed, &succeeded(), at(11)).await.unwrap(), LeaseState::Held);
        assert!(rang(&mut bell), "clones share it");
        assert_eq!(
            db.store.finish(&claimed, &succeeded(), at(12)).await.unwrap(),
            LeaseState::Lost
        );
        assert!(!rang(&mut bell), "nothing was changed");
    })
    .await;
}

#[tokio::test]
async fn the_queue_says_how_much_waits_and_since_when() {
    run_on_both(async |db| {
        assert_eq!(db.store.depth().await.unwrap().oldest, None);
        for n in 1..=3 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let _claim = claim(&db.store, 9).await;
        let depth = db.store.depth().await.unwrap();
        assert_eq!((depth.queued, depth.running, depth.oldest), (2, 1, Some(at(1))));
        assert_eq!((depth.unsent, depth.parked), (4, 0));
        let counts = db.store.counts().await.unwrap();
        assert_eq!(counts, [("queued", 2), ("running", 1)].into());
    })
    .await;
}

#[tokio::test]
async fn an_unknown_id_is_none_and_no_error() {
    run_on_both(async |db| {
        assert_eq!(db.store.deployment(&id(9)).await.unwrap(), None);
        assert_eq!(db.store.statuses(&id(9)).await.unwrap(), []);
        assert_eq!(claim(&db.store, 9).await, None);
    })
    .await;
}

/// As a former version stored them: without a bound, and not counted.
fn violations(many: usize) -> String {
    let one = |n: usize| {
        serde_json::json!({
            "rule": "schema", "severity": if n < 5 { "warning" } else { "error" },
            "message": format!("`env[{n}]` has no \"severity\":\"error\" ü"), "path": format!("env[{n}]"),
            "position": {"file": ".weave.yaml", "line": n, "column": 3, "length": 2},
            "expected": null, "help": "write a name",
        })
    };
    serde_json::Value::Array((0..many).map(one).collect()).to_string().replace('\'', "''")
}

#[tokio::test]
async fn a_row_that_is_too_large_is_counted_in_lists_and_shown_by_its_begin() {
    run_on_both(async |db| {
        accept(&db.store, "app1", 1).await;
        let large = violations(15_007);
        assert!(large.len() > 3_000_000, "{}", large.len());
        let sql = format!(
            "UPDATE deployments SET violations = '{large}', summary = '{}'",
            "ü".repeat(9_000)
        );
        db.execute(&sql).await;
        // Until it is counted as a whole, what is seen of it counts.
        let page = db.store.deployments(&Filter::default(), None, 100).await.unwrap();
        let listed = &page.deployments[0];
        assert!((10..15_002).contains(&listed.violations.errors()), "{listed:?}");
        assert_eq!((listed.violations.len(), listed.violations.warnings()), (0, 5));
        assert_eq!(listed.summary.chars().count(), 4_000);
        let one = db.store.deployment(&id(1)).await.unwrap().unwrap();
        assert_eq!(one.violations.len(), 200);
        assert_eq!(one.violations[199].path, "env[204]", "errors before warnings");
        let picture = db.store.deployment_picture(&id(1)).await.unwrap().unwrap();
        assert_eq!(picture.violations.errors(), listed.violations.errors());
        assert_eq!(db.store.bound_violations(10).await.unwrap(), 0, "it has not ended");
        db.execute("UPDATE deployments SET finished_at = 1").await;
        assert_eq!(db.store.bound_violations(10).await.unwrap(), 1);
        assert_eq!(db.store.bound_violations(10).await.unwrap(), 0);
        let bounded = db.store.deployment(&id(1)).await.unwrap().unwrap().violations;
        assert_eq!((bounded.errors(), bounded.warnings()), (15_002, 5));
        assert_eq!((bounded.len(), bounded.left_out()), (200, 14_807));
        assert_eq!(&*bounded, &*one.violations);
    })
    .await;
}

#[tokio::test]
async fn what_is_stored_of_many_violations_is_counted_and_bounded() {
    run_on_both(async |db| {
        accept(&db.store, "app1", 1).await;
        let claimed = claim(&db.store, 9).await.unwrap();
        let all: Vec<_> =
            (0..15_007).map(|n| Violation::error("schema", format!("no {n}"))).collect();
        let ending = Completion { end: FinalState::Failed, violations: all.into(), ..succeeded() };
        assert_eq!(db.store.finish(&claimed, &ending, at(11)).await.unwrap(), LeaseState::Held);
        let one = db.store.deployment(&id(1)).await.unwrap().unwrap();
        assert_eq!(one.violations, ending.violations);
        assert_eq!((one.violations.len(), one.violations.errors()), (200, 15_007));
        let page = db.store.deployments(&Filter::default(), None, 100).await.unwrap();
        assert_eq!(page.deployments[0].violations.errors(), 15_007);
    })
    .await;
}

#[tokio::test]
async fn a_page_of_large_rows_has_fewer_and_goes_on() {
    run_on_both(async |db| {
        for n in 1..=20 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let files: Vec<_> = (0..2_000).map(|n| format!("{n:-<100}.yaml")).collect();
        let pushed = serde_json::json!({
            "commit": "ab".repeat(20), "changed": true, "digest": "sha256:x", "files": files,
        });
        db.execute(&format!("UPDATE deployments SET pushed = '{pushed}'")).await;
        let (mut seen, mut before, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = db.store.deployments(&Filter::default(), before.as_ref(), 20).await.unwrap();
            assert!((1..=10).contains(&page.deployments.len()), "{}", page.deployments.len());
            seen.extend(page.deployments.into_iter().map(|d| d.id));
            (before, pages) = (page.next, pages + 1);
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, (1..=20).rev().map(id).collect::<Vec<_>>());
        assert!(pages >= 3, "{pages}");
    })
    .await;
}

#[tokio::test]
async fn the_version_of_a_deployment_changes_with_its_picture() {
    run_on_both(async |db| {
        accept(&db.store, "app1", 1).await;
        let version = async || db.store.deployment_version(&id(1)).await.unwrap().unwrap();
        let picture = async || db.store.deployment_picture(&id(1)).await.unwrap().unwrap();
        let mut seen = vec![(version().await, picture().await)];
        assert_eq!(version().await, seen[0].0);
        let claimed = claim(&db.store, 9).await.unwrap();
        seen.push((version().await, picture().await));
        let _yes = db.store.begin_push(&claimed, &Findings::default(), at(10)).await.unwrap();
        seen.push((version().await, picture().await));
        assert_eq!(
            db.store.retry_at(&claimed, at(20), "later", None).await.unwrap(),
            LeaseState::Held
        );
        seen.push((version().await, picture().await));
        let claimed = claim(&db.store, 21).await.unwrap();
        seen.push((version().await, picture().await));
        assert_eq!(
            db.store.finish(&claimed, &succeeded(), at(22)).await.unwrap(),
            LeaseState::Held
        );
        seen.push((version().await, picture().await));
        for (n, (version, picture)) in seen.iter().enumerate() {
            assert!(seen[n + 1..].iter().all(|(v, p)| v != version && p != picture), "{version}");
        }
        assert_eq!(db.store.deployment_version(&id(9)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn the_newest_deployment_of_an_app_is_found_where_it_has_failed() {
    run_on_both(async |db| {
        let spot = |slug: &str| AppInstance::parse(&format!("prod/shop/{slug}")).unwrap();
        let findings = |slug: &str| Findings { app: Some(spot(slug).app), ..Findings::default() };
        // Both of `web` fail; of `cart` the newer one is well again.
        for (n, slug, is_well) in
            [(1, "web", true), (2, "web", false), (3, "cart", false), (4, "cart", true)]
        {
            accept(&db.store, slug, n).await;
            let claim = claim(&db.store, n + 10).await.unwrap();
            let known = findings(slug);
            let _yes = db.store.begin_push(&claim, &known, at(n + 11)).await.unwrap();
            let end = if is_well { succeeded().end } else { FinalState::Failed };
            let ending = Completion { end, findings: known, ..succeeded() };
            assert_eq!(
                db.store.finish(&claim, &ending, at(n + 12)).await.unwrap(),
                LeaseState::Held
            );
        }
        let spots = [spot("cart"), spot("other"), spot("web")];
        let spots: Vec<&AppInstance> = spots.iter().collect();
        let failed = db.store.newest_failed(&spots).await.unwrap();
        let found: Vec<_> =
            failed.iter().map(|(spot, (id, _))| (spot.to_string(), id.clone())).collect();
        assert_eq!(found, [("prod/shop/web".to_owned(), id(2))]);
        assert!(db.store.newest_failed(&[]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_deployment_that_failed_before_its_app_was_known_is_the_newest_of_the_app_before() {
    run_on_both(async |db| {
        let fails = async |lane: &str, n: i64, findings: Findings| {
            accept(&db.store, lane, n).await;
            let running = claim(&db.store, n).await.unwrap();
            let failed = Completion { end: FinalState::Failed, findings, ..succeeded() };
            let finished = db.store.finish(&running, &failed, at(n)).await.unwrap();
            assert_eq!(finished, LeaseState::Held);
        };
        let unread = async |target: Option<&str>, repository: Option<&str>| {
            let target = target.map(|name| TargetName::parse(name).unwrap());
            let repository = repository.map(|name| RepoName::parse(name).unwrap());
            let unread = db.store.unread_deployments(target.as_ref(), repository.as_ref()).await;
            let line = |one: &the_deployer::store::UnreadDeployment| {
                let app = one.app.as_ref().map_or("-".to_owned(), ToString::to_string);
                format!("{} {} {} {app}", one.repository, one.target, one.newest.id)
            };
            unread.unwrap().iter().map(line).collect::<Vec<_>>()
        };
        fails("web", 1, Findings::default()).await;
        fails("web", 2, Findings::default()).await;
        fails("shop", 3, Findings::default()).await;
        let both = [format!("acme/shop prod {} -", id(3)), format!("acme/web prod {} -", id(2))];
        assert_eq!(unread(None, None).await, both, "the newest one of each");
        for (target, repository, lines) in [
            (Some("prod"), None, &both[..]),
            (Some("dev"), None, &[]),
            (None, Some("acme/web"), &both[1..]),
            (Some("prod"), Some("acme/shop"), &both[..1]),
            (Some("dev"), Some("acme/shop"), &[]),
        ] {
            assert_eq!(unread(target, repository).await, lines, "{target:?} {repository:?}");
        }
        // One that waits changes nothing, and one that is cancelled has taken the failure back.
        accept(&db.store, "web", 4).await;
        assert_eq!(unread(None, None).await, both);
        db.execute("UPDATE deployments SET state = 'cancelled', finished_at = 5000 WHERE state = 'queued'").await;
        assert_eq!(unread(None, None).await, both[..1]);
        let app = AppKey {
            namespace: Namespace::parse("devx").unwrap(),
            slug: Slug::parse("shop").unwrap(),
        };
        fails("shop", 5, Findings { app: Some(app), ..Findings::default() }).await;
        assert_eq!(unread(None, None).await, Vec::<String>::new(), "its app is known");
        fails("shop", 6, Findings::default()).await;
        let of_app = [format!("acme/shop prod {} devx/shop", id(6))];
        assert_eq!(unread(None, None).await, of_app);
        let [one] = &db.store.unread_deployments(None, None).await.unwrap()[..] else { panic!() };
        assert!(one.is_waml_unreadable && !one.was_pushed, "{one:?}");
        // The app was pushed; then it went to another repository.
        db.execute(
            "INSERT INTO owners (target, namespace, slug, repository, since) \
             VALUES ('prod', 'devx', 'shop', 'acme/shop', 0)",
        )
        .await;
        let [one] = &db.store.unread_deployments(None, None).await.unwrap()[..] else { panic!() };
        assert!(one.app.is_some() && one.was_pushed, "{one:?}");
        db.execute("UPDATE owners SET repository = 'acme/other'").await;
        let [one] = &db.store.unread_deployments(None, None).await.unwrap()[..] else { panic!() };
        assert!(one.app.is_none() && !one.was_pushed, "{one:?}");
        // Its WAML could be read, and named the app of another one.
        db.execute("UPDATE deployments SET contact = '{}' WHERE slug IS NULL").await;
        let [one] = &db.store.unread_deployments(None, None).await.unwrap()[..] else { panic!() };
        assert!(!one.is_waml_unreadable, "{one:?}");
        let sql = "SELECT MAX(id) AS id FROM deployments WHERE slug IS NULL AND state IN ('failed', 'cancelled') \
             GROUP BY repository, target";
        if let Some(plan) = db.sqlite_plan(sql).await {
            assert!(plan.contains("COVERING INDEX deployments_unread"), "{plan}");
        }
        let sql = "SELECT MAX(s.id) FROM deployments s WHERE s.repository = 'a/b' AND s.target = 'c' \
             AND s.slug IS NOT NULL";
        if let Some(plan) = db.sqlite_plan(sql).await {
            let index = "INDEX deployments_read (repository=? AND target=?)";
            assert!(plan.contains(index), "{plan}");
        }
    })
    .await;
}
