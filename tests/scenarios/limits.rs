//! More to tell than GitHub lets us: nothing is lost, nothing is hurried, and nobody else waits.

use jiff::SignedDuration;

use crate::harness::deployer::{Deployer, on_postgresql};
use crate::harness::github::Fault;
use crate::scenarios::{TARGET, app, took};

const MANY: usize = 200;

/// Two hundred deployments at once, and an hour's allowance that does not reach for half of them.
#[tokio::test]
async fn the_rate_limit_is_reached_with_two_hundred_deployments_waiting() {
    let deployer = Deployer::start().await;
    deployer.github.hourly(350);
    let mut ids = Vec::new();
    for number in 0..MANY {
        ids.push(app(&deployer, &format!("app-{number}")).deploys(TARGET, "v1").await);
    }
    let time = deployer.settle().await;
    took("200 deployments, 350 requests an hour", time, SignedDuration::from_hours(4));
    assert!(time >= SignedDuration::from_hours(1), "the limit was never reached");
    eprintln!("at most {} writes in a minute", deployer.github.busiest_minute());
    for id in ids {
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    }
    assert_eq!(deployer.manifests().commits(), MANY);
    deployer.settled().await;
}

/// The secondary limit: GitHub says how long, and everything waits behind the first to hear it.
#[tokio::test]
async fn told_to_slow_down_with_many_waiting_one_asks_again_and_then_the_others() {
    let deployer = Deployer::start().await;
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(app(&deployer, &format!("app-{number}")).deploys(TARGET, "v1").await);
    }
    while deployer.stepped().step().await.unwrap() {}
    deployer.github.fails(1, "POST deployments statuses", Fault::Wait(429, 120));
    let time = deployer.settle().await;
    took("told to slow down with 20 waiting", time, SignedDuration::from_mins(6));
    assert!(time >= SignedDuration::from_mins(2));
    for id in ids {
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    }
    deployer.settled().await;
}

/// The same where the limit is reached while WAMLs are read: who was told to wait, waits with
/// everything.
#[tokio::test]
async fn the_rate_limit_is_reached_while_wamls_are_read() {
    let deployer = Deployer::start().await;
    deployer.github.hourly(20);
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(app(&deployer, &format!("app-{number}")).deploys(TARGET, "v1").await);
    }
    let time = deployer.settle().await;
    took("40 deployments, 20 requests an hour", time, SignedDuration::from_hours(16));
    for id in ids {
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    }
    assert_eq!(deployer.manifests().commits(), 40);
    deployer.settled().await;
}

/// GitHub takes no statuses for half an hour: what is deployed meanwhile is deployed at once, and
/// told when GitHub takes it.
#[tokio::test]
async fn a_refused_status_holds_up_no_deployment() {
    for deployer in [Deployer::start().await, Deployer::start_as_app().await] {
        let first = app(&deployer, "first").deploys(TARGET, "v1").await;
        deployer.github.fails(1, "POST statuses", Fault::Wait(403, 1800));
        deployer.works().await;
        let (second, began) =
            (app(&deployer, "second").deploys(TARGET, "v1").await, deployer.clock.now());
        deployer.works().await;
        assert_eq!(deployer.clock.now(), began);
        let record = deployer.deployment(second).await;
        assert_eq!(record.state.as_str(), "succeeded", "{}", record.summary);
        assert_eq!(deployer.manifests().commits(), 2);
        assert_ne!(deployer.github.told(second).last().map(String::as_str), Some("success"));
        let time = deployer.settle().await;
        took("no statuses for half an hour", time, SignedDuration::from_mins(35));
        assert!(time >= SignedDuration::from_mins(29));
        for id in [first, second] {
            assert_eq!(deployer.github.told(id).last().unwrap(), "success");
        }
        deployer.settled().await;
    }
}

/// A refused read is another thing: then nothing goes out.
#[tokio::test]
async fn a_refused_read_holds_up_statuses_too() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    deployer.github.fails(1, "GET contents", Fault::Wait(429, 300));
    let id = shop.deploys(TARGET, "v1").await;
    let time = deployer.settle().await;
    assert!(time >= SignedDuration::from_mins(5));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    deployer.settled().await;
}

/// What is left of the hour's requests is for deployments: statuses wait for the next hour.
#[tokio::test]
async fn the_last_requests_of_an_hour_are_for_deployments() {
    let deployer = Deployer::start().await;
    // Two are for each deployment: its WAML, and the folder of several apps.
    deployer.github.hourly(120);
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(app(&deployer, &format!("app-{number}")).deploys(TARGET, "v1").await);
    }
    let began = deployer.clock.now();
    for _ in 0..60 {
        deployer.works().await;
        deployer.clock.advance(std::time::Duration::from_secs(1));
    }
    for name in ["late", "later"] {
        ids.push(app(&deployer, name).deploys(TARGET, "v1").await);
    }
    deployer.works().await;
    assert_eq!(deployer.manifests().commits(), 42, "these are read within the same hour");
    assert!(deployer.clock.now().duration_since(began) < SignedDuration::from_mins(2));
    deployer.settle().await;
    for id in ids {
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    }
    deployer.settled().await;
}

/// Sixty apps are deployed, and replaced at once: more is to be told than GitHub takes in an hour. Each is told its
/// end within it, and what it replaced that it is no longer live. How two hundred fit into an hour is tried where it
/// is decided, in `outbox/quota.rs`.
#[tokio::test]
async fn replacing_deployments_are_told_within_the_hour_and_githubs_hour_is_not_overdrawn() {
    let deployer = Deployer::start_as_app().await;
    let apps: Vec<_> = (0..60).map(|n| app(&deployer, &format!("app-{n}"))).collect();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for one in &apps {
        first.push(one.deploys(TARGET, "v1").await);
    }
    deployer.works_for(SignedDuration::from_mins(20)).await;
    for one in &apps {
        second.push(one.deploys(TARGET, "v2").await);
    }
    deployer.works_for(SignedDuration::from_mins(35)).await;
    for (ids, end) in [(&first, "inactive"), (&second, "success")] {
        for id in ids {
            assert_eq!(deployer.github.told(*id).last().unwrap(), end);
        }
    }
    deployer.settle().await;
    let busiest = deployer.github.busiest_hour();
    assert!(busiest <= 500, "{busiest} writes in an hour");
    assert!(busiest >= 300, "the hour was never scarce: {busiest} writes");
    deployer.settled().await;
}

/// What GitHub said is told to whoever asks how the service is.
#[tokio::test]
async fn that_github_limits_us_is_said_with_its_end() {
    let deployer = Deployer::start().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.github.fails(1, "POST deployments statuses", Fault::Wait(403, 1800));
    deployer.works().await;
    let url = format!("http://{}", deployer.stepped().address());
    let get = async |path: &str| {
        reqwest::get(format!("{url}{path}")).await.unwrap().text().await.unwrap()
    };
    let until = deployer.clock.now() + SignedDuration::from_secs(1800);
    let said = format!("takes no statuses until {}", until.strftime("%H:%M:%S UTC"));
    let ready: serde_json::Value = serde_json::from_str(&get("/readyz").await).unwrap();
    assert_eq!(ready["ready"], true);
    assert!(ready.to_string().contains(&said), "{ready}");
    assert!(get("/").await.contains(&said));
    deployer.settle().await;
    assert!(!get("/readyz").await.contains("limits us"));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    deployer.settled().await;
}

/// Whoever asks how the service is costs no question about what waits: here it would have no answer.
#[tokio::test]
async fn a_probe_does_not_wait_for_the_outbox() {
    on_postgresql(async |deployer| {
        app(deployer, "shop").deploys(TARGET, "v1").await;
        deployer.settle().await;
        let pool = sqlx::AnyPool::connect(deployer.postgresql().unwrap()).await.unwrap();
        let mut lock = pool.begin().await.unwrap();
        let sql = "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE";
        sqlx::raw_sql(sql).execute(&mut *lock).await.unwrap();
        let url = format!("http://{}/readyz", deployer.stepped().address());
        let answer = tokio::time::timeout(std::time::Duration::from_secs(4), reqwest::get(url));
        let answer = answer.await.expect("it asks the outbox").unwrap();
        assert_eq!(answer.status(), 200);
        lock.rollback().await.unwrap();
        pool.close().await;
    })
    .await;
}

/// Each owner's installation of the App is an account of its own.
#[tokio::test]
async fn one_installation_that_is_limited_holds_up_no_other() {
    let deployer = Deployer::start_as_app().await;
    let limited = app(&deployer, "shop");
    let other = deployer.github.repository("other/blog");
    other.commit(&crate::harness::events::waml("blog").replace("devx", "blog"));
    let held = limited.deploys(TARGET, "v1").await;
    deployer.github.fails(1, "POST example/shop deployments statuses", Fault::Wait(403, 1800));
    deployer.works().await;
    let free = other.deploys(TARGET, "v1").await;
    deployer.works_for(SignedDuration::from_mins(1)).await;
    assert_eq!(deployer.github.told(free).last().unwrap(), "success");
    assert_ne!(deployer.github.told(held).last().map(String::as_str), Some("success"));
    deployer.settle().await;
    assert_eq!(deployer.github.told(held).last().unwrap(), "success");
    deployer.settled().await;
}
