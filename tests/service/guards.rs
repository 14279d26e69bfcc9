//! Rules that must know the world, kept by the real program: each says no, and why, and lets go
//! when what it asks for is there.

use serde_json::Value as Json;

use crate::harness::events::{Event, waml};
use crate::harness::git::Bare;
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};
use crate::harness::secrets::Keeper;

async fn ended(process: &Process, event: Event) -> Json {
    let id = event.accepted(process).await;
    process.ended(&id).await
}

/// Whether it failed by that rule alone, with these words.
fn assert_refused(deployment: &Json, rule: &str, words: &str) {
    let violations = deployment["violations"].as_array().unwrap();
    let errors: Vec<&Json> = violations.iter().filter(|v| v["severity"] == "error").collect();
    assert_eq!(deployment["state"], "failed", "{deployment}");
    assert!(errors.iter().all(|violation| violation["rule"] == rule), "{deployment}");
    assert!(violations.iter().any(|v| v.to_string().contains(words)), "{deployment}");
}

fn assert_succeeded(deployment: &Json) {
    assert_eq!(deployment["state"], "succeeded", "{deployment}");
}

/// The WAML of `shop` with more in the section of its target.
fn with(more: &str) -> String {
    waml("shop").replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {more}\n"))
}

fn on_prod(more: &str) -> Home {
    Home::configured(&format!(
        "clusters:\n- name: prod-cluster-1\n  environment: production\n  domain: example.com\n{more}"
    ))
}

#[tokio::test]
async fn a_commit_that_is_on_no_allowed_branch_waits_until_it_is() {
    let home = on_prod("  policies: {branches: [main, 'release/*']}\n");
    let process = home.start().await;
    let first = home.commit("example/shop", &waml("shop"));
    let feature = home.commit_file("example/shop", "file", "a feature");
    let bare = Bare(home.state("repos").join("example/shop.git"));
    bare.run(&["update-ref", "refs/heads/feature", &feature]);
    bare.run(&["update-ref", "refs/heads/main", &first]);
    let early = ended(&process, Event::new(1, "shop", &feature)).await;
    assert_refused(&early, "branch", "that `prod-cluster-1` takes");
    assert_succeeded(&ended(&process, Event::new(2, "shop", &first)).await);
    bare.run(&["update-ref", "refs/heads/release/2026/11", &feature]);
    assert_succeeded(&ended(&process, Event::new(3, "shop", &feature)).await);
}

#[tokio::test]
async fn a_secret_is_looked_for_at_the_path_that_the_waml_gives() {
    let keeper = Keeper::start().await;
    let home = on_prod(&format!(
        "  platform: {{secrets: {{delivery: external-secrets, vault: {{address: '{}', mount: kv}}}}}}\n  \
         lookups: {{secrets: vault, vault: {{token: {{file: token}}}}}}\n",
        keeper.address()
    ));
    std::fs::write(home.path("token"), "good-token\n").unwrap();
    let process = home.start().await;
    let text = with("secrets: [{name: db, path: devx/common/db, mountPath: /etc/db}]");
    let commit = home.commit("example/shop", &text);
    // What the app would read without a path of its own.
    keeper.put("devx/shop/db", &["user"]);
    let none = ended(&process, Event::new(1, "shop", &commit)).await;
    assert_refused(&none, "secrets", "write it to `devx/common/db` of the engine `kv`");
    keeper.put("devx/common/db", &["user"]);
    assert_succeeded(&ended(&process, Event::new(2, "shop", &commit)).await);
    let log = process.log() + &home.manifests().files().into_values().collect::<String>();
    assert!(!log.contains("good-token"));
}

#[tokio::test]
async fn a_closed_window_is_told_with_its_reason() {
    let home = on_prod(
        "  policies: {windows: [{days: '*', from: '00:00', to: '24:00', closed: true, reason: the fair}]}\n",
    );
    let process = home.start().await;
    let shut = ended(&process, Event::of_app(&home, 1, "shop")).await;
    assert_refused(&shut, "windows", "the fair");
}

#[tokio::test]
async fn a_disk_goes_only_when_the_waml_says_so() {
    let home = Home::embedded();
    let process = home.start().await;
    let deploy = async |number, more: &str| {
        let commit = home.commit("example/shop", &with(more));
        ended(&process, Event::new(number, "shop", &commit)).await
    };
    let disk = "volumes: [{name: data, mountPath: /data, size: 1Gi, accessMode: ReadWriteMany}]";
    assert_succeeded(&deploy(1, disk).await);
    let claim = "manifests/prod-cluster-1/devx/shop/latest/persistentvolumeclaim.yaml";
    assert!(home.manifests().files().contains_key(claim), "{:?}", home.manifests().files().keys());
    assert_refused(&deploy(2, "labels: {a: b}").await, "stateful", "and the data in it");
    assert!(home.manifests().files().contains_key(claim));
    let said = "removes: [{kind: PersistentVolumeClaim, name: shop.data}]";
    assert_succeeded(&deploy(3, said).await);
    assert!(!home.manifests().files().contains_key(claim));
    let idle = deploy(4, said).await;
    assert_succeeded(&idle);
    assert_eq!(idle["violations"][0]["rule"], "stateful", "{idle}");
}

#[tokio::test]
async fn a_host_is_one_apps_whatever_routes_to_it_and_free_when_the_app_is_removed() {
    for kind in ["kubernetes", "gateway"] {
        let home = on_prod(&format!(
            "  platform: {{ingress: {{kind: {kind}, gateways: {{public: {{name: g, namespace: n}}, internal: {{name: g, namespace: n}}}}}}}}\n"
        ));
        let process = home.start().await;
        assert_succeeded(&ended(&process, Event::of_app(&home, 1, "shop")).await);
        let again = Event { number: 2, ..Event::of_app(&home, 2, "shop") };
        assert_succeeded(&ended(&process, again).await);
        let commit =
            home.commit("example/store", &waml("shop").replace("slug: shop", "slug: store"));
        let clash = ended(&process, Event::new(3, "store", &commit)).await;
        assert_refused(&clash, "hosts", "bart remove prod-cluster-1 devx/shop");
        let ask =
            process.request(reqwest::Method::POST, "/api/v1/apps/prod-cluster-1/devx/shop/remove");
        let asked = ask.json(&serde_json::json!({"reason": "moved away"})).send().await.unwrap();
        assert_eq!(asked.status(), 200, "{kind}");
        assert_succeeded(&ended(&process, Event::new(4, "store", &commit)).await);
        // The name stays whose it was: what is in Vault and in the cloud under it is theirs.
        let other = Event::of_app(&home, 5, "shop");
        let thief = home
            .commit("example/thief", &waml("shop").replace("hostPrefix: shop", "hostPrefix: x"));
        let thief = Event { repository: "example/thief".to_owned(), commit: thief, ..other };
        let refused = ended(&process, thief).await;
        assert_refused(
            &refused,
            "owner",
            "owners move devx/shop --target prod-cluster-1 --to example/thief",
        );
    }
}

#[tokio::test]
async fn an_object_is_one_apps_and_free_when_that_app_is_removed() {
    let home = Home::embedded();
    let process = home.start().await;
    let cache = |app: &str| with("redis: {version: '7.2'}").replace("shop", app);
    let deploy = async |number, app: &str, text: &str| {
        let commit = home.commit(&format!("example/{app}"), text);
        ended(&process, Event::new(number, app, &commit)).await
    };
    // A service that is called as another app.
    assert_succeeded(&deploy(1, "bapp", &waml("bapp")).await);
    let second = "service: [{name: bapp, ports: [{name: more, number: 9000}]}]";
    let coll = with(second).replace("shop", "coll");
    let clash = deploy(2, "coll", &coll).await;
    assert_refused(&clash, "collision", "Service `bapp` already belongs to the app `devx/bapp`");
    // What is made of a slug, and a slug of that form: whoever comes second is refused.
    assert_succeeded(&deploy(3, "full", &cache("full")).await);
    let clash = deploy(4, "full-redis", &waml("full-redis")).await;
    assert_refused(
        &clash,
        "collision",
        "Service `full-redis` already belongs to the app `devx/full`",
    );
    let ask =
        process.request(reqwest::Method::POST, "/api/v1/apps/prod-cluster-1/devx/bapp/remove");
    let asked = ask.json(&serde_json::json!({"reason": "moved"})).send().await.unwrap();
    assert_eq!(asked.status(), 200);
    assert_succeeded(&deploy(5, "coll", &coll).await);
    // Nor does a rollback bring back what another app has by now.
    let plain = waml("coll");
    assert_succeeded(&deploy(6, "coll", &plain).await);
    assert_succeeded(&deploy(7, "bapp", &waml("bapp")).await);
    let ask =
        process.request(reqwest::Method::POST, "/api/v1/apps/prod-cluster-1/devx/coll/rollback");
    let asked = ask.json(&serde_json::json!({"reason": "x"})).send().await.unwrap();
    assert_eq!(asked.status(), 409);
    let says = asked.text().await.unwrap();
    assert!(says.contains("Service bapp already belongs to `devx/bapp`"), "{says}");
}

#[tokio::test]
async fn an_object_that_is_being_pushed_is_taken_already() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start().await;
    assert_succeeded(&ended(&process, Event::of_app(&home, 1, "shop")).await);
    let held = Held::first_push(&bare, "pre-receive");
    let commit = home.commit("example/bapp", &waml("bapp"));
    let first = Event::new(2, "bapp", &commit).accepted(&process).await;
    held.reached().await;
    let second = "service: [{name: bapp, ports: [{name: more, number: 9000}]}]";
    let commit = home.commit("example/coll", &with(second).replace("shop", "coll"));
    let clash = ended(&process, Event::new(3, "coll", &commit)).await;
    assert_refused(&clash, "collision", "Service `bapp` already belongs to the app `devx/bapp`");
    held.let_go();
    assert_succeeded(&process.ended(&first).await);
}

#[tokio::test]
async fn an_autoscaler_that_comes_to_a_live_app_drops_no_pod() {
    let home = Home::embedded();
    let process = home.start().await;
    let autoscaling = "    autoscaling: {horizontal: {minReplicas: 3, maxReplicas: 10, cpu: {averageUtilization: 75}}}\n";
    let automatic = waml("shop");
    let fixed = automatic.replace(autoscaling, "    scaling: {replicas: 10}\n");
    assert!(fixed.contains("replicas: 10"), "{fixed}");
    let deploy = async |number, text: &str| {
        let commit = home.commit("example/shop", text);
        ended(&process, Event::new(number, "shop", &commit)).await
    };
    let folder = "manifests/prod-cluster-1/devx/shop/latest";
    let replicas = || {
        let file = &home.manifests().files()[&format!("{folder}/deployment.yaml")];
        serde_yaml::from_str::<Json>(file).unwrap()["spec"]["replicas"].clone()
    };
    let application = || {
        let file = &home.manifests().files()["apps/prod-cluster-1/devx.shop.yaml"];
        serde_yaml::from_str::<Json>(file).unwrap()["spec"].clone()
    };
    assert_succeeded(&deploy(1, &fixed).await);
    assert_eq!((replicas(), &application()["ignoreDifferences"]), (10.into(), &Json::Null));
    let plan = serde_json::json!({
        "repository": "example/shop", "target": "prod-cluster-1", "tag": "v2", "waml": automatic,
    });
    let planned = process.request(reqwest::Method::POST, "/api/v1/plan").json(&plan).send().await;
    let planned: Json = planned.unwrap().json().await.unwrap();
    assert!(planned["warnings"].to_string().contains("runs 10 pods"), "{planned}");
    let first = deploy(2, &automatic).await;
    assert_succeeded(&first);
    assert_eq!(first["violations"][0]["rule"], "replicas", "{first}");
    assert_eq!(replicas(), 10, "not 1, which is what Kubernetes makes of none");
    let pointers = application()["ignoreDifferences"][0]["jsonPointers"].clone();
    assert_eq!(pointers, serde_json::json!(["/spec/replicas"]));
    assert!(application()["syncPolicy"]["syncOptions"].to_string().contains("RespectIgnore"));
    assert_succeeded(&deploy(3, &automatic).await);
    assert_eq!(replicas(), Json::Null, "now it is the autoscaler's");
    // Back to a number, and to a revision without one: only when somebody says so.
    assert_succeeded(&deploy(4, &fixed).await);
    assert_eq!(application()["ignoreDifferences"], Json::Null);
    let roll_back = async |ask: Json| {
        let path = "/api/v1/apps/prod-cluster-1/devx/shop/rollback";
        let answer = process.request(reqwest::Method::POST, path).json(&ask).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Json>().await.unwrap())
    };
    for dry_run in [true, false] {
        let (status, said) =
            roll_back(serde_json::json!({"reason": "x", "dry_run": dry_run})).await;
        assert_eq!(status, 409, "{said}");
        let says = said["detail"].as_str().unwrap();
        assert!(says.contains("has 10 pods now") && says.contains("--with-fewer-pods"), "{says}");
    }
    assert_eq!(replicas(), 10);
    let ask = serde_json::json!({"reason": "x", "with_fewer_pods": true});
    let (status, said) = roll_back(ask).await;
    assert_eq!(status, 202, "{said}");
    assert!(said["notes"][0].as_str().unwrap().contains("go down to 1"), "{said}");
    let back = process.ended(said["deployment"]["id"].as_str().unwrap()).await;
    assert_succeeded(&back);
    assert_eq!(replicas(), Json::Null);
    let pointers = application()["ignoreDifferences"][0]["jsonPointers"].clone();
    assert_eq!(pointers, serde_json::json!(["/spec/replicas"]), "as its own deployment had it");
    // And to the number again: Argo CD must not leave it to an autoscaler that is gone.
    let to = process.deployments().await.into_iter().find(|one| one["tag"] == "v4").unwrap();
    let (status, said) = roll_back(serde_json::json!({"reason": "x", "to": to["id"]})).await;
    assert_eq!(status, 202, "{said}");
    assert_succeeded(&process.ended(said["deployment"]["id"].as_str().unwrap()).await);
    assert_eq!((replicas(), &application()["ignoreDifferences"]), (10.into(), &Json::Null));
    let options = application()["syncPolicy"]["syncOptions"].clone();
    assert_eq!(options, serde_json::json!(["CreateNamespace=true"]));
    // A parked app is woken: 0 pods are no number to keep.
    let parked = fixed.replace("replicas: 10", "replicas: 0");
    assert_succeeded(&deploy(5, &parked).await);
    let woken = deploy(6, &automatic).await;
    assert_succeeded(&woken);
    assert_eq!(replicas(), Json::Null, "{woken}");
    let ignored = application()["ignoreDifferences"][0].clone();
    assert_eq!(ignored["jqPathExpressions"][0], ".spec.replicas | select(. > 0)", "{ignored}");
    assert_eq!(ignored["jsonPointers"], Json::Null, "a live 0 would stay for ever");
}

#[tokio::test]
async fn the_list_of_namespaces_bounds_rollbacks_and_the_project_follows_it() {
    let home = on_prod("");
    let deploy = async |process: &Process, number| {
        let commit = home.commit_file("example/shop", "file", &format!("{number}"));
        ended(process, Event::new(number, "shop", &commit)).await
    };
    home.commit("example/shop", &waml("shop"));
    let process = home.start().await;
    for number in [1, 2] {
        assert_succeeded(&deploy(&process, number).await);
    }
    process.kill();
    let project = "apps/prod-cluster-1/project.yaml";
    let edited = home.manifests().files()[project].clone() + "  syncWindows: [] # ours\n";
    assert!(edited.contains("namespace: \"*\""), "{edited}");
    home.manifests().somebody_writes(project, &edited);
    let allow = |globs: &str| {
        let path = home.path("config.yaml");
        let config = std::fs::read_to_string(&path).unwrap();
        let first =
            config.lines().take_while(|line| !line.contains("namespaces")).collect::<Vec<_>>();
        let policy = format!("  policies: {{namespaces: {{allow: [{globs}]}}}}");
        std::fs::write(&path, format!("{}\n{policy}\n", first.join("\n"))).unwrap();
    };
    allow("team-*");
    let process = home.start().await;
    assert_refused(&deploy(&process, 3).await, "reserved", "takes no apps in the namespace `devx`");
    let before = home.manifests().tip();
    for dry_run in [true, false] {
        let path = "/api/v1/apps/prod-cluster-1/devx/shop/rollback";
        let ask = serde_json::json!({"reason": "x", "dry_run": dry_run});
        let answer = process.request(reqwest::Method::POST, path).json(&ask).send().await.unwrap();
        assert_eq!(answer.status(), 409);
        let says = answer.text().await.unwrap();
        assert!(says.contains("not rolled back: `prod-cluster-1` takes no apps in the"), "{says}");
    }
    assert_eq!(home.manifests().tip(), before);
    process.kill();
    allow("team-*, devx");
    let process = home.start().await;
    assert_succeeded(&deploy(&process, 4).await);
    let found = home.manifests().files()[project].clone();
    assert!(found.contains("namespace: devx") && !found.contains("namespace: \"*\""), "{found}");
    assert!(found.ends_with("  syncWindows: [] # ours\n"), "{found}");
    let rest = |text: &str| {
        let lines =
            text.lines().filter(|line| !line.contains("server:") && !line.contains("namespace: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rest(&found), rest(&edited));
}

#[tokio::test]
async fn a_disk_that_was_left_in_the_cluster_is_told_when_its_name_comes_back() {
    let home = Home::embedded();
    let process = home.start().await;
    let deploy = async |number, more: &str| {
        let commit = home.commit("example/shop", &with(more));
        ended(&process, Event::new(number, "shop", &commit)).await
    };
    let disk = |size: &str| {
        format!(
            "volumes: [{{name: data, mountPath: /data, size: {size}, accessMode: ReadWriteMany}}]"
        )
    };
    assert_succeeded(&deploy(1, &disk("10Gi")).await);
    let gone = deploy(2, "removes: [{kind: PersistentVolumeClaim, name: shop.data}]").await;
    assert_succeeded(&gone);
    let smaller = deploy(3, &disk("5Gi")).await;
    assert_succeeded(&smaller);
    let told = &smaller["violations"][0];
    assert_eq!(
        (&told["rule"], &told["severity"]),
        (&"disks".into(), &"warning".into()),
        "{smaller}"
    );
    let says = told["message"].as_str().unwrap();
    assert!(
        says.contains("may still be in the cluster") && says.contains("from 10Gi to 5Gi"),
        "{says}"
    );
    assert_eq!(deploy(4, &disk("5Gi")).await["violations"], serde_json::json!([]), "it is live");
}
