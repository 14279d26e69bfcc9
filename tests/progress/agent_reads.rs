//! What an agent adds to its reports, and what callers read of them: the ends of logs, the pods at each of several
//! replicas; and a token that is changed while the service runs.

use std::time::Duration;

use serde_json::json;
use the_deployer::model::deployment::State;

use crate::cli::{program, said};
use crate::harness::api_server::{Fault, FaultRule, Verb};
use crate::harness::deployer::Deployer;
use crate::harness::folder;
use crate::progress::agent::{AGENT_TOKEN, Reported, first_report};
use crate::progress::cluster::{Pods, TARGET, crashing_pod, pod, pod_name};
use crate::progress::live::LogReader;

const ALL: Pods = Pods { updated: 2, available: 2 };
const NONE: Pods = Pods { updated: 1, available: 0 };

#[tokio::test]
async fn an_agent_that_may_sends_the_end_of_the_log_without_secrets() {
    for deployer in Deployer::prepared_on_both().await {
        let mut reported = Reported::start_silent(deployer, "").await;
        reported.sends_logs = true;
        reported.start_agent();
        let world = &reported.world;
        let (shop, cart) = (world.app("shop"), world.app("cart"));
        let (crashing, slow) = (world.push(&shop, "v1").await, world.push(&cart, "v1").await);
        let crashed = world.crashes(crashing, "shop").await;
        assert_eq!(crashed.log_tail.last().unwrap(), "no such table: users");
        assert!(!crashed.log_tail.concat().contains("ghp_a"), "{:?}", crashed.log_tail);
        // A pod that runs and is not ready: its log is read when its probes have had their time.
        world.sync(slow, "cart", 1).await;
        world.bring(slow, "cart", 1, NONE).await;
        let key = ("devx".to_owned(), pod_name("cart", 1), "cart".to_owned());
        world.server.edit(|cluster| cluster.logs.insert(key, "waiting for the queue\n".to_owned()));
        let mut running = pod("cart", 1, &json!({"ready": false, "state": {"running": {}}}));
        running["status"]["phase"] = json!("Running");
        world.server.apply(running);
        for second in 0..60 {
            world.deployer.works().await;
            let deployment = world.deployer.deployment(slow).await;
            assert!(second > 20 || deployment.log_tail.is_empty(), "{second}: {deployment:?}");
            if !deployment.log_tail.is_empty() {
                break;
            }
            world.deployer.clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let unready = world.deployer.deployment(slow).await;
        assert_eq!(unready.log_tail, ["waiting for the queue"], "{unready:?}");
        world.recovers(crashing, "shop").await;
        world.bring(slow, "cart", 1, ALL).await;
        world.reaches(slow, State::Succeeded).await;
        Box::pin(reported.ends()).await;
    }
}

#[tokio::test]
async fn callers_read_and_follow_logs_through_an_agent_that_lets_them() {
    for deployer in Deployer::prepared_on_both().await {
        let mut reported = Reported::start_silent(deployer, "").await;
        reported.serves_logs = true;
        reported.sends_logs = true;
        reported.start_agent();
        let world = &reported.world;
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.crashes(id, "shop").await;
        let name = pod_name("shop", 1);
        let key = ("devx".to_owned(), name.clone(), "shop".to_owned());
        let followed = format!("shop/pods/{name}/log?lines=2&follow=true");
        let mut log = LogReader::open(world, &followed).await;
        let first = log.line().await;
        assert!(first.starts_with("login with token ") && !first.contains("aB3dE5"), "{first}");
        assert_eq!(log.line().await, "no such table: users");
        let many = (0..2_000).map(|n| format!("\x1b[31mline {n}\x1b[0m\n")).collect::<String>();
        world.server.edit(|cluster| cluster.logs.get_mut(&key).unwrap().push_str(&many));
        for n in 0..2_000 {
            assert_eq!(log.line().await, format!("line {n}"), "each once, in order");
        }
        // Quiet for longer than the agent waits for lines, and then not.
        tokio::time::sleep(Duration::from_secs(6)).await;
        world.server.edit(|cluster| cluster.logs.get_mut(&key).unwrap().push_str("again\n"));
        assert_eq!(log.line().await, "again");
        assert_eq!(world.server.world().log_readers, 1);
        drop(log);
        let begun = std::time::Instant::now();
        while world.server.world().log_readers > 0 {
            assert!(begun.elapsed() < Duration::from_mins(1), "the agent reads for nobody");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // The one before, to its end; and what is not there.
        world.server.edit(|cluster| cluster.previous_logs.insert(key, "before\n".to_owned()));
        let mut log = LogReader::open(world, &format!("shop/pods/{name}/log?previous=true")).await;
        assert_eq!(log.line().await, "before");
        let (event, data) = log.next().await.unwrap();
        assert_eq!((event.as_str(), &data["error"]), ("end", &json!(null)));
        for (path, expected) in [
            (format!("shop/pods/{name}/log?container=none"), (404, "it has shop")),
            ("shop/pods/payments-0/log".to_owned(), (404, "has no pod of that name")),
        ] {
            let (status, answer) = reported.ask(&path).await;
            let detail = answer["detail"].as_str().unwrap();
            assert_eq!((status, detail.contains(expected.1)), (expected.0, true), "{detail}");
        }
        world.server.fail(FaultRule::always(Fault::Status(403)).of(Verb::Log, "pods"));
        let (status, answer) = reported.ask(&format!("shop/pods/{name}/log")).await;
        let detail = answer["detail"].as_str().unwrap();
        assert_eq!((status, detail.contains("grant `get` on pods/log")), (503, true), "{detail}");
        world.server.recover();
        world.recovers(id, "shop").await;
        Box::pin(reported.ends()).await;
    }
}

#[tokio::test]
async fn bart_prints_logs_of_an_agents_cluster_whichever_replica_it_reaches() {
    let mut deployer = Deployer::prepared().await;
    deployer.shares_database();
    deployer.pushes_to_host().await;
    let mut reported = Reported::start_silent(deployer, "").await;
    reported.serves_logs = true;
    reported.sends_logs = true;
    reported.start_agent();
    let other = reported.world.deployer.another().await;
    let shop = reported.world.app("shop");
    let id = reported.world.push(&shop, "v1").await;
    reported.world.crashes(id, "shop").await;
    // The balancer leads agent and callers to either.
    reported.balancer.lead_to(&[other.address(), reported.service()]);
    let server = reported.balancer.url.clone();
    for _ in 0..2 {
        let folder = folder::temporary();
        let mut bart = program("bart", folder.path());
        bart.env("BART_SERVER", &server).args(["logs", "--pods", "--app", "devx/shop"]);
        let output = tokio::task::spawn_blocking(move || bart.output().unwrap()).await.unwrap();
        let text = said(&output);
        assert!(output.status.success() && text.contains("no such table: users"), "{text}");
    }
    reported.world.recovers(id, "shop").await;
    drop(other);
    Box::pin(reported.ends()).await;
}

#[tokio::test]
async fn a_log_that_the_agent_may_not_read_holds_no_failure_back() {
    let mut reported = Reported::start_silent(Deployer::prepared().await, "").await;
    reported.sends_logs = true;
    reported.world.server.fail(FaultRule::always(Fault::Status(403)).of(Verb::Log, "pods"));
    reported.start_agent();
    let world = &reported.world;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.sync(id, "shop", 1).await;
    world.bring(id, "shop", 1, NONE).await;
    world.server.apply(crashing_pod("shop", 1));
    let crashed = world.until(id, "failing", |one| one.summary.contains("exit code 1")).await;
    assert!(crashed.log_tail.is_empty(), "{crashed:?}");
    world.recovers(id, "shop").await;
    Box::pin(reported.ends()).await;
}

#[tokio::test]
async fn a_replica_that_the_agent_does_not_report_to_names_the_other_and_bart_goes_there() {
    let mut deployer = Deployer::prepared().await;
    deployer.shares_database();
    deployer.pushes_to_host().await;
    let mut reported = Reported::start(deployer, "").await;
    let other = reported.world.deployer.another().await;
    let shop = reported.world.app("shop");
    let id = reported.world.push(&shop, "v1").await;
    reported.world.sync(id, "shop", 1).await;
    reported.world.bring(id, "shop", 1, ALL).await;
    reported.world.reaches(id, State::Succeeded).await;
    let url = format!("http://{}/api/v1/apps/{TARGET}/devx/shop/pods", other.address());
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status(), 421);
    let text = answer.text().await.unwrap();
    assert!(text.contains("reports to another replica of the service, 20"), "{text}");
    reported.balancer.lead_to(&[other.address(), reported.service()]);
    let server = reported.balancer.url.clone();
    for _ in 0..2 {
        let folder = folder::temporary();
        let mut bart = program("bart", folder.path());
        bart.env("BART_SERVER", &server).args(["status", "--app", "devx/shop"]);
        let output = tokio::task::spawn_blocking(move || bart.output().unwrap()).await.unwrap();
        let text = said(&output);
        assert!(output.status.success() && text.contains("2 of 2"), "{text}");
    }
    // Where no replica follows the cluster, a caller is told to come again.
    reported.stop_agent().await;
    reported.world.stop.cancel();
    reported.world.deployer.clock.advance(Duration::from_secs(16));
    let begun = std::time::Instant::now();
    loop {
        let (status, answer) = reported.pods("shop").await;
        if status == 503 && answer["detail"].as_str().unwrap().contains("no replica") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{status}: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    reported.world.deployer.settle().await;
    reported.world.deployer.settled().await;
    drop(other);
}

#[tokio::test]
async fn a_token_that_is_changed_in_its_file_needs_no_restart() {
    const NEXT: &str = "of-the-agent-since-then-0123456789";
    let deployer = Deployer::prepared().await;
    let file = deployer.file("agent-token", AGENT_TOKEN);
    let reported = Reported::start_with_token(deployer, &format!("{{file: '{file}'}}"), "").await;
    let report = async |token: &str| reported.report(token, TARGET, &first_report("a")).await.0;
    let begun = std::time::Instant::now();
    while report(AGENT_TOKEN).await == 421 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nobody follows the cluster");
    }
    assert_eq!((report(AGENT_TOKEN).await, report(NEXT).await), (200, 401));
    reported.world.deployer.file("agent-token", NEXT);
    reported.world.deployer.clock.advance(Duration::from_secs(1));
    assert_eq!((report(AGENT_TOKEN).await, report(NEXT).await), (401, 200));
    // A file that is no token lets nobody in, and the agent comes again.
    reported.world.deployer.file("agent-token", "");
    reported.world.deployer.clock.advance(Duration::from_secs(1));
    assert_eq!((report(NEXT).await, report(AGENT_TOKEN).await), (503, 503));
    reported.world.deployer.file("agent-token", NEXT);
    reported.world.deployer.clock.advance(Duration::from_secs(1));
    assert_eq!(report(NEXT).await, 200);
    reported.world.ends().await;
}
