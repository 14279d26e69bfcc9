//! Tests that bart follows what goes on as it happens, connects again where a stream breaks, and says how to go on
//! where it stops waiting.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::sync::watch;

use crate::harness::developer::Developer;
use crate::harness::events::{Event, waml};
use crate::harness::git::Bare;
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};
use crate::harness::wire::Wire;

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(1);
const TARGET: &str = "prod-cluster-1";

/// A service whose pushes can be held.
struct Place {
    _host: GitHost,
    home: Home,
    bare: Bare,
    process: Process,
    wire: Wire,
}

impl Place {
    async fn new() -> Self {
        let host = GitHost::start().await;
        let (home, bare) = Home::on(&host);
        let process = home.start().await;
        let wire = Wire::to(process.address()).await;
        Self { _host: host, home, bare, process, wire }
    }

    /// With `shop` deployed as `v1` and `v2`.
    async fn deployed() -> Self {
        let place = Self::new().await;
        for n in 1..=2 {
            let id = Event::of_app(&place.home, n, "shop").accepted(&place.process).await;
            assert_eq!(place.process.ended(&id).await["state"], "succeeded");
        }
        place
    }

    fn bart(&self, arguments: &[&str]) -> Talking {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
        command.current_dir(self.home.path("")).env_clear().args(arguments);
        command.env("BART_SERVER", &self.wire.url).env("HOME", self.home.path(""));
        Talking::with(command)
    }

    /// The newest deployment, once it has ended.
    async fn succeeds(&self) {
        let id = self.process.deployments().await.pop().unwrap()["id"].as_str().unwrap().to_owned();
        assert_eq!(self.process.ended(&id).await["state"], "succeeded", "it goes on by itself");
    }
}

/// bart while it runs: what it says is heard line by line.
struct Talking {
    child: Child,
    heard: watch::Receiver<String>,
    readers: [JoinHandle<String>; 2],
}

impl Talking {
    fn with(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (send, heard) = watch::channel(String::new());
        let out = reads(child.stdout.take().unwrap(), send.clone());
        let err = reads(child.stderr.take().unwrap(), send);
        Self { child, heard, readers: [out, err] }
    }

    /// Until it has said that.
    async fn says(&mut self, words: &str) {
        let said = self.heard.wait_for(|heard| heard.contains(words));
        let said = tokio::time::timeout(PATIENCE, said).await;
        let said = said.unwrap_or_else(|_| panic!("waited in vain for {words:?}"));
        drop(said.unwrap_or_else(|_| panic!("it ends without {words:?}")));
    }

    /// Somebody presses Ctrl-C.
    fn interrupt(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }

    /// Its exit code, its results, and what else it said.
    async fn ends(mut self) -> (Option<i32>, String, String) {
        let ended = tokio::task::spawn_blocking(move || {
            let code = self.child.wait().unwrap().code();
            let [out, err] = self.readers.map(|reader| reader.join().unwrap());
            (code, out, err)
        });
        tokio::time::timeout(PATIENCE, ended).await.expect("it does not end").unwrap()
    }
}

fn reads(stream: impl Read + Send + 'static, heard: watch::Sender<String>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut all = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let line = line + "\n";
            all += &line;
            heard.send_modify(|heard| *heard += &line);
        }
        all
    })
}

#[tokio::test]
async fn logs_come_as_it_happens_and_again_after_a_break() {
    let place = Place::new().await;
    let held = Held::first_push(&place.bare, "pre-receive");
    let id = Event::of_app(&place.home, 1, "shop").accepted(&place.process).await;
    held.reached().await;
    let mut bart = place.bart(&["logs", &id, "--follow"]);
    bart.says("requested `v1`").await;
    place.wire.cut();
    let streams = place.wire.asked("/events", 2).await;
    let resumes = |head: &String| head.to_ascii_lowercase().contains("\r\nlast-event-id: ");
    assert_eq!(streams.iter().map(resumes).collect::<Vec<_>>(), [false, true], "{streams:?}");
    held.let_go();
    let (code, out, err) = bart.ends().await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("pushed with commit"), "{out}");
    assert_eq!(out.matches("requested `v1`").count(), 1, "each line once: {out}");
    assert!(err.ends_with(&format!("succeeded {id}\n")), "{err}");
}

#[tokio::test]
async fn a_deployment_is_followed_by_its_events_and_not_by_asking() {
    let place = Place::new().await;
    place.home.commit("example/shop", &waml("shop"));
    let developer = Developer::cloned(&place.home.state("repos/example/shop.git"));
    let held = Held::first_push(&place.bare, "pre-receive");
    let server = [("BART_SERVER", place.wire.url.as_str())];
    let mut bart = Talking::with(developer.bart(&server, &["deploy", "2.0", TARGET]));
    bart.says(&format!("{TARGET}: pushing")).await;
    held.let_go();
    let (code, out, err) = bart.ends().await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(place.wire.asked_so_far("/events"), 1, "one stream tells it all");
    let looks = place.wire.asked_so_far("GET /api/v1/deployments/2");
    assert!(looks <= 2, "{looks} questions: the stream, and the record at the end");
}

#[tokio::test]
async fn who_stops_waiting_for_a_rollback_is_told_how_to_go_on() {
    let place = Place::deployed().await;
    let held = Held::first_push(&place.bare, "pre-receive");
    let rollback = ["rollback", TARGET, "--app", "devx/shop", "--reason", "it fails"];
    let mut bart = place.bart(&rollback);
    bart.says("is under way").await;
    bart.interrupt();
    let (code, out, err) = bart.ends().await;
    assert_eq!(code, Some(130), "{out}{err}");
    assert!(out.starts_with("requested rollback 2"), "{out}");
    assert!(err.contains(" continues") && err.contains("bart logs 2"), "{err}");
    held.let_go();
    place.succeeds().await;
}

#[tokio::test]
async fn programs_get_what_is_known_of_a_rollback_that_takes_too_long() {
    let place = Place::deployed().await;
    let held = Held::first_push(&place.bare, "pre-receive");
    let ask = ["rollback", TARGET, "--app", "devx/shop", "--reason", "x", "--timeout", "1s"];
    let (code, out, err) = place.bart(&[&ask[..], &["-o", "json"]].concat()).ends().await;
    assert_eq!(code, Some(2), "{out}{err}");
    let said: Json = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    let id = said["deployment"]["id"].as_str().unwrap();
    assert_eq!(said["deployment"]["rollback"]["reason"], "x", "keys that we do not know: {said}");
    assert!(said["changes"][0]["fields"].is_array(), "{said}");
    assert!(err.contains("has not ended within 1s; it continues"), "{err}");
    assert!(err.contains(&format!("`bart logs {id} --follow` follows it")), "{err}");
    held.let_go();
    place.succeeds().await;
    let (code, out, err) = place.bart(&["status", "--app", "devx/shop"]).ends().await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("live, restored, held") && out.contains(", in place of 2"), "{out}");
}

#[tokio::test]
async fn who_stops_before_an_answer_is_told_that_it_may_have_begun() {
    let wire = Wire::to_nobody().await;
    let place = Place { wire, ..Place::new().await };
    let rollback = ["rollback", TARGET, "--app", "devx/shop", "--reason", "it fails"];
    for (more, words) in [(&[][..], "it may have begun"), (&["--dry-run"], "nothing was changed")] {
        let before = place.wire.asked_so_far("/rollback");
        let bart = place.bart(&[&rollback[..], more].concat());
        place.wire.asked("/rollback", before + 1).await;
        bart.interrupt();
        let (code, out, err) = bart.ends().await;
        assert_eq!(code, Some(130), "{out}{err}");
        assert!(err.contains(words), "{err}");
    }
}
