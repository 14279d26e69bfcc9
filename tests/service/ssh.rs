//! The whole program with its manifests behind ssh.

use std::fs;

use crate::harness::events::Event;
use crate::harness::process::Home;
use crate::harness::sshd::{Behaviour, SshHost};
use crate::service::crash::assert_right;

/// A home whose manifests go to `m.git` of that host.
fn home(host: &SshHost) -> Home {
    let hosts = host.known_hosts();
    let home = Home::configured(&format!(
        "manifests:\n  repositories:\n  - name: fleet\n    url: {}\n    \
         ssh: {{key: {{file: key}}, known_hosts: {}}}\n",
        host.url("m.git"),
        hosts.display()
    ));
    host.write_key(&home.path("key"));
    home
}

#[tokio::test]
async fn deployments_go_over_one_connection_that_outlives_a_crash() {
    let Some(host) = SshHost::start().await else { return };
    let bare = host.create("m.git");
    let home = home(&host);
    let process = home.start().await;
    assert_eq!(process.get("/readyz").await.0, 200);
    let event = Event::of_app(&home, 1, "shop");
    let first = event.accepted(&process).await;
    assert_right(&process, &bare, &first, "shop").await;
    drop(process);

    let process = home.start().await;
    let event = Event { number: 2, tag: "v2".to_owned(), ..event };
    let second = event.accepted(&process).await;
    assert_right(&process, &bare, &second, "shop").await;
    assert_eq!(bare.commits(), 2);
    assert!(host.connections() <= 2, "{}", host.connections());
    assert!(!process.log().contains("PRIVATE KEY"));
    let kept = home.state("ssh/manifests-fleet/key");
    assert_eq!(mode(&kept), 0o600);
    process.terminate();
    process.end().await;
    assert!(!kept.exists(), "who stops takes it away");
}

#[tokio::test]
async fn a_key_that_may_only_read_is_seen_before_anything_is_deployed() {
    let Some(host) = SshHost::start().await else { return };
    let bare = host.create("m.git");
    host.behave(Behaviour::ReadOnly);
    let home = home(&host);
    let process = home.start().await;
    let (status, ready) = process.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(ready.contains("give that key the right to write there"), "{ready}");
    let event = Event::of_app(&home, 1, "shop");
    let one = process.ended(&event.accepted(&process).await).await;
    assert_eq!(one["state"], "failed", "{one}");
    assert!(one["summary"].as_str().unwrap().contains("marked as read only"), "{one}");

    host.behave(Behaviour::Good);
    let again = Event { number: 2, ..event }.accepted(&process).await;
    assert_right(&process, &bare, &again, "shop").await;
    assert_eq!(bare.commits(), 1);
}

fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
