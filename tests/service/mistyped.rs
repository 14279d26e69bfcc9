//! A mistyped target or app is told with what may have been meant, and ends every command of `bart` with 1.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::deployer::Deployer;
use crate::harness::developer::Said;
use crate::harness::events::waml;
use crate::harness::folder;

const CLUSTERS: &str = "clusters:\n\
    - {name: prod-eu, environment: production, domain: example.com, server: \"https://10.0.0.1\"}\n\
    - {name: dev, environment: development, domain: dev.example.com, server: \"https://10.0.0.2\"}\n";

/// The service with `devx/shop` on `prod-eu`, where clusters are configured as that says.
async fn service(clusters: &str) -> Deployer {
    let mut deployer = Deployer::prepared().await;
    deployer.configure(|config| format!("{config}{clusters}"));
    deployer.starts().await;
    let repository = deployer.github.repository("example/shop");
    repository.commit(&waml("shop").replace("prod-cluster-1", "prod-eu"));
    deployer.clock.advance(Duration::from_secs(1));
    repository.deploys("prod-eu", "1.0").await;
    deployer.settle().await;
    deployer
}

/// bart in a folder that is no service's.
async fn bart(deployer: &Deployer, arguments: &[&str]) -> Said {
    let folder = folder::temporary();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
    command.current_dir(folder.path()).env_clear().args(arguments).stdin(Stdio::null());
    let server = format!("http://{}", deployer.stepped().address());
    command.env("BART_SERVER", server).env("NO_COLOR", "1").env("HOME", folder.path());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    Said::of(&output)
}

#[tokio::test]
async fn a_mistyped_target_or_app_ends_every_command_with_what_was_meant() {
    let deployer = service(CLUSTERS).await;
    let on_target: &[&[&str]] = &[
        &["status", "-t", "prod-ue", "--app", "devx/shop"],
        &["status", "--all", "-t", "prod-ue"],
        &["history", "--target", "prod-ue", "--app", "devx/shop"],
        &["history", "prod-ue", "--app", "devx/shop"],
        &["logs", "-t", "prod-ue", "--app", "devx/shop"],
        &["open", "--print", "-t", "prod-ue", "--app", "devx/shop"],
        &["open", "app", "--print", "-t", "prod-ue", "--app", "devx/shop"],
        &["open", "--list", "-t", "prod-ue", "--app", "devx/shop"],
        &["builds", "-t", "prod-ue", "--app", "devx/shop"],
        &["rollback", "prod-ue", "--reason", "x", "--app", "devx/shop"],
        &["hold", "prod-ue", "--reason", "x", "--app", "devx/shop"],
        &["unhold", "prod-ue", "--reason", "x", "--app", "devx/shop"],
        &["lock", "prod-ue", "--reason", "x", "--app", "devx/shop"],
        &["unlock", "prod-ue", "--reason", "x", "--app", "devx/shop"],
        &["locks", "prod-ue"],
        &["remove", "prod-ue", "devx/shop", "--reason", "x", "--yes"],
    ];
    for arguments in on_target {
        bart(&deployer, arguments).await.ended(1, &["prod-ue", "did you mean `prod-eu`?"]);
    }
    let on_app: &[&[&str]] = &[
        &["status", "--app", "devx/shopp"],
        &["status", "--app", "devx/shopp", "-t", "prod-eu"],
        &["history", "--app", "devx/shopp"],
        &["history", "prod-eu", "--app", "devx/shopp"],
        &["logs", "--app", "devx/shopp"],
        &["open", "--print", "--app", "devx/shopp"],
        &["builds", "--app", "devx/shopp"],
        &["rollback", "prod-eu", "--reason", "x", "--app", "devx/shopp"],
        &["hold", "prod-eu", "--reason", "x", "--app", "devx/shopp"],
        &["unlock", "prod-eu", "--reason", "x", "--app", "devx/shopp"],
        &["locks", "--app", "devx/shopp"],
        &["remove", "prod-eu", "devx/shopp", "--reason", "x", "--yes"],
    ];
    for arguments in on_app {
        bart(&deployer, arguments).await.ended(1, &["devx/shopp", "did you mean `devx/shop`?"]);
    }
    let of_others: &[(&[&str], &str)] = &[
        (&["status", "--owner", "squd@example.com"], "did you mean `squad@example.com`?"),
        (&["status", "--app", "shopp"], "did you mean `devx/shop`?"),
        (&["status", "--app", "moon"], "`bart status --all` lists the apps"),
        (&["builds", "--repository", "example/shpo"], "did you mean `example/shop`?"),
        (&["builds", "--repository", "other/hhh"], "name the app with --app NAMESPACE/SLUG"),
        (&["history", "--app", "shopp"], "did you mean `devx/shop`?"),
        (&["history", "--repository", "example/shpo"], "did you mean `example/shop`?"),
    ];
    for (arguments, words) in of_others {
        bart(&deployer, arguments).await.ended(1, &[words]);
    }
    let right: &[&[&str]] = &[
        &["status", "--app", "shop"],
        &["status", "--repository", "example/shop"],
        &["history", "prod-eu", "--app", "shop"],
        &["history", "--app", "shop"],
        &["locks", "--app", "shop"],
        &["logs", "--app", "shop"],
        &["status", "--owner", "nobody@example.org"],
        &["status", "-t", "dev", "--app", "devx/shop"],
        &["history", "--target", "dev", "--app", "devx/shop"],
        &["history", "--app", "devx/brand-new"],
        &["locks", "dev"],
    ];
    for arguments in right {
        bart(&deployer, arguments).await.ended(0, &[]);
    }
    let stranger = bart(&deployer, &["status", "-t", "moon", "--app", "devx/shop"]).await;
    stranger.ended(1, &["the service has no target `moon`", "use one of `dev` and `prod-eu`"]);
    deployer.settled().await;
}

#[tokio::test]
async fn where_any_name_is_a_target_a_slip_of_a_known_one_is_told_all_the_same() {
    let deployer = service("").await;
    let slip = bart(&deployer, &["status", "-t", "prod-ue", "--app", "devx/shop"]).await;
    slip.ended(1, &["nothing was deployed to a target `prod-ue`", "did you mean `prod-eu`?"]);
    bart(&deployer, &["status", "-t", "moon", "--app", "devx/shop"])
        .await
        .ended(0, &["never deployed"]);
    deployer.settled().await;
}
