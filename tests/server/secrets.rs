//! POST /api/v1/apps/…/secrets: acts on secrets are recorded by their names, for who may deploy the app.

use serde_json::{Value, json};

use super::shop::{SHOP, TARGET, ask_as, audited, tokens};
use super::world::Answer;
use crate::harness::deployer::Deployer;

async fn record(deployer: &Deployer, token: &str, body: &Value) -> Answer {
    ask_as(deployer, token, &format!("{SHOP}/secrets"), body).await
}

#[tokio::test]
async fn an_act_on_secrets_is_recorded_by_its_names_for_who_may_deploy() {
    let mut deployer = Deployer::prepared().await;
    tokens(
        &mut deployer,
        &[
            ("deployer", "scope: deploy"),
            ("reader", "scope: read"),
            ("elsewhere", "scope: deploy, targets: [dev]"),
        ],
    );
    deployer.starts().await;
    let set = json!({"act": "set", "keys": ["db/password", "db/user"]});
    for token in ["reader", "elsewhere"] {
        record(&deployer, token, &set).await.problem(403, "forbidden");
    }
    record(&deployer, "nobody", &set).await.problem(401, "unauthorized");
    let only_whether = json!({"act": "set", "keys": ["db/password"], "dry_run": true});
    let answer = record(&deployer, "deployer", &only_whether).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"recorded": false})));
    assert!(audited(&deployer).await.is_empty(), "nothing was done yet");
    let answer = record(&deployer, "deployer", &set).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"recorded": true})));
    let copy = json!({"act": "copy", "keys": ["db/password"], "from": "staging"});
    assert_eq!(record(&deployer, "deployer", &copy).await.status, 200);
    let records = audited(&deployer).await;
    let record_of = |n: usize| {
        let record = &records[n];
        (record.by.name.as_str(), record.act.as_ref(), record.subject.as_str())
    };
    assert_eq!(record_of(1), ("deployer", "secrets-set", "db/password, db/user"));
    assert_eq!(record_of(0), ("deployer", "secrets-copy", "db/password (from staging)"));
    assert!(
        records.iter().all(|one| one.target.as_ref().is_some_and(|name| name.as_str() == TARGET))
    );
    deployer.settled().await;
}

#[tokio::test]
async fn what_is_no_name_of_a_key_is_refused_and_not_repeated() {
    let mut deployer = Deployer::prepared().await;
    tokens(&mut deployer, &[("deployer", "scope: deploy")]);
    deployer.starts().await;
    for body in [
        json!({"act": "set", "keys": []}),
        json!({"act": "set", "keys": ["hunter2"]}),
        json!({"act": "set", "keys": ["db/password=hunter2!"]}),
        json!({"act": "set", "keys": vec!["a/b"; 501]}),
        json!({"act": "set", "keys": ["db/a"], "value": "hunter2"}),
        json!({"act": "copy", "keys": ["db/a"], "from": "../x"}),
        json!({"act": "steal", "keys": ["db/a"]}),
    ] {
        let detail = record(&deployer, "deployer", &body).await.problem(422, "unprocessable");
        assert!(!detail.contains("hunter2"), "{detail}");
    }
    assert!(audited(&deployer).await.is_empty());
    deployer.settled().await;
}
