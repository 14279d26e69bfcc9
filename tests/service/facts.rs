//! What is found out for a deployment, and what is kept of it, end to end.

use std::process::Command;

use serde_json::Value as Json;

use crate::harness::events::Event;
use crate::harness::process::Home;
use crate::service::crash::assert_right;

/// The operator's command beside the running service.
fn operator(home: &Home, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
    let output = command.args(arguments).current_dir(home.path("")).env_clear().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_app_is_whose_that_deployed_it_until_the_operator_moves_it() {
    let home = Home::embedded();
    let process = home.start().await;
    let list = || -> Json {
        serde_json::from_str(&operator(&home, &["owners", "list", "--output", "json"])).unwrap()
    };
    assert_eq!(list(), serde_json::json!([]));
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_right(&process, &home.manifests(), &id, "shop").await;
    let stages = process.deployment(&id).await["stages"].take();
    assert_eq!(stages[2]["stage"], "facts", "{stages}");
    let owned = list();
    assert_eq!(
        (&owned[0]["repository"], &owned[0]["moved"]),
        (&"example/shop".into(), &Json::Null)
    );
    let app = owned[0]["app"].as_str().unwrap();
    operator(
        &home,
        &[
            "owners",
            "move",
            app,
            "--target",
            "prod-cluster-1",
            "--to",
            "example/store",
            "--reason",
            "split off",
            "--by",
            "jo",
        ],
    );
    let later = Event::of_app(&home, 2, "shop").accepted(&process).await;
    process.ended(&later).await;
    assert_eq!(list()[0]["repository"], "example/store", "who comes later changes nothing");
}
