//! Rolling back, end to end: exactly, once, held against automation, and refused with the right words.

use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::harness::events::{Delivery, Event};
use crate::harness::git_host::{Behaviour, GitHost};
use crate::harness::process::{Held, Home, Process};

const FOLDER: &str = "manifests/prod-cluster-1/devx/shop";

/// The embedded default with `shop` deployed as `v1` to `v<newest>`; the ids of these, oldest first.
struct Shop {
    home: Home,
    process: Process,
    ids: Vec<String>,
}

impl Shop {
    async fn deployed(newest: i64) -> Self {
        Self::deployed_at(Home::embedded(), newest).await
    }

    async fn deployed_at(home: Home, newest: i64) -> Self {
        let process = home.start().await;
        let mut shop = Self { home, process, ids: Vec::new() };
        for n in 1..=newest {
            shop.deploy(n).await;
        }
        shop
    }

    fn event(&self, n: i64) -> Event {
        Event::of_app(&self.home, n, "shop")
    }

    async fn deploy(&mut self, n: i64) -> Json {
        let id = self.event(n).accepted(&self.process).await;
        let one = self.process.ended(&id).await;
        assert_eq!(one["state"], "succeeded", "{one}");
        self.ids.push(id);
        one
    }

    /// GitHub Actions asks for the deployment; how it ends.
    async fn workflow_deploys(&self, n: i64) -> Json {
        let mut body = self.event(n).body();
        let bot = json!({"login": "github-actions[bot]", "type": "Bot"});
        (body["sender"], body["deployment"]["creator"]) = (bot.clone(), bot);
        let delivery = Delivery::of_body(&n.to_string(), body.to_string(), &self.home.secret());
        let answer = delivery.send(&self.process).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        self.process.ended(answer.json()["id"].as_str().unwrap()).await
    }

    /// The status and the answer of an act on the app.
    async fn act(&self, what: &str, ask: Json) -> (u16, Json) {
        act(&self.process, &format!("prod-cluster-1/devx/shop/{what}"), ask).await
    }

    /// A rollback that is taken; the record at its end.
    async fn back(&self, ask: Json) -> Json {
        let (status, said) = self.act("rollback", ask).await;
        assert_eq!(status, 202, "{said}");
        self.process.ended(said["deployment"]["id"].as_str().unwrap()).await
    }

    fn tree(&self, folder: &str) -> String {
        self.home.manifests().object(&format!("{FOLDER}/{folder}"))
    }

    async fn bart(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
        command.current_dir(self.home.path("")).env_clear().args(arguments);
        command.args(["--app", "devx/shop"]);
        command.env("BART_SERVER", self.process.address()).env("NO_COLOR", "1");
        command.stdin(std::process::Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }
}

async fn act(process: &Process, path: &str, ask: Json) -> (u16, Json) {
    let path = format!("/api/v1/apps/{path}");
    let answer = process.request(Method::POST, &path).json(&ask).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn printed(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    texts.concat()
}

#[tokio::test]
async fn latest_becomes_the_former_revision_byte_for_byte() {
    let shop = Shop::deployed(3).await;
    let (before, files) = (shop.home.manifests().tip(), shop.home.manifests().files());
    let (_, would) = shop.act("rollback", json!({"reason": "x", "dry_run": true})).await;
    assert_eq!(would["deployment"], Json::Null);
    assert_eq!(
        (&would["from"]["id"], &would["to"]["id"]),
        (&json!(shop.ids[2]), &json!(shop.ids[1]))
    );
    assert_eq!((&would["to"]["tag"], &would["hold"]), (&json!("v2"), &json!(true)));
    let changes = would["changes"].as_array().unwrap();
    assert!(changes.iter().any(|one| one["kind"] == "Deployment"), "{would}");
    assert_eq!(shop.home.manifests().tip(), before);

    let one = shop.back(json!({"reason": "checkout fails"})).await;
    assert_eq!((&one["state"], &one["tag"]), (&json!("succeeded"), &json!("v2")), "{one}");
    assert_eq!(one["rollback"]["to"], json!(shop.ids[1]));
    assert_eq!(
        (&one["actor"], &one["forge_id"]),
        (&json!("unknown, on this machine"), &Json::Null)
    );
    let bare = shop.home.manifests();
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[1]));
    assert_eq!(bare.trailer("Rollback-Id"), [one["id"].as_str().unwrap()]);
    assert_eq!(bare.trailer("Revision"), [shop.ids[1].as_str()]);
    assert_eq!(bare.trailer("Replaces"), [shop.ids[2].as_str()]);
    assert_eq!(bare.trailer("Reason"), ["checkout fails"]);
    let others = |files: &crate::harness::git::Files| {
        files.keys().filter(|path| !path.contains("/latest/")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&bare.files()), others(&files), "nothing but latest has changed");
    assert_eq!(bare.run(&["rev-list", "--count", &format!("{before}..HEAD")]).trim(), "1");
    let replaced = shop.process.deployment(&shop.ids[2]).await;
    let last = replaced["statuses"].as_array().unwrap().last().unwrap();
    assert_eq!(last["state"], "inactive");
    let says = last["description"].as_str().unwrap();
    assert!(says.contains("rolled back to v2") && says.contains("checkout fails"), "{says}");
    let page = shop.process.get(&format!("/deployments/{}", one["id"].as_str().unwrap())).await.1;
    assert!(page.contains("Rollback") && page.contains(&shop.ids[1]), "{page}");
}

#[tokio::test]
async fn a_second_rollback_goes_one_further_and_the_last_says_so() {
    let shop = Shop::deployed(3).await;
    for (n, tag) in [(1, "v2"), (0, "v1")] {
        let one = shop.back(json!({"reason": "x"})).await;
        assert_eq!((&one["state"], &one["tag"]), (&json!("succeeded"), &json!(tag)));
        assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[n]));
    }
    let (status, said) = shop.act("rollback", json!({"reason": "x"})).await;
    assert_eq!(status, 409, "{said}");
    assert!(said["detail"].as_str().unwrap().contains("is the oldest"), "{said}");
    let forward = shop.back(json!({"reason": "v3 is good after all", "to": shop.ids[2]})).await;
    assert_eq!((&forward["state"], &forward["tag"]), (&json!("succeeded"), &json!("v3")));
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[2]));
}

#[tokio::test]
async fn each_refusal_says_the_right_thing() {
    let mut shop = Shop::deployed(6).await;
    let other = Event::of_app(&shop.home, 7, "shoe").accepted(&shop.process).await;
    shop.process.ended(&other).await;
    let nobodys = "20250101-000000000-abcdef";
    let before = shop.home.manifests().tip();
    for (to, status, says) in [
        (shop.ids[5].as_str(), 409, "is live on prod-cluster-1 already"),
        (shop.ids[0].as_str(), 409, "is not kept any more: prod-cluster-1 keeps the newest five"),
        (other.as_str(), 422, "is of devx/shoe on prod-cluster-1, not of devx/shop"),
        (nobodys, 404, "there is no revision"),
        ("latest", 400, "to: "),
    ] {
        let (got, said) = shop.act("rollback", json!({"reason": "x", "to": to})).await;
        assert_eq!(got, status, "{said}");
        assert!(said["detail"].as_str().unwrap().contains(says), "{said}");
    }
    let (status, said) =
        act(&shop.process, "prod-cluster-1/devx/none/rollback", json!({"reason": "x"})).await;
    assert_eq!(status, 404, "{said}");
    for ask in [json!({}), json!({"reason": " "}), json!({"reason": "x", "force": true})] {
        assert_eq!(shop.act("rollback", ask).await.0, 422);
    }
    assert_eq!(shop.home.manifests().tip(), before, "nothing was done");
    let bad =
        shop.bart(&["rollback", "prod-cluster-1", "--reason", "x", "--to", &shop.ids[5]]).await;
    assert_eq!(bad.status.code(), Some(1), "{}", printed(&bad));
    assert!(printed(&bad).contains("is live"), "{}", printed(&bad));

    // A rollback's own id stands for the revision that it made live.
    let back = shop.back(json!({"reason": "x"})).await;
    shop.deploy(8).await;
    let again = shop.back(json!({"reason": "x", "to": back["id"]})).await;
    assert_eq!(
        (&again["state"], &again["rollback"]["to"]),
        (&json!("succeeded"), &json!(shop.ids[4]))
    );
}

#[tokio::test]
async fn a_revision_whose_host_another_app_has_by_now_is_not_made_live_again() {
    let mut shop = Shop::deployed(1).await;
    let waml = crate::harness::events::waml("shop");
    let deployed = async |shop: &Shop, n: i64, app: &str, waml: &str| {
        let commit = shop.home.commit(&format!("example/{app}"), waml);
        let id = Event::new(n, app, &commit).accepted(&shop.process).await;
        let one = shop.process.ended(&id).await;
        assert_eq!(one["state"], "succeeded", "{one}");
        id
    };
    let moved = waml.replace("hostPrefix: shop", "hostPrefix: store");
    shop.ids.push(deployed(&shop, 2, "shop", &moved).await);
    let heir = waml.replace("slug: shop", "slug: heir");
    deployed(&shop, 3, "heir", &heir).await;
    let before = shop.home.manifests().tip();
    for dry_run in [true, false] {
        let (status, said) = shop.act("rollback", json!({"reason": "x", "dry_run": dry_run})).await;
        assert_eq!(status, 409, "{said}");
        let says = said["detail"].as_str().unwrap();
        assert!(says.contains("not rolled back: `devx/heir` already has `shop."), "{says}");
    }
    assert_eq!(shop.home.manifests().tip(), before);
    deployed(&shop, 4, "heir", &heir.replace("hostPrefix: shop", "hostPrefix: heir")).await;
    let back = shop.back(json!({"reason": "x"})).await;
    assert_eq!(back["state"], "succeeded", "it is free again: {back}");
}

#[tokio::test]
async fn automation_is_held_until_a_person_deploys_or_releases() {
    let mut shop = Shop::deployed(2).await;
    shop.back(json!({"reason": "checkout fails"})).await;
    let held = shop.workflow_deploys(3).await;
    assert_eq!(held["state"], "failed", "{held}");
    let violation = &held["violations"][0];
    assert_eq!(violation["rule"], "hold");
    let says = violation["message"].as_str().unwrap();
    assert!(says.contains("back from v2 to v1") && says.contains("checkout fails"), "{says}");
    assert!(says.contains("unknown, on this machine"), "who: {says}");
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[0]));

    let holds = shop.process.json("/api/v1/holds?target=prod-cluster-1").await;
    assert_eq!(holds["holds"][0]["app"], "devx/shop", "{holds}");
    let unheld = shop.bart(&["unhold", "prod-cluster-1", "--reason", "v4 has the fix"]).await;
    assert!(
        unheld.status.success() && printed(&unheld).contains("checkout fails"),
        "{}",
        printed(&unheld)
    );
    let again = shop.bart(&["unhold", "prod-cluster-1", "--reason", "x"]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(printed(&again).contains("is not held"), "{}", printed(&again));
    assert_eq!(shop.workflow_deploys(4).await["state"], "succeeded");

    // Held again, by a person; a person's deployment ends it.
    let placed = shop.bart(&["hold", "prod-cluster-1", "--reason", "we watch it"]).await;
    assert!(placed.status.success(), "{}", printed(&placed));
    assert_eq!(shop.workflow_deploys(5).await["violations"][0]["rule"], "hold");
    shop.deploy(6).await;
    assert_eq!(shop.workflow_deploys(7).await["state"], "succeeded");
    assert_eq!(shop.process.json("/api/v1/holds").await, json!({"holds": []}));
}

#[tokio::test]
async fn a_person_does_not_deploy_the_same_again_by_mistake() {
    let shop = Shop::deployed(2).await;
    shop.back(json!({"reason": "checkout fails"})).await;
    let bad = shop.process.deployment(&shop.ids[1]).await;
    let event = Event {
        tag: "v2".to_owned(),
        commit: bad["commit"].as_str().unwrap().to_owned(),
        ..shop.event(3)
    };
    let same = shop.process.ended(&event.accepted(&shop.process).await).await;
    assert_eq!(
        (&same["state"], &same["violations"][0]["rule"]),
        (&json!("failed"), &json!("hold"))
    );
    let help = same["violations"][0]["help"].as_str().unwrap();
    assert!(help.contains("bart unhold"), "{help}");
}

#[tokio::test]
async fn a_target_says_who_is_held() {
    let cluster = |holds: &str| {
        Home::configured(&format!(
            "clusters:\n- name: prod-cluster-1\n  environment: production\n  domain: example.com\n  \
             policies: {{holds: {holds}}}\n"
        ))
    };
    let off = Shop::deployed_at(cluster("off"), 2).await;
    let one = off.back(json!({"reason": "x"})).await;
    assert_eq!(one["rollback"]["hold"], false);
    assert_eq!(off.workflow_deploys(3).await["state"], "succeeded");
    let (status, said) = off.act("hold", json!({"reason": "x"})).await;
    assert_eq!(status, 409, "{said}");
    let all = Shop::deployed_at(cluster("everybody"), 2).await;
    all.back(json!({"reason": "x"})).await;
    let person = all.process.ended(&all.event(3).accepted(&all.process).await).await;
    assert_eq!(person["violations"][0]["rule"], "hold", "{person}");
}

#[tokio::test]
async fn bart_rolls_back_and_says_what_was_done() {
    let shop = Shop::deployed(2).await;
    let dry = shop.bart(&["rollback", "prod-cluster-1", "--reason", "x", "--dry-run"]).await;
    let text = printed(&dry);
    assert!(dry.status.success() && text.contains("would roll back"), "{text}");
    assert!(
        text.contains("~ Deployment shop\n    spec.template.spec.containers[shop].image: "),
        "{text}"
    );
    let done = shop.bart(&["rollback", "prod-cluster-1", "--reason", "checkout fails"]).await;
    let text = printed(&done);
    assert!(done.status.success() && text.contains("rolled back devx/shop"), "{text}");
    assert!(text.contains("bart unhold prod-cluster-1"), "{text}");
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[0]));
    let yaml = shop
        .bart(&["rollback", "prod-cluster-1", "--reason", "x", "--to", &shop.ids[1], "-o", "yaml"])
        .await;
    let text = String::from_utf8_lossy(&yaml.stdout).into_owned();
    let said: Json = serde_yaml::from_str(&text).unwrap_or_else(|_| panic!("{}", printed(&yaml)));
    assert_eq!(said["deployment"]["state"], "succeeded", "{said}");
}

#[tokio::test]
async fn a_hand_edit_is_replaced_by_what_was_deployed_last() {
    let shop = Shop::deployed(2).await;
    let bare = shop.home.manifests();
    let file = format!("{FOLDER}/latest/deployment.yaml");
    let edited = bare.files()[&file].replace("apiVersion:", "# by hand\napiVersion:");
    bare.somebody_writes(&file, &edited);
    let one = shop.back(json!({"reason": "undo the edit"})).await;
    assert_eq!((&one["state"], &one["tag"]), (&json!("succeeded"), &json!("v2")), "{one}");
    assert_eq!(one["rollback"]["from"], Json::Null);
    assert!(one["hand_edit"]["diff"].as_str().unwrap().contains("# by hand"), "{one}");
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[1]));
    assert_eq!(bare.trailer("Replaced-Edit").len(), 1);
}

#[tokio::test]
async fn neither_the_forge_nor_the_templates_are_needed() {
    let shop = Shop::deployed(2).await;
    // Nothing is left of any service repository.
    std::fs::remove_dir_all(shop.home.state("repos")).unwrap();
    let one = shop.back(json!({"reason": "x"})).await;
    assert_eq!(one["state"], "succeeded", "{one}");
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[0]));
}

#[tokio::test]
async fn a_rollback_that_waits_is_not_superseded_and_comes_first() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let shop = Shop::deployed_at(home, 2).await;
    let held = Held::first_push(&bare, "pre-receive");
    let pushing = shop.event(3).accepted(&shop.process).await;
    held.reached().await;
    let (status, said) = shop.act("rollback", json!({"reason": "x", "to": shop.ids[0]})).await;
    assert_eq!(status, 202, "{said}");
    let (again, no) = shop.act("rollback", json!({"reason": "x"})).await;
    assert_eq!(again, 409, "{no}");
    let newer = shop.event(4).accepted(&shop.process).await;
    held.let_go();
    assert_eq!(shop.process.ended(&pushing).await["state"], "succeeded");
    let back = shop.process.ended(said["deployment"]["id"].as_str().unwrap()).await;
    assert_eq!(back["state"], "succeeded", "{back}");
    // A person's newer deployment comes after it, and ends its hold.
    assert_eq!(shop.process.ended(&newer).await["state"], "succeeded");
    let subjects = bare.run(&["log", "--format=%s", "-3"]);
    assert_eq!(
        subjects.lines().collect::<Vec<_>>(),
        [
            "deploy devx/shop v4 to prod-cluster-1",
            "roll devx/shop back to v1 on prod-cluster-1",
            "deploy devx/shop v3 to prod-cluster-1"
        ]
    );
}

#[tokio::test]
async fn a_process_that_dies_in_a_rollback_does_it_once() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let shop = Shop::deployed_at(home, 2).await;
    let held = Held::first_push(&bare, "post-receive");
    let (_, said) = shop.act("rollback", json!({"reason": "x"})).await;
    held.reached().await;
    let Shop { home, process, ids } = shop;
    process.kill();
    held.let_go();
    let process = home.start().await;
    let one = process.ended(said["deployment"]["id"].as_str().unwrap()).await;
    assert_eq!(one["state"], "succeeded", "{one}");
    let (folder, latest) = (format!("{FOLDER}/{}", ids[0]), format!("{FOLDER}/latest"));
    assert_eq!(bare.object(&latest), bare.object(&folder));
    assert_eq!(bare.commits(), 3, "two deployments and one rollback");
}

#[tokio::test]
async fn a_lock_stops_a_rollback_too() {
    let shop = Shop::deployed(2).await;
    let mut lock = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
    lock.current_dir(shop.home.path("")).env_clear();
    lock.args(["lock", "--everything", "--reason", "the database moves", "--by", "ada"]);
    let locked = tokio::task::spawn_blocking(move || lock.output().unwrap()).await.unwrap();
    assert!(locked.status.success(), "{}", printed(&locked));
    let (status, said) = shop.act("rollback", json!({"reason": "x"})).await;
    assert_eq!(status, 409, "{said}");
    let says = said["detail"].as_str().unwrap();
    assert!(says.contains("locked by ada") && says.contains("the database moves"), "{says}");
}

const CLAIM: &str = "manifests/prod-cluster-1/devx/shop/latest/persistentvolumeclaim.yaml";

impl Shop {
    /// Deploys the app with something more in its WAML.
    async fn deploy_with(&mut self, n: i64, more: &str) -> Json {
        let text = crate::harness::events::waml("shop");
        let text = text.replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {more}\n"));
        assert!(text.contains(more), "{text}");
        let commit = self.home.commit("example/shop", &text);
        let id = Event::new(n, "shop", &commit).accepted(&self.process).await;
        let one = self.process.ended(&id).await;
        self.ids.push(id);
        one
    }
}

fn disk(size: &str) -> String {
    format!("volumes: [{{name: data, mountPath: /data, size: {size}, accessMode: ReadWriteMany}}]")
}

#[tokio::test]
async fn a_disk_goes_with_a_rollback_only_when_somebody_says_so() {
    let mut shop = Shop::deployed(1).await;
    assert_eq!(shop.deploy_with(2, &disk("10Gi")).await["state"], "succeeded");
    assert!(shop.home.manifests().files()[CLAIM].contains("Prune=false,Delete=false"));
    let before = shop.home.manifests().tip();
    for dry_run in [true, false] {
        let (status, said) = shop.act("rollback", json!({"reason": "x", "dry_run": dry_run})).await;
        assert_eq!(status, 409, "{said}");
        assert!(said["type"].as_str().unwrap().ends_with("would-lose-data"), "{said}");
        let says = said["detail"].as_str().unwrap();
        assert!(says.contains("PersistentVolumeClaim shop.data"), "{says}");
    }
    let bart = shop.bart(&["rollback", "prod-cluster-1", "--reason", "x"]).await;
    assert_eq!(bart.status.code(), Some(1), "{}", printed(&bart));
    assert!(printed(&bart).contains("--with-data"), "{}", printed(&bart));
    assert_eq!(shop.home.manifests().tip(), before, "nothing was done");

    let said = shop.bart(&["rollback", "prod-cluster-1", "--reason", "x", "--with-data"]).await;
    assert!(said.status.success(), "{}", printed(&said));
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[0]));
    // Forward again is no loss.
    let forward = shop.back(json!({"reason": "x", "to": shop.ids[1]})).await;
    assert_eq!(forward["state"], "succeeded", "{forward}");
}

#[tokio::test]
async fn nothing_asks_for_a_smaller_disk_than_the_live_one() {
    let mut shop = Shop::deployed(0).await;
    assert_eq!(shop.deploy_with(1, &disk("10Gi")).await["state"], "succeeded");
    assert_eq!(shop.deploy_with(2, &disk("20Gi")).await["state"], "succeeded");
    let smaller = shop.deploy_with(3, &disk("10Gi")).await;
    assert_eq!(
        (&smaller["state"], &smaller["violations"][0]["rule"]),
        (&json!("failed"), &json!("disks")),
        "{smaller}"
    );
    for with_data in [false, true] {
        let ask = json!({"reason": "x", "with_data": with_data});
        let (status, said) = shop.act("rollback", ask).await;
        assert_eq!(status, 409, "{said}");
        let says = said["detail"].as_str().unwrap();
        assert!(says.contains("`shop.data` would shrink from 20Gi to 10Gi"), "{says}");
    }
}

#[tokio::test]
async fn a_disk_that_comes_while_a_rollback_waits_is_not_lost() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let shop = Shop::deployed_at(home, 2).await;
    let held = Held::first_push(&bare, "pre-receive");
    let text = crate::harness::events::waml("shop");
    let more = format!("  prod-cluster-1:\n    {}\n", disk("10Gi"));
    let commit = shop.home.commit("example/shop", &text.replace("  prod-cluster-1:\n", &more));
    let pushing = Event::new(3, "shop", &commit).accepted(&shop.process).await;
    held.reached().await;
    let to = shop.ids[0].clone();
    let arguments = ["rollback", "prod-cluster-1", "--reason", "x", "--to", &to];
    let asked = async {
        while !shop.process.deployments().await.iter().any(|one| one["rollback"].is_object()) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        held.let_go();
    };
    let (refused, ()) = tokio::join!(shop.bart(&arguments), asked);
    let says = printed(&refused);
    assert_eq!(refused.status.code(), Some(1), "{says}");
    assert!(says.contains("not rolled back") && says.contains("hold: none was taken"), "{says}");
    assert_eq!(shop.process.json("/api/v1/holds").await, json!({"holds": []}));
    let all = shop.process.deployments().await;
    let failed = all.iter().find(|one| one["rollback"].is_object()).unwrap();
    assert_eq!((&failed["state"], &failed["rollback"]["hold"]), (&json!("failed"), &json!(false)));
    assert_eq!(shop.process.ended(&pushing).await["state"], "succeeded");
    assert!(says.contains("PersistentVolumeClaim shop.data"), "{says}");
    let (folder, latest) = (format!("{FOLDER}/{pushing}"), format!("{FOLDER}/latest"));
    assert_eq!(bare.object(&latest), bare.object(&folder));
}

#[tokio::test]
async fn what_was_rolled_back_from_is_not_gone_back_to_unless_it_is_named() {
    let mut shop = Shop::deployed(2).await;
    assert_eq!(shop.back(json!({"reason": "v2 is broken"})).await["tag"], "v1");
    shop.deploy(3).await;
    let listed = shop.bart(&["history", "prod-cluster-1"]).await;
    let text = printed(&listed);
    let line = text.lines().find(|line| line.contains(&shop.ids[1])).unwrap();
    assert!(line.contains("rolled back") && text.contains("v2 is broken"), "{text}");
    let path = "/api/v1/apps/prod-cluster-1/devx/shop/revisions";
    let revisions = shop.process.json(path).await;
    assert_eq!(revisions["revisions"][1]["rolled_back"]["reason"], "v2 is broken", "{revisions}");
    assert_eq!(revisions["revisions"][2]["rolled_back"], Json::Null, "{revisions}");

    let back = shop.back(json!({"reason": "v3 is broken, too"})).await;
    assert_eq!((&back["state"], &back["tag"]), (&json!("succeeded"), &json!("v1")), "{back}");
    let (status, said) = shop.act("rollback", json!({"reason": "x"})).await;
    assert_eq!(status, 409, "{said}");
    let named =
        shop.bart(&["rollback", "prod-cluster-1", "--reason", "x", "--to", &shop.ids[1]]).await;
    let text = printed(&named);
    assert!(named.status.success() && text.contains("warning"), "{text}");
    assert!(
        text.contains("rolled back from this revision before") && text.contains("v2 is broken"),
        "{text}"
    );
    assert_eq!(shop.tree("latest"), shop.tree(&shop.ids[1]));
}

#[tokio::test]
async fn while_the_manifest_host_is_down_a_rollback_is_taken_and_done_when_it_is_back() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let shop = Shop::deployed_at(home, 2).await;
    host.behave(Behaviour::Status(503, None));
    let (status, said) = shop.act("rollback", json!({"reason": "x"})).await;
    assert_eq!(status, 202, "{said}");
    assert_eq!(said["to"]["tag"], "v1", "{said}");
    let id = said["deployment"]["id"].as_str().unwrap();
    let is_retried = |one: &Json| one["summary"].as_str().unwrap().starts_with("attempt 2 at ");
    let waiting = shop.process.when(id, "a retry", is_retried).await;
    assert!(waiting["finished_at"].is_null(), "{waiting}");
    host.behave(Behaviour::Good);
    let back = shop.process.ended(id).await;
    assert_eq!((&back["state"], &back["tag"]), (&json!("succeeded"), &json!("v1")), "{back}");
    let (folder, latest) = (format!("{FOLDER}/{}", shop.ids[0]), format!("{FOLDER}/latest"));
    assert_eq!(bare.object(&latest), bare.object(&folder));
}
