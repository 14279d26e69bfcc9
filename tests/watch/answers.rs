//! Tests every answer that a list and a watch can get, and the step that follows.

use std::time::Duration;

use serde_json::json;

use crate::harness::api_server::{ApiServer, Fault, FaultRule, Verb, deployment, pod};
use crate::watch::watcher::{Said, Watcher};

async fn watched(names: &[&str]) -> (ApiServer, Watcher) {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    for name in names {
        server.apply(deployment("devx", name));
    }
    let mut watcher = Watcher::of(&server).pause(Duration::from_millis(400)).start();
    watcher.settles().await;
    server.watched(9).await;
    watcher.take("Deployment");
    (server, watcher)
}

#[tokio::test]
async fn after_a_cut_the_watch_goes_on_from_the_last_version_and_nothing_is_lost() {
    let (server, mut watcher) = watched(&["a", "b"]).await;
    let first = watcher.uid("Deployment", "devx/b").to_owned();
    server.fail(FaultRule::always(Fault::Status(500)).of(Verb::Watch, "deployments"));
    server.cut_watches();
    watcher.is_blind("Deployment", "500").await;
    server.delete("Deployment", "devx", "a");
    server.delete("Deployment", "devx", "b");
    server.apply(deployment("devx", "b"));
    server.apply(deployment("devx", "c"));
    server.recover();
    watcher.knows("Deployment", &["devx/b", "devx/c"]).await;
    let is_about = |said: &Said| matches!(said, Said::Deleted(_) | Said::Applied(_));
    let told: Vec<Said> = watcher.take("Deployment").into_iter().filter(is_about).collect();
    let name = |name: &str| format!("devx/{name}");
    let expected = [
        Said::Deleted(name("a")),
        Said::Deleted(name("b")),
        Said::Applied(name("b")),
        Said::Applied(name("c")),
    ];
    assert_eq!(told, expected);
    assert_ne!(watcher.uid("Deployment", "devx/b"), first, "another object of that name");
    assert_eq!(server.counts("deployments").0, 1, "nothing was listed again");
}

#[tokio::test]
async fn a_bookmark_moves_the_version_and_tells_nothing() {
    let (server, mut watcher) = watched(&["a"]).await;
    // Others have a busy life: the version of the cluster moves on, the Deployments' does not.
    for n in 0..20 {
        server.apply(pod("devx", &format!("p-{n}")));
    }
    server.edit(|world| world.bookmark_every = Some(Duration::from_millis(20)));
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.edit(|world| world.bookmark_every = None);
    let version = server.world().version;
    server.compact();
    server.cut_watches();
    server.apply(deployment("devx", "b"));
    watcher.knows("Deployment", &["devx/a", "devx/b"]).await;
    assert_eq!(watcher.take("Deployment"), [Said::Applied("devx/b".to_owned())]);
    let requests = server.requests();
    let last = requests.iter().rfind(|one| one.resource == "deployments").unwrap();
    assert!(last.query.contains(&format!("resourceVersion={version}")), "{}", last.query);
}

#[tokio::test]
async fn what_was_forgotten_is_listed_again_whether_the_stream_or_the_status_says_so() {
    for as_status in [false, true] {
        let (server, mut watcher) = watched(&["a", "b"]).await;
        server.edit(|world| world.gone_as_status = as_status);
        server.fail(FaultRule::always(Fault::Status(500)).of(Verb::Watch, "deployments"));
        server.cut_watches();
        watcher.is_blind("Deployment", "500").await;
        server.delete("Deployment", "devx", "a");
        server.apply(deployment("devx", "c"));
        server.apply(deployment("devx", "c"));
        server.compact();
        server.recover();
        watcher.knows("Deployment", &["devx/b", "devx/c"]).await;
        watcher.sees("Deployment").await;
        let told = watcher.take("Deployment");
        assert!(told.contains(&Said::RelistDone), "{told:?}");
        assert!(!told.contains(&Said::Deleted("devx/a".to_owned())), "{told:?}");
        server.apply(deployment("devx", "d"));
        watcher.knows("Deployment", &["devx/b", "devx/c", "devx/d"]).await;
        assert_eq!(server.counts("deployments").0, 2, "listed once more");
    }
}

#[tokio::test]
async fn a_watch_that_is_refused_is_asked_for_again_with_growing_pauses() {
    for (code, reason) in [(500, "500"), (403, "grant `list` and `watch` on deployments.apps")] {
        let (server, mut watcher) = watched(&["a"]).await;
        server.fail(FaultRule::always(Fault::Status(code)).of(Verb::Watch, "deployments"));
        server.cut_watches();
        watcher.is_blind("Deployment", reason).await;
        let (_, before) = server.counts("deployments");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (lists, opened) = server.counts("deployments");
        assert!((1..=12).contains(&(opened - before)), "{code}: {opened}");
        assert!(lists <= 2, "{code}: {lists}");
        server.recover();
        watcher.sees("Deployment").await;
        server.apply(deployment("devx", "b"));
        watcher.knows("Deployment", &["devx/a", "devx/b"]).await;
    }
}

#[tokio::test]
async fn a_list_that_is_refused_is_asked_for_again_with_growing_pauses() {
    for (fault, reason) in [
        (Fault::Status(401), "does not know our credentials (401)"),
        (Fault::Status(403), "grant `list` and `watch` on pods"),
        (Fault::Text(404, "404 page not found"), "it is no API server of Kubernetes"),
        (Fault::Status(500), "the server answers 500: injected"),
        (Fault::Text(502, "<html>s3cret</html>"), "the server answers 502"),
        (Fault::Body("<html>s3cret</html>".to_owned()), "something that is no list"),
        (Fault::Body("{\"items\": []}".to_owned()), "a list without a version"),
        (Fault::Busy(429, 0), "the server answers 429"),
    ] {
        let server = ApiServer::start().await;
        server.install_custom_resources();
        server.fail(FaultRule::always(fault.clone()).of(Verb::List, "pods"));
        server.apply(pod("devx", "a"));
        let mut watcher = Watcher::of(&server).start();
        watcher.is_blind("Pod", reason).await;
        let unseen = watcher.health.unseen().unwrap();
        assert!(unseen.reason.starts_with("pods: ") && !unseen.reason.contains("s3cret"));
        assert_eq!(unseen.since, None, "it was never seen");
        let (before, _) = server.counts("pods");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let asked = server.counts("pods").0 - before;
        assert!((1..=12).contains(&asked), "{fault:?}: {asked}");
        assert_eq!(server.counts("deployments"), (1, 1), "the others are seen");
        server.recover();
        watcher.knows("Pod", &["devx/a"]).await;
        watcher.sees("Pod").await;
        assert_eq!(watcher.health.unseen(), None);
    }
}

#[tokio::test]
async fn a_busy_server_is_left_alone_for_as_long_as_it_says() {
    let server = ApiServer::start().await;
    server.fail(FaultRule::always(Fault::Busy(503, 1)).of(Verb::List, "pods").times(1));
    let mut watcher = Watcher::of(&server).start();
    watcher.sees("Pod").await;
    let requests = server.requests();
    let at: Vec<Duration> =
        requests.iter().filter(|one| one.resource == "pods").map(|one| one.at).collect();
    assert!(at[1].saturating_sub(at[0]) >= Duration::from_secs(1), "{at:?}");
}

#[tokio::test]
async fn a_server_that_ends_every_watch_is_asked_seldom_and_the_truth_arrives() {
    for fault in [Fault::Empty, Fault::Cut(0)] {
        let (server, mut watcher) = watched(&["a"]).await;
        server.fail(FaultRule::always(fault).of(Verb::Watch, "deployments"));
        server.cut_watches();
        server.apply(deployment("devx", "b"));
        // Only a list tells.
        watcher.knows("Deployment", &["devx/a", "devx/b"]).await;
        let (lists, opened) = server.counts("deployments");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (more_lists, more_opened) = server.counts("deployments");
        let asked = more_lists + more_opened - lists - opened;
        assert!((1..=12).contains(&asked), "{asked} requests in a second");
        assert!(lists >= 2 && opened >= 5, "{lists} {opened}");
    }
}

#[tokio::test]
async fn a_line_that_breaks_off_comes_again() {
    let (server, mut watcher) = watched(&["a"]).await;
    server.fail(FaultRule::always(Fault::Cut(150)).of(Verb::Watch, "deployments").times(3));
    server.cut_watches();
    for n in 0..5 {
        server.apply(deployment("devx", &format!("n-{n}")));
    }
    let all = ["devx/a", "devx/n-0", "devx/n-1", "devx/n-2", "devx/n-3", "devx/n-4"];
    watcher.knows("Deployment", &all).await;
    let told = watcher.take("Deployment");
    let applied = told.iter().filter(|said| matches!(said, Said::Applied(_))).count();
    assert_eq!((applied, server.counts("deployments").0), (5, 1), "{told:?}");
}

#[tokio::test]
async fn a_list_that_breaks_off_between_two_pages_counts_for_nothing() {
    let server = ApiServer::start().await;
    for name in ["a", "b", "c", "d"] {
        server.apply(deployment("devx", name));
    }
    let rule = FaultRule::always(Fault::Status(500)).of(Verb::List, "deployments");
    server.fail(rule.after(1).times(1));
    let rule = FaultRule::always(Fault::Status(410)).of(Verb::List, "deployments");
    server.fail(rule.after(2).times(1));
    let mut watcher = Watcher::of(&server).page(2).start();
    watcher.knows("Deployment", &["devx/a", "devx/b", "devx/c", "devx/d"]).await;
    watcher.sees("Deployment").await;
    let told = watcher.take("Deployment");
    let count = |one: &Said| told.iter().filter(|said| *said == one).count();
    assert_eq!((count(&Said::RelistBegun), count(&Said::RelistDone)), (3, 1), "{told:?}");
}

#[tokio::test]
async fn what_a_watch_says_that_is_no_event_is_told_and_ends_it() {
    let (server, mut watcher) = watched(&["a"]).await;
    let rule = FaultRule::always(Fault::Body("s3cret\n".to_owned())).of(Verb::Watch, "deployments");
    server.fail(rule);
    server.cut_watches();
    watcher.is_blind("Deployment", "something that is no event").await;
    server.recover();
    server.apply(deployment("devx", "b"));
    watcher.knows("Deployment", &["devx/a", "devx/b"]).await;
    // A kind of event that nobody knows yet.
    let line =
        json!({"type": "NEWS", "object": {"metadata": {"resourceVersion": "1"}}}).to_string();
    let rule = FaultRule::always(Fault::Body(line + "\n")).of(Verb::Watch, "deployments").times(1);
    server.fail(rule);
    server.cut_watches();
    server.apply(deployment("devx", "c"));
    watcher.knows("Deployment", &["devx/a", "devx/b", "devx/c"]).await;
}

#[tokio::test]
async fn a_kind_whose_watches_all_fail_is_listed_from_time_to_time() {
    for fault in [Fault::Status(500), Fault::Status(403), Fault::Body("<html>s3cret\n".to_owned())]
    {
        let server = ApiServer::start().await;
        server.install_custom_resources();
        server.apply(deployment("devx", "a"));
        server.fail(FaultRule::always(fault.clone()).of(Verb::Watch, "deployments"));
        let mut watcher = Watcher::of(&server).start();
        watcher.is_blind("Deployment", "").await;
        server.apply(deployment("devx", "b"));
        server.edit(|world| world.delete("Deployment", "devx", "a"));
        watcher.knows("Deployment", &["devx/b"]).await;
        // A list alone does not make it seen: changes still do not arrive.
        watcher.is_blind("Deployment", "").await;
        let told = watcher.take("Deployment");
        let seen = told.iter().filter(|said| **said == Said::Seen).count();
        if !matches!(fault, Fault::Body(_)) {
            assert_eq!(seen, 1, "after the first list: {told:?}");
        }
        let (lists, opened) = server.counts("deployments");
        assert!(lists >= 2 && opened >= 4 * (lists - 1), "{lists} {opened}");
        server.recover();
        watcher.sees("Deployment").await;
    }
}

#[tokio::test]
async fn a_line_that_cannot_be_read_hides_no_other_and_there_is_a_list_soon() {
    let (server, mut watcher) = watched(&["a"]).await;
    let version = server.apply(deployment("devx", "b"));
    let mut good = deployment("devx", "b");
    good["metadata"]["resourceVersion"] = json!(version.to_string());
    good["metadata"]["uid"] = json!("b");
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let lines = format!(
        "{{\"type\":\"ADDED\",\"object\":{deep}}}\ns3cret\n{}\n",
        json!({"type": "ADDED", "object": good})
    );
    watcher.knows("Deployment", &["devx/a", "devx/b"]).await;
    watcher.take("Deployment");
    let rule = FaultRule::always(Fault::Body(lines)).of(Verb::Watch, "deployments").times(1);
    server.fail(rule);
    server.edit(|world| world.forget("Deployment", "devx", "a"));
    server.cut_watches();
    watcher.knows("Deployment", &["devx/b"]).await;
    let told = watcher.take("Deployment");
    assert_eq!(told.first(), Some(&Said::Applied("devx/b".to_owned())), "{told:?}");
    assert!(told.contains(&Said::RelistDone) && !told.iter().any(is_unseen), "{told:?}");
    assert_eq!(server.counts("deployments").0, 2, "listed once more");
}

fn is_unseen(said: &Said) -> bool {
    matches!(said, Said::Unseen(_))
}

#[tokio::test]
async fn a_server_that_forgets_slowly_is_not_listed_at_full_speed() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let late = Fault::Late(410, Duration::from_millis(1100));
    server.fail(FaultRule::always(late).of(Verb::Watch, "pods"));
    let mut watcher = Watcher::of(&server).pause(Duration::from_secs(1)).start();
    let enough = tokio::time::Instant::now() + Duration::from_secs(20);
    while server.counts("pods").0 < 4 {
        watcher.catches_up().await;
        assert!(tokio::time::Instant::now() < enough, "{:?}", server.counts("pods"));
    }
    let requests = server.requests();
    let at = |verb: Verb| {
        let of_verb = requests.iter().filter(move |one| one.resource == "pods" && one.verb == verb);
        of_verb.map(|one| one.at).collect::<Vec<Duration>>()
    };
    let gaps: Vec<Duration> = at(Verb::Watch)
        .into_iter()
        .zip(at(Verb::List).into_iter().skip(1))
        .map(|(a, b)| b.saturating_sub(a))
        .collect();
    // The first list comes at once; the pauses before the others are at least half a second.
    assert!(gaps[0] < Duration::from_millis(1500), "{gaps:?}");
    assert!(gaps[1..].iter().all(|gap| *gap >= Duration::from_millis(1600)), "{gaps:?}");
}

#[tokio::test]
async fn a_list_that_repeats_its_pages_is_given_up() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let page = json!({"metadata": {"resourceVersion": "5", "continue": "again"}, "items": []});
    server.fail(FaultRule::always(Fault::Body(page.to_string())).of(Verb::List, "pods"));
    server.apply(pod("devx", "a"));
    let mut watcher = Watcher::of(&server).start();
    watcher.is_blind("Pod", "list does not end").await;
    let pages =
        |server: &ApiServer| server.requests().iter().filter(|one| one.resource == "pods").count();
    assert!(pages(&server) < 30, "{}", pages(&server));
    server.recover();
    watcher.knows("Pod", &["devx/a"]).await;
    watcher.sees("Pod").await;
}
