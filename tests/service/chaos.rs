//! Killed again and again at moments that nobody chose.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use serde_json::Value as Json;

use crate::harness::events::{Delivery, Event, waml};
use crate::harness::git::Bare;
use crate::harness::postgres;
use crate::harness::process::{Home, Process, is_given_up};
use crate::harness::random::Random;

const APPS: usize = 6;
const DEPLOYMENTS: usize = 30;
const KILLS: usize = 8;

/// Delivers what is left, in order, as GitHub does: what was not answered is delivered again.
async fn deliver(process: &Process, left: &RefCell<VecDeque<Event>>, ids: &RefCell<Vec<String>>) {
    loop {
        let next = left.borrow().front().cloned();
        let Some(event) = next else { return };
        let answer = Delivery::of(&event, &process.secret).send(process).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        ids.borrow_mut().push(answer.json()["id"].as_str().unwrap().to_owned());
        left.borrow_mut().pop_front();
    }
}

#[tokio::test]
async fn thirty_deployments_survive_eight_kills() {
    survive(&Home::embedded()).await;
}

#[tokio::test]
async fn and_on_postgresql_where_nobody_knows_who_is_dead() {
    let Some(url) = postgres::fresh_database().await else { return };
    survive(&Home::configured(&format!("storage: {{url: \"{url}\"}}\n"))).await;
}

async fn survive(home: &Home) {
    let seed = Random::seed();
    eprintln!("THE_DEPLOYER_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let commits: Vec<String> = (0..APPS)
        .map(|app| home.commit(&format!("example/app-{app}"), &waml(&format!("app-{app}"))))
        .collect();
    let event = |n: usize| {
        let number = i64::try_from(n + 1).unwrap();
        Event::new(number, &format!("app-{}", n % APPS), &commits[n % APPS])
    };
    let left = RefCell::new((0..DEPLOYMENTS).map(event).collect());
    let ids = RefCell::new(Vec::new());
    for _ in 0..KILLS {
        let process = home.start().await;
        let lines = random.below(60);
        let delivering = async {
            deliver(&process, &left, &ids).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = delivering => {}
            () = process.more_lines(lines) => {}
        }
        process.kill();
    }
    let process = home.start().await;
    deliver(&process, &left, &ids).await;
    let ids = ids.into_inner();
    assert_eq!(ids.len(), DEPLOYMENTS);
    let mut ended = BTreeMap::new();
    for id in &ids {
        ended.insert(id.clone(), process.ended(id).await);
    }
    assert_eq!(ended.len(), DEPLOYMENTS, "no two events became one deployment");
    assert_eq!(process.deployments().await.len(), DEPLOYMENTS, "and none became two");
    // Whose attempts died three times is given up, although it was none of its doing: somebody asks again.
    let given_up: Vec<i64> = ended.values().filter(|one| is_given_up(one)).map(number).collect();
    for (again, lost) in given_up.into_iter().enumerate() {
        let app = usize::try_from(lost - 1).unwrap() % APPS;
        let again = i64::try_from(DEPLOYMENTS + again + 1).unwrap();
        let event = Event::new(again, &format!("app-{app}"), &commits[app]);
        let answer = Delivery::of(&event, &process.secret).send(&process).await;
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let end = process.ended(&id).await;
        assert_eq!(end["state"], "succeeded", "{end}");
        ended.insert(id, end);
    }
    assert_told_once(&ended);
    assert_written_once_and_in_order(&home.manifests(), &ended);
}

fn number(one: &Json) -> i64 {
    one["forge_id"].as_i64().unwrap()
}

fn assert_told_once(ended: &BTreeMap<String, Json>) {
    for (id, one) in ended {
        let told: Vec<&str> = one["statuses"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["state"].as_str().unwrap())
            .collect();
        match one["state"].as_str().unwrap() {
            // The last word is of the newer one that replaced it, if there was one.
            "succeeded" => {
                let first = told.strip_suffix(&["inactive"]).unwrap_or(&told);
                assert_eq!(first, ["queued", "in_progress", "success"], "{id}");
            }
            "superseded" => assert!(
                told == ["queued", "inactive"] || told == ["queued", "in_progress", "inactive"],
                "{id}: {told:?}"
            ),
            "failed" if is_given_up(one) => {
                assert_eq!(told, ["queued", "in_progress", "error"], "{id}");
            }
            other => panic!("{id} {other}: {one}"),
        }
    }
}

fn assert_written_once_and_in_order(bare: &Bare, ended: &BTreeMap<String, Json>) {
    let format = "--format=%(trailers:key=Deploy-Id,valueonly,separator=%x20)";
    let log = bare.run(&["log", "--reverse", format, "main"]);
    let written: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    let succeeded = ended.values().filter(|one| one["state"] == "succeeded");
    assert_eq!(written.len(), succeeded.count(), "one commit of each that succeeded");
    let mut apps: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for id in &written {
        let one = &ended[*id];
        assert_eq!(one["state"], "succeeded", "{one}");
        apps.entry(one["repository"].as_str().unwrap()).or_default().push(number(one));
    }
    assert_eq!(apps.len(), APPS);
    for (app, numbers) in apps {
        assert!(numbers.is_sorted_by(|a, b| a < b), "{app}: {numbers:?}");
        let last = *numbers.last().unwrap();
        assert!(last > i64::try_from(DEPLOYMENTS - APPS).unwrap(), "{app}: the newest is live");
    }
    bare.assert_sound();
}
