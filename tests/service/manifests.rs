//! A manifest repository that is not as it should be, end to end.

use crate::harness::events::Event;
use crate::harness::git_host::GitHost;
use crate::harness::process::Home;
use crate::service::crash::assert_right;

#[tokio::test]
async fn a_host_that_is_down_is_waited_for() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = Home::pushing_to(&format!("http://{address}/m.git"));
    let process = home.start().await;
    let (status, ready) = process.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(
        ready.contains("manifest repository fleet") && ready.contains("cannot be reached"),
        "{ready}"
    );
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    let waiting = process
        .when(&id, "a retry", |one| one["summary"].as_str().unwrap().contains("cannot be reached"))
        .await;
    assert!(waiting["finished_at"].is_null());
    assert!(waiting["summary"].as_str().unwrap().starts_with("attempt 2 at "), "{waiting}");
    assert_eq!(process.get("/healthz").await.0, 200);

    let host = GitHost::start_at(&address.to_string()).await;
    let bare = host.create("m.git");
    assert_right(&process, &bare, &id, "shop").await;
    process.until_ready().await;
}

#[tokio::test]
async fn a_repository_that_is_not_there_fails_the_deployment_and_says_what_to_do() {
    let host = GitHost::start().await;
    let home = Home::pushing_to(&host.url("m.git"));
    let process = home.start().await;
    let (status, ready) = process.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(ready.contains("there is no manifest repository at"), "{ready}");
    let event = Event::of_app(&home, 1, "shop");
    let id = event.accepted(&process).await;
    let one = process.ended(&id).await;
    assert_eq!(one["state"], "failed");
    assert!(one["summary"].as_str().unwrap().contains("create it, correct its address"), "{one}");
    assert_eq!(one["statuses"][2]["state"], "error", "the request is not at fault");

    let bare = host.create("m.git");
    let again = Event { number: 2, ..event }.accepted(&process).await;
    assert_right(&process, &bare, &again, "shop").await;
}

#[tokio::test]
async fn a_branch_that_is_protected_fails_the_deployment_with_the_servers_words() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start().await;
    let event = Event::of_app(&home, 1, "shop");
    let first = event.accepted(&process).await;
    assert_right(&process, &bare, &first, "shop").await;
    let tip = bare.tip();
    bare.hook(
        "pre-receive",
        "echo 'error: GH006: Protected branch update failed for refs/heads/main.' >&2; exit 1",
    );
    let event = Event { number: 2, tag: "v2".to_owned(), ..event };
    let refused = process.ended(&event.accepted(&process).await).await;
    assert_eq!(refused["state"], "failed");
    let summary = refused["summary"].as_str().unwrap();
    assert!(summary.contains("GH006: Protected branch update failed"), "{summary}");
    assert!(summary.contains("What to do: let this service's account bypass"), "{summary}");
    assert_eq!(bare.tip(), tip);
    assert!(!process.log().contains(crate::harness::git_host::TOKEN));

    std::fs::remove_file(bare.0.join("hooks/pre-receive")).unwrap();
    let event = Event { number: 3, tag: "v3".to_owned(), ..event };
    let third = event.accepted(&process).await;
    assert_right(&process, &bare, &third, "shop").await;
    assert_eq!(bare.commits(), 2);
}
