//! A cluster whose Kubernetes is upgraded, and whose `version` is changed with it.

use serde_json::Value as Json;

use crate::harness::events::Event;
use crate::harness::process::{Home, Process};

const WAML: &str =
    "schema: \"2\"\nname: Shop\nslug: shop\nowner: a@b.c\nnamespace: devx\ndeploy: {prod: {}}\n";

/// An autoscaler as Kubernetes had it until 1.25.
const SCALER: &str = "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: {{ app.slug }}\n\
    spec:\n  maxReplicas: 3\n  scaleTargetRef: {kind: Deployment, name: {{ app.slug }}}\n";

fn config(version: &str) -> String {
    format!(
        "clusters:\n- name: prod\n  environment: development\n  domain: example.com\n  version: \"{version}\"\n\
         templates: {{path: templates}}\n"
    )
}

async fn ended(process: &Process, event: Event) -> Json {
    let id = event.accepted(process).await;
    process.ended(&id).await
}

#[tokio::test]
async fn what_the_new_version_has_no_more_is_refused_and_a_rollback_to_it_says_so() {
    let home = Home::configured(&config("1.25"));
    let folder = home.path("templates/apps/backend-default/latest");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("../defaults.yaml"), "").unwrap();
    let template = |text: &str| std::fs::write(folder.join("scaler.yaml.tmpl"), text).unwrap();
    template(SCALER);
    let commit = home.commit("example/shop", WAML);
    let event = |number| Event { target: "prod".to_owned(), ..Event::new(number, "shop", &commit) };
    let process = home.start().await;
    assert_eq!(ended(&process, event(1)).await["state"], "succeeded");
    drop(process);

    std::fs::write(home.path("config.yaml"), config("1.29")).unwrap();
    let process = home.start().await;
    let refused = ended(&process, event(2)).await;
    let what = "of `autoscaling/v2beta2`, which Kubernetes 1.29, the version of `prod`, does not have: it was there until 1.25";
    assert_eq!(refused["state"], "failed", "{refused}");
    assert_eq!(refused["violations"][0]["rule"], "kubernetes", "{refused}");
    assert!(refused["violations"][0].to_string().contains(what), "{refused}");
    assert!(refused["violations"][0].to_string().contains("`autoscaling/v2`"), "{refused}");
    drop(process);

    template(&SCALER.replace("v2beta2", "v2"));
    let process = home.start().await;
    assert_eq!(ended(&process, event(3)).await["state"], "succeeded");
    let ask = process.request(reqwest::Method::POST, "/api/v1/apps/prod/devx/shop/rollback");
    let ask = ask.json(&serde_json::json!({"reason": "x", "dry_run": true}));
    let said: Json = ask.send().await.unwrap().json().await.unwrap();
    assert!(said["notes"][0].as_str().unwrap_or_default().contains(what), "{said}");
}
