//! Tokens change while the service runs.

use the_deployer::support::clock::Clock;

use crate::harness::events::{Event, waml};
use crate::harness::git_host::{GitHost, TOKEN};
use crate::harness::github::World;
use crate::harness::process::Home;
use crate::service::crash::assert_right;

#[tokio::test]
async fn a_token_that_is_written_anew_counts_without_a_restart() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start().await;
    let event = Event::of_app(&home, 1, "shop");
    let first = event.accepted(&process).await;
    assert_right(&process, &bare, &first, "shop").await;

    // The old one ends before the new one is there.
    host.accept("rotated-t0ken");
    let event = Event { number: 2, tag: "v2".to_owned(), ..event };
    let refused = process.ended(&event.accepted(&process).await).await;
    let summary = refused["summary"].as_str().unwrap();
    assert!(summary.contains("HTTP 401") && summary.contains("into token"), "{summary}");
    let (status, ready) = process.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(ready.contains("put a token that may write there into token"), "{ready}");

    std::fs::write(home.path("token"), "rotated-t0ken\n").unwrap();
    process.until_ready().await;
    let event = Event { number: 3, tag: "v3".to_owned(), ..event };
    let third = event.accepted(&process).await;
    assert_right(&process, &bare, &third, "shop").await;

    // A file that is gone for a moment is no reason to stop.
    std::fs::remove_file(home.path("token")).unwrap();
    let event = Event { number: 4, tag: "v4".to_owned(), ..event };
    let fourth = event.accepted(&process).await;
    assert_right(&process, &bare, &fourth, "shop").await;
    let log = process.log();
    assert!(log.contains("token file cannot be read, the last token is used"), "{log}");
    assert!(!log.contains("rotated-t0ken") && !log.contains(TOKEN), "{log}");
}

#[tokio::test]
async fn the_forges_token_is_read_anew_too() {
    let github = World::start(&Clock::system()).await;
    github.repository("acme/shop").commit(&waml("shop"));
    let home = Home::configured(&format!(
        "forge:\n  github: {{api_url: {}, token: {{file: token}}, webhook_secret: {{file: hook}}}}\n",
        github.api_url()
    ));
    std::fs::create_dir_all(home.state("")).unwrap();
    for name in ["hook", ".the-deployer/webhook-secret"] {
        std::fs::write(home.path(name), "h00k-of-the-test").unwrap();
    }
    std::fs::write(home.path("token"), github.token()).unwrap();
    let process = home.start().await;
    github.hooks_to(&format!("{}/webhooks/github", process.address()), &process.secret);
    for (tag, token) in [("v1", github.token()), ("v2", "ghp_theOtherToken")] {
        github.revokes_tokens();
        github.accepts(token);
        std::fs::write(home.path("token"), token).unwrap();
        github.repository("acme/shop").deploys("prod-cluster-1", tag).await;
        let id = process.deployments().await.pop().unwrap()["id"].as_str().unwrap().to_owned();
        let ended = process.ended(&id).await;
        assert_eq!(ended["state"], "succeeded", "{ended}");
    }
    assert!(!process.log().contains("ghp_"), "{}", process.log());
    github.settled();
}
