//! The table in BigQuery: the whole service, a BigQuery on loopback, and the clock moved by hand.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use the_deployer::app::receivers::check_bigquery;
use the_deployer::model::deploy_clock::{DeployInterval, DeployMark};
use the_deployer::model::deployment::{Deployment, State};
use the_deployer::notify::bigquery::row::COLUMNS;
use the_deployer::notify::bigquery::token::BigQueryAccess;
use the_deployer::notify::bigquery::{BigQuerySettings, BigQueryTable};
use the_deployer::store::Notification;
use the_deployer::support::clock::Clock;
use the_deployer::support::http::{OutboundHttp, install_tls_provider};

use crate::harness::bigquery::{BigQuery, BigQueryFault as Fault};
use crate::harness::deployer::{Deployer, on_both};
use crate::harness::events::waml;
use crate::harness::requests::at;
use crate::progress::clock::{Times, with_argocd};
use crate::progress::cluster::{Pods, Watched, unpullable_pod};

const TARGET: &str = "prod-cluster-1";

/// The service writes rows with a service account's key; not started yet.
async fn configure(deployer: &mut Deployer) -> BigQuery {
    let bigquery = BigQuery::start(&deployer.clock).await;
    let key = deployer.file("bigquery-key.json", &bigquery.key_file());
    let url = bigquery.url();
    deployer.configure(|config| {
        format!(
            "{config}notify:\n  bigquery: {{project: acme, dataset: dw, endpoint: '{url}', key: {{file: '{key}'}}}}\n"
        )
    });
    bigquery
}

async fn started() -> (Deployer, BigQuery) {
    let mut deployer = Deployer::prepared().await;
    let bigquery = configure(&mut deployer).await;
    deployer.starts().await;
    (deployer, bigquery)
}

/// Somebody deploys an app; everything is worked off, as long as that takes.
async fn deploys(deployer: &Deployer, tag: &str) -> SignedDuration {
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    deployer.clock.advance(Duration::from_secs(1));
    shop.deploys(TARGET, tag).await;
    deployer.settle().await
}

/// The message about the newest deployment's row.
async fn message(deployer: &Deployer) -> Notification {
    let newest = deployer.deployments().await.pop().unwrap();
    let all = deployer.stepped().store().messages(&newest.id).await.unwrap();
    let mut rows = all.into_iter().filter(|told| told.sink.to_string() == "bigquery");
    let row = rows.next().expect("one message");
    assert_eq!(rows.next(), None, "a deployment ends once");
    row
}

async fn settled(deployer: &Deployer, bigquery: &BigQuery) {
    deployer.settled().await;
    bigquery.settled();
}

#[tokio::test]
async fn each_deployment_that_ends_is_a_row_of_a_table_that_the_service_makes() {
    let (deployer, bigquery) = started().await;
    deploys(&deployer, "v1").await;
    let table = bigquery.table("deployments").expect("it is made");
    assert_eq!(table.partitioning, json!({"type": "DAY", "field": "finished_at"}));
    let names: Vec<_> = table.fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert_eq!(names, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
    let deployment = deployer.deployments().await.pop().unwrap();
    let rows = bigquery.rows();
    let [row] = rows.as_slice() else { panic!("one row: {rows:#?}") };
    for (column, value) in [
        ("deployment", json!(deployment.id)),
        ("service", json!("https://deploy.example.com")),
        ("repository", json!("example/shop")),
        ("target", json!(TARGET)),
        ("namespace", json!("devx")),
        ("app", json!("shop")),
        ("tag", json!("v1")),
        ("commit", json!(deployment.request.release.commit)),
        ("actor", json!("octocat")),
        ("outcome", json!("succeeded")),
        ("cause", Json::Null),
        ("rule", Json::Null),
        ("changed", json!(true)),
        ("manifests_commit", json!(deployer.manifests().tip())),
        ("received_at", json!(deployment.received_at)),
        ("finished_at", json!(deployment.finished_at)),
    ] {
        assert_eq!(row[column], value, "{column}");
    }
    // A rule refuses the next one, and a newer one takes the place of another.
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop").replace("schema:", "schmea:"));
    shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    shop.commit(&waml("shop"));
    shop.deploys(TARGET, "v3").await;
    shop.deploys(TARGET, "v4").await;
    deployer.settle().await;
    let rows = bigquery.rows();
    let of_tag = |tag: &str| rows.iter().find(|row| row["tag"] == tag).unwrap();
    assert_eq!(rows.len(), 4, "{rows:#?}");
    let refused = of_tag("v2");
    assert_eq!((&refused["outcome"], &refused["failed_in"]), (&json!("failed"), &json!("rules")));
    assert!(refused["rule"].is_string() && refused["cause"].is_string(), "{refused}");
    let replaced = of_tag("v3");
    assert_eq!(replaced["outcome"], "superseded");
    assert!(replaced["cause"].as_str().unwrap().contains("superseded"), "{replaced}");
    assert_eq!(bigquery.count("POST token"), 1, "a token is good for an hour");
    assert_eq!(bigquery.count("GET tables"), 1, "and a table for a process");
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn a_row_that_came_without_an_answer_is_there_once() {
    let (deployer, bigquery) = started().await;
    bigquery.meets("POST insertAll", Fault::DoneUnheard);
    deploys(&deployer, "v1").await;
    assert_eq!(bigquery.count("POST insertAll"), 2);
    assert_eq!(bigquery.rows().len(), 1);
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn a_sender_that_dies_between_the_row_and_its_record_inserts_it_under_the_same_id() {
    on_both(async |deployer| {
        deployer.dies();
        let bigquery = configure(deployer).await;
        deployer.starts().await;
        let shop = deployer.github.repository("example/shop");
        shop.commit(&waml("shop"));
        shop.deploys(TARGET, "v1").await;
        bigquery.meets("POST insertAll", Fault::DoneSilent);
        let inserted = async {
            while bigquery.rows().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        deployer.dies_when(inserted).await;
        deployer.starts().await;
        deployer.settle().await;
        assert_eq!((bigquery.count("POST insertAll"), bigquery.rows().len()), (2, 1));
        bigquery.settled();
    })
    .await;
}

#[tokio::test]
async fn a_refused_token_is_followed_by_a_new_one_and_a_key_that_was_renewed_is_read() {
    let (deployer, bigquery) = started().await;
    deploys(&deployer, "v1").await;
    bigquery.revokes_tokens();
    deploys(&deployer, "v2").await;
    assert_eq!((bigquery.rows().len(), bigquery.count("POST token")), (2, 2));
    // A token ends after an hour.
    deployer.clock.advance(Duration::from_hours(1));
    deploys(&deployer, "v3").await;
    assert_eq!((bigquery.rows().len(), bigquery.count("POST token")), (3, 3));
    // The key's file is broken, and then as it should be; no restart is needed.
    bigquery.revokes_tokens();
    deployer.file("bigquery-key.json", "{}");
    let shop = deployer.github.repository("example/shop");
    shop.deploys(TARGET, "v4").await;
    deployer.works().await;
    let waiting = message(&deployer).await;
    assert_eq!((waiting.sent_at, waiting.parked), (None, None), "a person can mend that");
    deployer.file("bigquery-key.json", &bigquery.key_file());
    deployer.settle().await;
    assert_eq!(bigquery.rows().len(), 4);
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn an_account_that_was_deleted_keeps_rows_waiting_until_a_person_acts() {
    let (deployer, bigquery) = started().await;
    bigquery.refuses_key(true);
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    let id = shop.deploys(TARGET, "v1").await;
    deployer.works_for(SignedDuration::from_mins(10)).await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "success", "nothing waits for it");
    assert!(bigquery.count("POST token") < 20, "{}", bigquery.count("POST token"));
    bigquery.refuses_key(false);
    deployer.settle().await;
    assert_eq!(bigquery.rows().len(), 1);
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn a_wish_to_wait_is_kept_and_an_outage_is_outlasted() {
    let (deployer, bigquery) = started().await;
    bigquery.meets("POST insertAll", Fault::Waits(429, 300));
    let time = deploys(&deployer, "v1").await;
    assert!((300..310).contains(&time.as_secs()), "{time:#}");
    for _ in 0..8 {
        bigquery.meets("POST insertAll", Fault::Answers(503, "backendError"));
    }
    bigquery.meets("POST insertAll", Fault::Answers(403, "quotaExceeded"));
    let time = deploys(&deployer, "v2").await;
    assert!(time > SignedDuration::from_mins(1), "the circuit breaker: {time:#}");
    assert_eq!(bigquery.rows().len(), 2);
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn an_invalid_row_is_a_dead_letter_and_one_that_was_stopped_comes_again() {
    let (deployer, bigquery) = started().await;
    bigquery.meets("POST insertAll", Fault::RowError("invalid", "Cannot convert value"));
    deploys(&deployer, "v1").await;
    let reason = "BigQuery does not take this row: Cannot convert value";
    assert_eq!(message(&deployer).await.parked.as_deref(), Some(reason));
    assert_eq!(bigquery.count("POST insertAll"), 1);
    bigquery.meets("POST insertAll", Fault::RowError("stopped", ""));
    bigquery.meets("POST insertAll", Fault::RowError("backendError", "later"));
    deploys(&deployer, "v2").await;
    assert!(message(&deployer).await.sent_at.is_some());
    assert_eq!((bigquery.rows().len(), bigquery.count("POST insertAll")), (1, 4));
    bigquery.settled();
    deployer.github.settled();
}

#[tokio::test]
async fn an_older_table_gets_the_columns_that_it_lacks_and_keeps_its_own() {
    let (deployer, bigquery) = started().await;
    let older = json!([
        {"name": "deployment", "type": "STRING", "mode": "REQUIRED"},
        {"name": "finished_at", "type": "TIMESTAMP", "mode": "REQUIRED"},
        {"name": "cost_center", "type": "STRING", "mode": "NULLABLE"},
    ]);
    bigquery.has_table("deployments", &older);
    deploys(&deployer, "v1").await;
    let fields = bigquery.table("deployments").unwrap().fields;
    assert_eq!(fields.len(), COLUMNS.len() + 1);
    assert_eq!(fields[2]["name"], "cost_center");
    assert_eq!((bigquery.rows().len(), bigquery.count("PATCH tables")), (1, 1));
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn a_table_that_is_deleted_is_made_again_and_may_be_known_late() {
    let (deployer, bigquery) = started().await;
    deploys(&deployer, "v1").await;
    bigquery.loses_table("deployments");
    bigquery.lags(5);
    deploys(&deployer, "v2").await;
    assert_eq!((bigquery.rows().len(), bigquery.count("POST tables")), (1, 2 + 7));
    assert!(message(&deployer).await.sent_at.is_some());
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn a_dataset_that_is_missing_and_a_table_of_others_are_told_by_config_check_and_wait() {
    let (deployer, bigquery) = started().await;
    bigquery.dataset(false);
    let wrong = check_bigquery(&deployer.settings(), deployer.clock.now()).await.unwrap();
    assert!(wrong.message.contains("make the dataset of notify.bigquery"), "{wrong}");
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    shop.deploys(TARGET, "v1").await;
    deployer.works().await;
    bigquery.dataset(true);
    bigquery.has_table("deployments", &json!([{"name": "errors", "type": "STRING"}]));
    let wrong = check_bigquery(&deployer.settings(), deployer.clock.now()).await.unwrap();
    assert!(wrong.message.contains("its column `errors` is of the type STRING"), "{wrong}");
    deployer.works_for(SignedDuration::from_secs(2)).await;
    assert_eq!(bigquery.rows().len(), 0);
    bigquery.loses_table("deployments");
    deployer.settle().await;
    assert_eq!(bigquery.rows().len(), 1);
    assert_eq!(check_bigquery(&deployer.settings(), deployer.clock.now()).await, None);
    bigquery.meets("GET tables", Fault::Answers(403, "accessDenied"));
    let wrong = check_bigquery(&deployer.settings(), deployer.clock.now()).await.unwrap();
    assert!(wrong.message.contains("roles/bigquery.dataEditor"), "{wrong}");
    settled(&deployer, &bigquery).await;
}

#[tokio::test]
async fn in_a_watched_cluster_the_row_waits_for_argo_cd_and_has_all_intervals() {
    for mut deployer in Deployer::prepared_on_both().await {
        let bigquery = configure(&mut deployer).await;
        let (world, argocd) = Box::pin(with_argocd(deployer)).await;
        argocd.will([503]);
        let (shop, times) = (world.app("shop"), Times(world.deployer.clock.now()));
        let id = world.push(&shop, "v1").await;
        world.sync(id, "shop", 1).await;
        let pushed = world.reaches(id, State::Progressing).await;
        assert_eq!(bigquery.rows().len(), 0);
        world.deployer.works_for(SignedDuration::from_secs(8)).await;
        world.deployer.clock.advance(Duration::from_secs(33));
        world.bring(id, "shop", 1, Pods { updated: 2, available: 2 }).await;
        // Its pods run, and Argo CD has not ended its sync.
        world.reaches(id, State::Succeeded).await;
        world.deployer.works_for(SignedDuration::from_secs(30)).await;
        assert_eq!((bigquery.rows().len(), message(&world.deployer).await.sent_at), (0, None));
        world.server.apply(times.synced(pushed.pushed.unwrap().commit.as_str()));
        let is_synced = |one: &Deployment| one.marks.get(DeployMark::Synced).is_some();
        let deployment = world.until(id, "synced", is_synced).await;
        world.deployer.settle().await;
        let rows = bigquery.rows();
        let [row] = rows.as_slice() else { panic!("one row: {rows:#?}") };
        assert_eq!(row["pushed_at"], json!(deployment.pushed_at));
        assert_eq!(row["finished_at"], json!(deployment.finished_at));
        assert!(deployment.finished_at > deployment.pushed_at);
        for interval in DeployInterval::ALL {
            assert!(row[format!("{}_ms", interval.as_str())].is_u64(), "{interval:?}: {row}");
        }
        let inserted = bigquery.table("deployments").unwrap().rows.remove(0).0;
        assert_eq!(inserted, deployment.id.to_string());
        assert_eq!(bigquery.count("POST insertAll"), 1);
        world.ends().await;
        bigquery.settled();
    }
}

#[tokio::test]
async fn after_two_minutes_the_row_comes_with_what_is_known() {
    let mut deployer = Deployer::prepared().await;
    let bigquery = configure(&mut deployer).await;
    let world = Watched::start(deployer, "").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.sync(id, "shop", 1).await;
    world.bring(id, "shop", 1, Pods { updated: 2, available: 2 }).await;
    world.reaches(id, State::Succeeded).await;
    world.deployer.works_for(SignedDuration::from_secs(119)).await;
    assert_eq!(bigquery.rows().len(), 0);
    world.deployer.works_for(SignedDuration::from_secs(2)).await;
    let rows = bigquery.rows();
    let [row] = rows.as_slice() else { panic!("one row: {rows:#?}") };
    assert!(row["deployer_ms"].is_u64() && row["total_ms"].is_null(), "{row}");
    let told = message(&world.deployer).await;
    assert_eq!((told.parked, told.skipped), (None, None));
    world.ends().await;
    bigquery.settled();
}

#[tokio::test]
async fn the_row_of_a_deployment_that_failed_in_its_cluster_waits_for_nothing() {
    let mut deployer = Deployer::prepared().await;
    let bigquery = configure(&mut deployer).await;
    let world = Watched::start(deployer, ", progress: {patience: 1s}").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    let none = Pods { updated: 1, available: 0 };
    world.sync(id, "shop", 1).await;
    world.bring(id, "shop", 1, none).await;
    world.server.apply(unpullable_pod("shop", 1));
    world.stands_still(id, "shop", 1, none).await;
    world.passes_until(id, State::Failed).await;
    world.deployer.works().await;
    let rows = bigquery.rows();
    let [row] = rows.as_slice() else { panic!("one row: {rows:#?}") };
    assert_eq!((&row["outcome"], &row["failed_in"]), (&json!("failed"), &json!("cluster")));
    world.ends().await;
    bigquery.settled();
}

#[tokio::test]
async fn on_googles_machines_the_metadata_server_gives_tokens_and_an_emulator_needs_none() {
    install_tls_provider();
    let clock = Clock::manual(at(0));
    let bigquery = BigQuery::start(&clock).await;
    let outbound = OutboundHttp::default();
    let client = |access| {
        let settings = BigQuerySettings {
            project: "acme".to_owned(),
            dataset: "dw".to_owned(),
            table: "deployments".to_owned(),
            endpoint: bigquery.url(),
            access,
        };
        let timeout = Duration::from_secs(4);
        let direct = outbound.client_without_proxy(timeout).unwrap();
        BigQueryTable::new(settings, direct.clone(), direct, timeout)
    };
    let now = clock.now();
    let metadata = client(BigQueryAccess::Metadata(bigquery.host()));
    assert_eq!(metadata.check(now).await, Ok(()));
    assert_eq!(bigquery.count("GET computeMetadata"), 1);
    let emulator = client(BigQueryAccess::Open);
    let refused = emulator.check(now).await.unwrap_err().to_string();
    assert!(refused.contains("set notify.bigquery.key"), "{refused}");
    bigquery.opens();
    assert_eq!(emulator.check(now).await, Ok(()));
    bigquery.meets("GET computeMetadata", Fault::Answers(404, "notFound"));
    let elsewhere = client(BigQueryAccess::Metadata(bigquery.host()));
    let refused = elsewhere.check(now).await.unwrap_err().to_string();
    assert!(refused.contains("give the machine or pod a service account"), "{refused}");
    bigquery.settled();
}
