//! Of two deployments that take the same at the same moment, one is given the turn to push.

use jiff::Timestamp;
use the_deployer::model::claim::ObjectClaim;
use the_deployer::model::deployment::State;
use the_deployer::model::facts::ObjectName;
use the_deployer::model::id::{AppKey, DeployId, RepoName, TargetName};
use the_deployer::model::removal::{RemovalEnd, RemovalRecord, RemovedObjects};
use the_deployer::model::route::{Route, RouteClaim};
use the_deployer::store::{
    ActTurn, Claim, ClaimConflict, Completion, Filter, FinalState, Findings, LeaseState, OwnerMove,
    PushTurn, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request, somebody};
use crate::store::{claim, succeeded};

fn app(name: &str) -> AppKey {
    let (namespace, slug) = name.split_once('/').unwrap();
    AppKey { namespace: namespace.parse().unwrap(), slug: slug.parse().unwrap() }
}

fn prod() -> TargetName {
    TargetName::parse("prod").unwrap()
}

fn route(address: &str) -> RouteClaim {
    let (host, path) = address.split_once('/').unwrap();
    RouteClaim { host: host.to_owned(), path: format!("/{path}"), live: false }
}

/// What a plan for the app found out, with its routes.
fn planned(name: &str, routes: &[&str]) -> Findings {
    let routes = routes.iter().map(|address| route(address)).collect();
    Findings { app: Some(app(name)), routes, ..Findings::default() }
}

/// What a plan for the app found out, with its objects: `apps/Deployment/web`, `/Service/web`.
fn planned_objects(name: &str, objects: &[&str]) -> Findings {
    let object = |text: &&str| {
        let [group, kind, name] = text.split('/').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let object = ObjectName { group: group.into(), kind: kind.into(), name: name.into() };
        ObjectClaim { object, live: false }
    };
    Findings { objects: objects.iter().map(object).collect(), ..planned(name, &[]) }
}

/// Deployment `n` of a repository, at a worker since second `n`.
async fn running(store: &Store, repository: &str, n: i64) -> Claim {
    let mut request = request("x", "prod", n);
    request.release.repository = RepoName::parse(repository).unwrap();
    let accepted = store.accept(&delivery(n), &request, &id(n), at(n)).await;
    assert_eq!(accepted.unwrap(), the_deployer::store::Accepted::New);
    claim(store, n).await.unwrap()
}

async fn ends(store: &Store, claim: &Claim, known: &Findings, end: FinalState, n: i64) {
    let ending = Completion { end, findings: known.clone(), ..succeeded() };
    assert_eq!(store.finish(claim, &ending, at(n)).await.unwrap(), LeaseState::Held);
}

async fn succeeds(store: &Store, claim: &Claim, known: &Findings, n: i64) {
    ends(store, claim, known, succeeded().end, n).await;
}

/// A deployment of the repository from its first step to its success.
async fn deployed(store: &Store, repository: &str, known: &Findings, n: i64) {
    let running = running(store, repository, n).await;
    assert_eq!(store.begin_push(&running, known, at(n)).await.unwrap(), PushTurn::Yes);
    succeeds(store, &running, known, n).await;
}

fn is_claimed(turn: &PushTurn) -> bool {
    matches!(turn, PushTurn::Claimed(_))
}

/// The route that is in the way.
fn in_the_way(turn: PushTurn) -> Route {
    let PushTurn::Claimed(conflict) = turn else { panic!("{turn:?}") };
    match *conflict {
        ClaimConflict::Route(route) => route,
        other => panic!("{other:?}"),
    }
}

/// Forty pairs come at the same moment, each by a store of its own; what each of a pair would push.
async fn pairs_run_on_both(claims: impl Fn(i64) -> [(String, Findings); 2]) {
    run_on_both(async |db| {
        let other = db.reopened().await;
        for pair in 0..40 {
            let [(one, first), (two, second)] = claims(pair);
            let (n, m) = (2 * pair + 1, 2 * pair + 2);
            let a = running(&db.store, &one, n).await;
            let b = running(&db.store, &two, m).await;
            let (a_turn, b_turn) = tokio::join!(
                db.store.begin_push(&a, &first, at(m)),
                other.begin_push(&b, &second, at(m)),
            );
            let turns = [a_turn.unwrap(), b_turn.unwrap()];
            let given = turns.iter().filter(|turn| **turn == PushTurn::Yes).count();
            let refused = turns.iter().filter(|turn| is_claimed(turn)).count();
            assert_eq!((given, refused), (1, 1), "pair {pair}: {turns:?}");
            for (turn, claim, known) in [(&turns[0], &a, &first), (&turns[1], &b, &second)] {
                let state = db.store.deployment(&claim.deployment.id).await.unwrap().unwrap().state;
                let (expected, end) = match turn {
                    PushTurn::Yes => (State::Pushing, succeeded().end),
                    _ => (State::Running, FinalState::Failed),
                };
                assert_eq!(state, expected);
                ends(&db.store, claim, known, end, m).await;
            }
        }
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn of_two_repositories_that_deploy_the_same_new_app_one_is_given_the_turn() {
    pairs_run_on_both(|pair| {
        let known = planned(&format!("shop-{pair}/web"), &[]);
        [("acme/one".to_owned(), known.clone()), ("acme/two".to_owned(), known)]
    })
    .await;
}

#[tokio::test]
async fn of_two_owners_that_come_to_a_new_namespace_one_is_given_the_turn() {
    pairs_run_on_both(|pair| {
        let known = |slug: &str| planned(&format!("shop-{pair}/{slug}"), &[]);
        [("acme/one".to_owned(), known("one")), ("rival/two".to_owned(), known("two"))]
    })
    .await;
}

#[tokio::test]
async fn of_two_apps_that_take_the_same_host_and_path_one_is_given_the_turn() {
    pairs_run_on_both(|pair| {
        let known = |slug: &str| planned(&format!("shop/{slug}"), &[&format!("h{pair}.io/api")]);
        [("acme/one".to_owned(), known("one")), ("acme/two".to_owned(), known("two"))]
    })
    .await;
}

#[tokio::test]
async fn of_two_apps_that_make_an_object_of_one_name_one_is_given_the_turn() {
    pairs_run_on_both(|pair| {
        // More than one statement takes, the same one at another place of each.
        let many =
            |slug: &str| (0..70).map(|n| format!("/ConfigMap/{slug}-{n}")).collect::<Vec<_>>();
        let shared = format!("/Service/web-{pair}");
        let mut one = many("coll");
        one.push(shared.clone());
        let mut two = many("web");
        two.insert(0, shared);
        let known = |slug: &str, objects: &[String]| {
            let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
            planned_objects(&format!("shop/{slug}"), &objects)
        };
        [
            ("acme/one".to_owned(), known("coll", &one)),
            ("acme/two".to_owned(), known(&format!("web-{pair}"), &two)),
        ]
    })
    .await;
}

/// The object that is in the way, and whose it is.
fn object_in_the_way(turn: PushTurn) -> String {
    let PushTurn::Claimed(conflict) = turn else { panic!("{turn:?}") };
    match *conflict {
        ClaimConflict::Object { object, app } => format!("{object} of {app}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_object_is_claimed_by_group_kind_and_name_within_its_namespace() {
    run_on_both(async |db| {
        let store = &db.store;
        let turn = async |name: &str, known: &Findings, n: i64| {
            let asking = running(store, &format!("acme/asks-{n}"), n).await;
            let turn = store.begin_push(&asking, known, at(n)).await.unwrap();
            ends(store, &asking, &planned(name, &[]), FinalState::Failed, n).await;
            turn
        };
        let web = planned_objects("shop/web", &["/Service/web", "apps/Deployment/web"]);
        let pushing = running(store, "acme/web", 1).await;
        assert_eq!(store.begin_push(&pushing, &web, at(1)).await.unwrap(), PushTurn::Yes);
        let claimed = store.claimed_objects(&prod(), &app("shop/coll"), at(1)).await.unwrap();
        let shown: Vec<_> =
            claimed.iter().map(|one| format!("{} {}", one.app, one.object)).collect();
        assert_eq!(shown, ["web Service web", "web Deployment web"]);
        for (asks, n) in [("shop/web", 2), ("pay/web", 3)] {
            let found = store.claimed_objects(&prod(), &app(asks), at(n)).await.unwrap();
            assert!(
                found.is_empty(),
                "its own are not others', nor another namespace's: {found:?}"
            );
        }
        for (n, (objects, free)) in (10..).zip([
            ("/Service/web", false),
            ("/Service/webs", true),
            ("serving.knative.dev/Service/web", true),
            ("/ConfigMap/web", true),
        ]) {
            let known = planned_objects("shop/coll", &[objects]);
            let turn = turn("shop/coll", &known, n).await;
            assert_eq!(turn == PushTurn::Yes, free, "{objects}: {turn:?}");
        }
        // What the app has already is no news, whoever else has it.
        let mut live = planned_objects("shop/coll", &["/Service/web"]);
        live.objects[0].live = true;
        assert_eq!(turn("shop/coll", &live, 20).await, PushTurn::Yes);
        succeeds(store, &pushing, &web, 21).await;
        let coll = planned_objects("shop/coll", &["/Service/web"]);
        assert_eq!(
            object_in_the_way(turn("shop/coll", &coll, 22).await),
            "Service web of shop/web"
        );
        // The app's next deployment has it no more.
        deployed(store, "acme/web", &planned_objects("shop/web", &["apps/Deployment/web"]), 23)
            .await;
        assert_eq!(turn("shop/coll", &coll, 24).await, PushTurn::Yes);
        // And some minutes later what is live shows it.
        deployed(store, "acme/web", &web, 25).await;
        assert_eq!(
            object_in_the_way(turn("shop/coll", &coll, 590).await),
            "Service web of shop/web"
        );
        assert_eq!(turn("shop/coll", &coll, 626).await, PushTurn::Yes);
    })
    .await;
}

#[tokio::test]
async fn of_two_owners_that_take_paths_inside_each_other_one_is_given_the_turn() {
    pairs_run_on_both(|pair| {
        // On even pairs a path, on odd ones a star.
        let wide = ["a.w/", "*.w/"][usize::try_from(pair % 2).unwrap()];
        let known = |name: &str, address: &str| {
            planned(name, &[&address.replace(".w/", &format!(".w{pair}.io/"))])
        };
        [
            ("acme/web".to_owned(), known("shop/web", wide)),
            ("rival/login".to_owned(), known("pay/login", "a.w/login")),
        ]
    })
    .await;
}

#[tokio::test]
async fn what_does_not_get_in_the_way_is_given_the_turn_at_the_same_moment() {
    run_on_both(async |db| {
        let other = db.reopened().await;
        for (n, (ours, theirs), (mine, yours)) in
            [(1, ("acme/a", "acme/b"), ("s/a", "s/b")), (3, ("acme/a", "rival/c"), ("s/a", "t/c"))]
        {
            let host = format!("h{n}.io");
            let beside = if n == 1 { format!("{host}/api") } else { format!("other{n}.io/api") };
            let (first, second) =
                (planned(mine, &[&format!("{host}/")]), planned(yours, &[&beside]));
            let a = running(&db.store, ours, n).await;
            let b = running(&db.store, theirs, n + 1).await;
            let turns = tokio::join!(
                db.store.begin_push(&a, &first, at(n + 1)),
                other.begin_push(&b, &second, at(n + 1)),
            );
            assert_eq!((turns.0.unwrap(), turns.1.unwrap()), (PushTurn::Yes, PushTurn::Yes));
            succeeds(&db.store, &a, &first, n + 1).await;
            succeeds(&other, &b, &second, n + 1).await;
        }
        // The same app again, by its own repository, with what it has.
        deployed(&db.store, "Acme/A", &planned("s/a", &["h1.io/", "h1.io/x"]), 9).await;
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_facts_of_the_rules_have_what_is_claimed() {
    run_on_both(async |db| {
        let store = &db.store;
        let web = planned("shop/web", &["a.shop.io/", "b.shop.io/x"]);
        let pushing = running(store, "acme/web", 1).await;
        assert_eq!(store.begin_push(&pushing, &web, at(1)).await.unwrap(), PushTurn::Yes);
        let owners = async |of: &str| {
            store.recorded_facts(&prod(), &app(of), None, &[], at(1)).await.unwrap().owners
        };
        let owned = owners("shop/web").await;
        assert_eq!(owned.app, RepoName::parse("acme/web").ok());
        let beside = owners("shop/api").await;
        assert_eq!((beside.app, beside.namespace.len()), (None, 1));
        assert_eq!(store.ownership(&prod(), &app("shop/web")).await.unwrap().app, None);
        let found = async |of: &str, hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let routes = store.with_claims(&prod(), &app(of), &hosts, vec![], at(1)).await.unwrap();
            routes.into_iter().map(|one| one.host + &one.path).collect::<Vec<_>>()
        };
        assert_eq!(found("shop/api", &["A.shop.io"]).await, ["a.shop.io/"]);
        assert_eq!(found("shop/api", &["*.shop.io"]).await, ["a.shop.io/", "b.shop.io/x"]);
        assert_eq!(found("shop/api", &["c.shop.io"]).await, [""; 0]);
        assert_eq!(found("shop/web", &["a.shop.io"]).await, [""; 0], "its own are not others'");
        let many: Vec<String> = (0..400).map(|n| format!("h{n}.io")).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        many.push("b.shop.io");
        assert!(found("shop/api", &many).await.contains(&"b.shop.io/x".to_owned()));

        let live = Route {
            host: "a.shop.io".to_owned(),
            path: "/".to_owned(),
            app: app("shop/web"),
            repository: RepoName::parse("said/otherwise").ok(),
        };
        succeeds(store, &pushing, &web, 2).await;
        let hosts = ["a.shop.io".to_owned()];
        let routes =
            store.with_claims(&prod(), &app("s/x"), &hosts, vec![live], at(3)).await.unwrap();
        let [one] = &routes[..] else { panic!("once, though it is live and claimed: {routes:?}") };
        assert_eq!(one.repository, RepoName::parse("acme/web").ok(), "the record says whose it is");
    })
    .await;
}

#[tokio::test]
async fn a_claim_ends_with_a_deployment_that_pushed_nothing() {
    run_on_both(async |db| {
        let (store, web) = (&db.store, planned("shop/web", &["shop.io/"]));
        let api = planned("shop/api", &["shop.io/"]);
        let first = running(store, "acme/web", 1).await;
        assert_eq!(store.begin_push(&first, &web, at(1)).await.unwrap(), PushTurn::Yes);
        let second = running(store, "acme/api", 2).await;
        assert!(is_claimed(&store.begin_push(&second, &api, at(2)).await.unwrap()));
        // Its worker dies, and the next one has the turn again: it is its own.
        let heir = claim(store, 200).await.unwrap();
        assert_eq!((&heir.deployment.id, heir.deployment.state), (&id(1), State::Pushing));
        let again = planned("shop/web", &["shop.io/", "new.io/"]);
        assert_eq!(store.begin_push(&heir, &again, at(201)).await.unwrap(), PushTurn::Yes);
        ends(store, &heir, &again, FinalState::Failed, 202).await;
        let second = claim(store, 300).await.unwrap();
        let known = planned("shop/api", &["shop.io/", "new.io/"]);
        assert_eq!(store.begin_push(&second, &known, at(300)).await.unwrap(), PushTurn::Yes);
    })
    .await;
}

/// Whether another app of the owner may have that host and path, at a second.
async fn is_free(store: &Store, address: &str, n: i64) -> bool {
    let asking = running(store, &format!("acme/asks-{n}"), n).await;
    let known = planned("asks/asks", &[address]);
    let known = Findings { app: Some(app(&format!("asks/asks-{n}"))), ..known };
    let turn = store.begin_push(&asking, &known, at(n)).await.unwrap();
    ends(store, &asking, &known, FinalState::Failed, n).await;
    if turn == PushTurn::Yes {
        return true;
    }
    let host = in_the_way(turn).host;
    assert!(address.starts_with(&host), "{host}");
    false
}

#[tokio::test]
async fn a_success_holds_its_routes_until_every_replica_has_seen_it() {
    run_on_both(async |db| {
        let store = &db.store;
        deployed(store, "acme/web", &planned("shop/web", &["one.io/", "two.io/"]), 1).await;
        assert!(!is_free(store, "one.io/", 2).await);
        assert!(!is_free(store, "two.io/", 3).await);
        deployed(store, "acme/web", &planned("shop/web", &["two.io/"]), 4).await;
        assert!(is_free(store, "one.io/", 5).await, "the newer one does not route it");
        assert!(!is_free(store, "two.io/", 590).await);
        assert!(is_free(store, "two.io/", 610).await, "what is live shows it by now, or not");
    })
    .await;
}

#[tokio::test]
async fn a_removal_gives_the_apps_routes_free() {
    run_on_both(async |db| {
        let store = &db.store;
        let objects = planned_objects("shop/web", &["/Service/web"]).objects;
        let known = Findings { objects, ..planned("shop/web", &["one.io/"]) };
        deployed(store, "acme/web", &known, 1).await;
        let claimed = async |n: i64| {
            store.claimed_objects(&prod(), &app("shop/coll"), at(n)).await.unwrap().len()
        };
        assert_eq!(claimed(2).await, 1);
        let taken = RemovedObjects {
            files: vec![],
            objects: vec![],
            keeps_data: vec![],
            digest: None,
            repository: RepoName::parse("acme/web").ok(),
            notes: vec![],
        };
        let removal = RemovalRecord {
            id: id(7),
            target: prod(),
            app: app("shop/web"),
            actor: "jo".to_owned(),
            reason: "over".to_owned(),
            taken,
            asked_at: at(2),
            ended: None,
        };
        let hold = std::time::Duration::from_mins(1);
        let turn = store.begin_removal((&removal, &somebody()), None, at(2), hold).await.unwrap();
        assert_eq!(turn, ActTurn::Yes);
        assert!(!is_free(store, "one.io/", 3).await);
        let commit = "ab".repeat(20).parse().ok();
        let ended = RemovalEnd { at: at(4), commit, summary: "gone".to_owned() };
        store.end_removal(&id(7), &ended, None).await.unwrap();
        assert!(is_free(store, "one.io/", 5).await);
        assert_eq!(claimed(5).await, 0);
    })
    .await;
}

#[tokio::test]
async fn what_is_live_on_both_sides_is_in_nobodys_way() {
    run_on_both(async |db| {
        let store = &db.store;
        let live = |name: &str, address: &str| {
            let routes = vec![RouteClaim { live: true, ..route(address) }];
            Findings { routes, ..planned(name, &[]) }
        };
        deployed(store, "acme/web", &live("shop/web", "shop.io/"), 1).await;
        deployed(store, "rival/login", &live("pay/login", "shop.io/login"), 2).await;
        deployed(store, "acme/web", &live("shop/web", "shop.io/"), 3).await;
        let new = running(store, "rival/login", 4).await;
        let turn = store.begin_push(&new, &planned("pay/login", &["shop.io/new"]), at(4)).await;
        assert_eq!(in_the_way(turn.unwrap()).app, app("shop/web"));
    })
    .await;
}

/// The ids of what counts for an app, newest first.
async fn of_app(store: &Store, name: &str) -> Vec<DeployId> {
    let filter = Filter { app: Some(app(name)), target: Some(prod()), ..Filter::default() };
    let page = store.deployments(&filter, None, 100).await.unwrap();
    page.deployments.into_iter().map(|one| one.id).collect()
}

async fn fails(store: &Store, repository: &str, name: &str, n: i64) {
    let failing = running(store, repository, n).await;
    ends(store, &failing, &planned(name, &[]), FinalState::Failed, n).await;
    let filter = Filter { repository: RepoName::parse(repository).ok(), ..Filter::default() };
    let its_own = store.deployments(&filter, None, 1).await.unwrap().deployments;
    assert_eq!(its_own[0].id, id(n), "its repository's people see it");
}

#[tokio::test]
async fn an_attempt_at_another_repositorys_app_is_none_of_the_apps() {
    run_on_both(async |db| {
        let store = &db.store;
        fails(store, "rival/web", "shop/web", 1).await;
        fails(store, "rival/new", "shop/new", 2).await;
        fails(store, "acme/web", "shop/web", 3).await;
        assert_eq!(of_app(store, "shop/web").await, [id(3), id(1)], "it is nobody's yet");
        deployed(store, "acme/web", &planned("shop/web", &[]), 4).await;
        assert_eq!(of_app(store, "shop/web").await, [id(4), id(3)]);
        assert_eq!(of_app(store, "shop/new").await, [], "the namespace is acme's now");
        for (n, repository, slug, counts) in [
            (5, "rival/web", "web", false),
            (6, "acme/other", "web", false),
            (7, "ACME/Web", "web", true),
            (8, "acme/other", "other", true),
            (9, "rival/other", "other", false),
        ] {
            let name = format!("shop/{slug}");
            fails(store, repository, &name, n).await;
            let found = of_app(store, &name).await;
            assert_eq!(found.first() == Some(&id(n)), counts, "{repository} at {name}: {found:?}");
        }
        let act = OwnerMove { by: "jo".to_owned(), reason: "sold".to_owned() };
        let to = RepoName::parse("rival/web").unwrap();
        let when: (Timestamp, &DeployId) = (at(20), &id(20));
        let _before = store.move_owner(&prod(), &app("shop/web"), &to, &act, when).await.unwrap();
        assert_eq!(of_app(store, "shop/web").await, [id(4)], "what succeeded is its history");
        fails(store, "rival/web", "shop/web", 21).await;
        assert_eq!(of_app(store, "shop/web").await, [id(21), id(4)]);
    })
    .await;
}

#[tokio::test]
async fn who_is_told_that_an_app_is_claimed_is_none_of_it() {
    run_on_both(async |db| {
        let (store, web) = (&db.store, planned("shop/web", &[]));
        let first = running(store, "acme/web", 1).await;
        assert_eq!(store.begin_push(&first, &web, at(1)).await.unwrap(), PushTurn::Yes);
        let second = running(store, "rival/web", 2).await;
        assert!(is_claimed(&store.begin_push(&second, &web, at(2)).await.unwrap()));
        assert_eq!(of_app(store, "shop/web").await, [id(1)]);
        ends(store, &second, &web, FinalState::Failed, 3).await;
        succeeds(store, &first, &web, 4).await;
        assert_eq!(of_app(store, "shop/web").await, [id(1)]);
    })
    .await;
}
