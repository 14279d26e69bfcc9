//! What callers read of a cluster with an agent, and a token that is changed while the service runs.

use std::time::Duration;

use crate::harness::deployer::Deployer;
use crate::progress::agent::{AGENT_TOKEN, Reported, first_report};

#[tokio::test]
async fn a_token_that_is_changed_in_its_file_needs_no_restart() {
    const NEXT: &str = "of-the-agent-since-then-0123456789";
    let deployer = Deployer::prepared().await;
    let file = deployer.file("agent-token", AGENT_TOKEN);
    let reported = Reported::start_with_token(deployer, &format!("{{file: '{file}'}}"), "").await;
    let report = async |token: &str| reported.report(token, TARGET, &first_report("a")).await.0;
    let begun = std::time::Instant::now();
    while report(AGENT_TOKEN).await == 421 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nobody follows the cluster");
    }
    assert_eq!((report(AGENT_TOKEN).await, report(NEXT).await), (200, 401));
    reported.world.deployer.file("agent-token", NEXT);
    reported.world.deployer.clock.advance(Duration::from_secs(1));
    assert_eq!((report(AGENT_TOKEN).await, report(NEXT).await), (401, 200));
    // A file that is no token lets nobody in, and the agent comes again.
    reported.world.deployer.file("agent-token", "");
    reported.world.deployer.clock.advance(Duration::from_secs(1));
    assert_eq!((report(NEXT).await, report(AGENT_TOKEN).await), (503, 503));
    reported.world.deployer.file("agent-token", NEXT);
    reported.world.deployer.clock.advance(Duration::from_secs(1));
    assert_eq!(report(NEXT).await, 200);
    reported.world.ends().await;
}
