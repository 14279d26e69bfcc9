//! bart's commands that lock, cancel and plan, end to end: the real programs over HTTP.

use std::process::{Command, Output};

use serde_json::{Value as Json, json};

use crate::harness::developer::Developer;
use crate::harness::events::{Event, waml};
use crate::harness::git::Bare;
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};

async fn bart(process: &Process, home: &Home, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
    command.current_dir(home.path("")).env_clear().args(arguments);
    command.env("BART_SERVER", process.address()).env("NO_COLOR", "1");
    command.stdin(std::process::Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn printed(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    texts.concat()
}

/// What a command that goes well prints.
async fn done(process: &Process, home: &Home, arguments: &[&str]) -> String {
    let output = bart(process, home, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {}", printed(&output));
    printed(&output)
}

/// What one prints that ends with that code.
async fn refused(process: &Process, home: &Home, arguments: &[&str], code: i32) -> String {
    let output = bart(process, home, arguments).await;
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", printed(&output));
    printed(&output)
}

/// The same text, whatever ids and moments are in it.
fn settled(text: &str) -> String {
    let word = |word: &str| {
        let hex = word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let of = |digits: &[usize], mark: char| {
            let parts: Vec<&str> = word.split(mark).collect();
            let is = |(part, long): (&&str, &usize)| {
                part.len() == *long && part.bytes().all(|b| b.is_ascii_digit())
            };
            parts.len() == digits.len() && parts.iter().zip(digits).all(is)
        };
        match () {
            () if hex => "LOCK".to_owned(),
            () if of(&[4, 2, 2], '-') => "DAY".to_owned(),
            () if of(&[2, 2], ':') => "TIME".to_owned(),
            () => word.to_owned(),
        }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn what_somebody_locks_is_listed_and_unlocked() {
    let home = Home::embedded();
    std::fs::write(home.path(".weave.yaml"), waml("shop")).unwrap();
    let process = home.start().await;
    let target = "prod-cluster-1";
    assert_eq!(done(&process, &home, &["locks"]).await, "nothing is locked\n");
    let locked = done(&process, &home, &["lock", target, "--reason", "the database moves"]).await;
    assert!(locked.starts_with("locked devx/shop on prod-cluster-1: "), "{locked}");
    let stopped = Event::of_app(&home, 1, "shop").accepted(&process).await;
    let stopped = process.ended(&stopped).await;
    assert_eq!(
        (&stopped["state"], &stopped["violations"][0]["rule"]),
        (&json!("failed"), &json!("locks"))
    );

    done(&process, &home, &["lock", target, "--all", "--reason", "an upgrade", "--for", "2h"])
        .await;
    done(&process, &home, &["lock", "--owner", "a@example.com", "--reason", "holidays"]).await;
    let all = ["lock", "--everything", "--reason", "an incident", "-o", "json"];
    let everything: Json = serde_json::from_str(&done(&process, &home, &all).await).unwrap();
    assert_eq!(everything["scope"], json!({"everything": true}));
    // Moments, because how long ago they were goes by the machine's clock.
    let locks = done(&process, &home, &["locks", "--times", "absolute"]).await;
    insta::assert_snapshot!(settled(&locks), @r"
    LOCK STOPS BY SINCE (UTC) UNTIL (UTC) REASON
    LOCK devx/shop on prod-cluster-1 unknown, on this machine DAY TIME - the database moves
    LOCK everything on prod-cluster-1 unknown, on this machine DAY TIME DAY TIME an upgrade
    LOCK the apps of a@example.com unknown, on this machine DAY TIME - holidays
    LOCK everything unknown, on this machine DAY TIME - an incident
    ");
    let locks: Json =
        serde_json::from_str(&done(&process, &home, &["locks", "-o", "json"]).await).unwrap();
    let moment = |key: &str| -> jiff::Timestamp {
        locks["locks"][1][key].as_str().unwrap().parse().unwrap()
    };
    assert_eq!(moment("until").duration_since(moment("since")).as_secs(), 7_200);
    let here = ["locks", target, "--app", "shop", "--owner", "squad@example.com", "-o", "yaml"];
    let here = done(&process, &home, &here).await;
    assert_eq!(here.matches("id:").count(), 3, "{here}");
    assert!(here.contains("app: devx/shop"), "{here}");

    let unlocked = done(&process, &home, &["unlock", target, "--reason", "it has moved"]).await;
    assert_eq!(unlocked, "unlocked devx/shop on prod-cluster-1\n");
    let again = refused(&process, &home, &["unlock", target, "--reason", "x"], 1).await;
    assert!(again.contains("devx/shop on prod-cluster-1 has no lock of its own"), "{again}");
    let id = everything["id"].as_str().unwrap();
    assert_eq!(
        done(&process, &home, &["unlock", id, "--reason", "over"]).await,
        "unlocked everything\n"
    );
    let gone = refused(&process, &home, &["unlock", id, "--reason", "over"], 1).await;
    assert!(gone.contains(&format!("took lock {id} away")), "{gone}");

    for (arguments, words) in [
        (&["lock", target][..], "--reason"),
        (&["lock", "--reason", "x"], "<TARGET>"),
        (&["lock", target, "--everything", "--reason", "x"], "cannot be used with"),
        (&["lock", target, "--reason", " "], "the reason is empty"),
        (&["lock", target, "--reason", "x", "--for", "long"], "long"),
        (&["unlock", "no!", "--reason", "x"], "neither a lock's id nor a target"),
    ] {
        let said = refused(&process, &home, arguments, 2).await;
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let past = ["lock", target, "--reason", "x", "--until", "2020-01-01T00:00:00Z"];
    let past = refused(&process, &home, &past, 1).await;
    assert!(past.contains("would end before it begins"), "{past}");
}

#[tokio::test]
async fn a_deployment_that_has_not_begun_to_push_is_cancelled() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start().await;
    let held = Held::first_push(&bare, "pre-receive");
    let pushing = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    let waits = Event::of_app(&home, 2, "shop").accepted(&process).await;
    let cancel = async |id: &str, code| {
        refused(&process, &home, &["cancel", id, "--reason", "the wrong tag"], code).await
    };
    let late = cancel(&pushing, 1).await;
    assert!(late.contains("has begun, and may have arrived: roll back instead"), "{late}");
    let cancelled = cancel(&waits, 0).await;
    let words = format!("cancelled {waits}: example/shop v2 is not deployed to prod-cluster-1\n");
    assert_eq!(cancelled, words);
    assert!(cancel(&waits, 1).await.contains("has cancelled: cancelled by"), "said twice");
    held.let_go();
    assert_eq!(process.ended(&pushing).await["state"], "succeeded");
    assert_eq!(process.deployment(&waits).await["state"], "cancelled");
    let unknown = cancel("20261121-054812123-3f9a2c", 1).await;
    assert!(unknown.contains("there is no deployment"), "{unknown}");
    assert_eq!(Bare::commits(&bare), 1);
}

#[tokio::test]
async fn a_plan_is_read_before_the_deed() {
    let home = Home::embedded();
    let file = home.path(".weave.yaml");
    std::fs::write(&file, waml("shop")).unwrap();
    let process = home.start().await;
    let target = "prod-cluster-1";
    let plan = |rest: &[&'static str]| [&["plan", "--repository", "example/shop"], rest].concat();
    let first = done(&process, &home, &plan(&["v1", target])).await;
    assert!(first.starts_with("devx/shop on prod-cluster-1, tag v1: "), "{first}");
    assert!(first.contains(" new\n") && first.contains("+ Deployment shop\n"), "{first}");
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_eq!(process.ended(&id).await["state"], "succeeded");
    let same = done(&process, &home, &plan(&["--live", target])).await;
    assert!(
        same.starts_with("devx/shop on prod-cluster-1, tag v1: nothing would change\n"),
        "{same}"
    );

    let text = waml("shop");
    let text = text.replace("minReplicas: 3", "minReplicas: 4");
    let text = text.replace(
        "MY_ENV_NAME, value: some-value}",
        "MY_ENV_NAME, value: other}, {name: MORE, value: x}",
    );
    std::fs::write(&file, &text).unwrap();
    let other = done(&process, &home, &plan(&["v2", target])).await;
    insta::assert_snapshot!(other, @r#"
    devx/shop on prod-cluster-1, tag v2: 9 changed
    ~ Deployment shop
        spec.template.spec.containers[shop].image: "ghcr.io/example/shop:v1" → "ghcr.io/example/shop:v2"
        spec.template.spec.containers[shop].env[MY_ENV_NAME].value: "some-value" → "other"
        spec.template.spec.containers[shop].env[MORE]: + {"name":"MORE","value":"x"}
    ~ HorizontalPodAutoscaler shop
        spec.minReplicas: 3 → 4
    ~ the version label alone: Certificate shop.shop.prod-cluster-1.internal, IngressRoute shop, PodDisruptionBudget shop, PrometheusRule shop, PrometheusRule shop.slo, Service shop, ServiceAccount shop
    note: no commit was named, so its branch was not checked
    note: pods would be replaced: Deployment shop
    "#);
    let diff = done(&process, &home, &plan(&["--live", target, "--diff"])).await;
    assert!(diff.contains("    -  minReplicas: 3\n    +  minReplicas: 4\n"), "{diff}");
    let at_main = done(&process, &home, &plan(&["v1", target, "--ref", "main"])).await;
    assert!(at_main.contains("nothing would change"), "{at_main}");
    let json = done(&process, &home, &plan(&["v2", target, "-o", "json"])).await;
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!(json["plans"][0]["outcome"], "changes");

    std::fs::write(&file, text.replace("number: 8000", "number: 80000")).unwrap();
    let refusal = refused(&process, &home, &plan(&["v2", target]), 1).await;
    assert!(refusal.contains("would be refused\n"), "{refusal}");
    assert!(refusal.contains("error[schema]") && refusal.contains("--> .weave.yaml:"), "{refusal}");
    let unknown = refused(&process, &home, &plan(&["v2", target, "--ref", "none"]), 1).await;
    assert!(unknown.contains("has no branch, tag or commit"), "{unknown}");
    let nowhere = refused(&process, &home, &plan(&["v2"]), 2).await;
    assert!(nowhere.contains("bart plan TAG TARGET"), "{nowhere}");
    let whose = refused(&process, &home, &["plan", "v2", target], 2).await;
    assert!(whose.contains("--repository OWNER/NAME"), "{whose}");
    assert_eq!(process.deployments().await.len(), 1, "nothing was deployed by that");
    assert_eq!(home.manifests().commits(), 1);
}

#[tokio::test]
async fn the_hold_that_a_deployment_ends_is_named_before_it_does() {
    let home = Home::embedded();
    home.commit("example/shop", &waml("shop"));
    let process = home.start().await;
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let (server, target) = ([("BART_SERVER", process.address())], "prod-cluster-1");
    developer.runs(&server, &["deploy", "v1", target]).await.ended(0, &["succeeded"]);
    let plan = developer.runs(&server, &["plan", "v2", target]).await;
    assert!(!plan.out.contains("holds automation"), "{}", plan.out);
    let hold = ["hold", target, "--reason", "we watch v1"];
    developer.runs(&server, &hold).await.ended(0, &["held"]);
    let plan = developer.runs(&server, &["plan", "v2", target]).await;
    plan.ended(0, &["holds automation off it (we watch v1)", "ends the hold"]);
    let deploy = developer.runs(&server, &["deploy", "v2", target]).await;
    deploy.ended(0, &["prod-cluster-1 is held by", "we watch v1", "ends the hold", "succeeded"]);
    let again = developer.runs(&server, &["deploy", "v3", target]).await.ended(0, &[]).err.clone();
    assert!(!again.contains("is held by"), "{again}");
}
