//! The machine has nothing left: no room on its disk, no more open files; or somebody else holds the
//! database. Nothing that was accepted is lost, and all is well as soon as there is some again.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value as Json;
use sqlx::{AnyConnection, Connection as _, Executor as _, raw_sql};

use crate::harness::events::{Delivery, Event};
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};

/// A signal that would end a process that writes beyond its limit; ignored, the write fails instead.
const WITHOUT_SIGXFSZ: [&str; 3] = ["sh", "-c", "trap '' 25; exec \"$0\" \"$@\""];

/// A file system of its own for the folder `small`, in a name space of its own.
const IN_A_SMALL_FOLDER: [&str; 7] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs -o size=12m small small && exec \"$0\" \"$@\"",
];

/// Events are refused while there is no room, and accepted as soon as there is.
async fn recovers(home: &Home, process: &Process, full: impl Fn(), room: impl Fn()) {
    let mut accepted = vec![Event::of_app(home, 1, "first").accepted(process).await];
    process.ended(&accepted[0]).await;
    process.until_ready().await;
    let events: Vec<Event> = (2..12).map(|n| Event::of_app(home, n, &format!("app-{n}"))).collect();
    full();
    let mut refused = Vec::new();
    for event in &events {
        let answer = Delivery::of(event, &process.secret).send(process).await;
        match answer.status {
            202 => accepted.push(answer.json()["id"].as_str().unwrap().to_owned()),
            500..600 => refused.push(event),
            status => panic!("{status}: {}", answer.text),
        }
    }
    assert!(refused.len() > 4, "there was room for most: {accepted:?}");
    process.until("the word that it is not ready", async || waits(process, "database").await).await;
    assert_eq!(process.get("/healthz").await.0, 200, "a restart would mend nothing");

    room();
    process.until_ready().await;
    for event in refused {
        accepted.push(event.accepted(process).await);
    }
    for id in &accepted {
        let ended = process.ended(id).await;
        assert_eq!(ended["state"], "succeeded", "{ended}\n{}", process.log());
    }
    assert_eq!(process.deployments().await.len(), events.len() + 1, "each once");
}

/// What a check is waiting for, if it is.
async fn waits(process: &Process, check: &str) -> Option<String> {
    let (status, text) = process.get("/readyz").await;
    let all: Json = serde_json::from_str(&text).unwrap();
    let one = all["checks"].as_array().unwrap().iter().find(|one| one["name"] == check);
    let waiting_for = one.unwrap()["waiting_for"].as_str().map(str::to_owned);
    assert!(waiting_for.is_none() || status == 503, "{text}");
    waiting_for
}

#[tokio::test]
async fn a_full_file_system_is_over_when_there_is_room() {
    let home = Home::embedded();
    let small = home.path("small");
    std::fs::create_dir(&small).unwrap();
    let may = may_mount(&small);
    if let Err(why) = may {
        // The other test makes the same failures by a limit, which needs no rights.
        println!("NOT RUN: no file system of its own can be made here: {why}");
        return;
    }
    let url = format!("sqlite:{}", small.join("state.db").display());
    let process = home.start_by(&IN_A_SMALL_FOLDER, &[("THE_DEPLOYER_STORAGE_URL", &url)]).await;
    let inside = format!("/proc/{}/root{}", process.id(), small.display());
    let filler = Path::new(&inside).join("filler");
    let fill = || {
        let mut file = std::fs::File::create(&filler).unwrap();
        let mut piece = 1 << 16;
        while piece > 0 {
            // A page that fits no more in one piece may fit in a smaller one.
            if file.write_all(&vec![0; piece]).is_err() {
                piece /= 2;
            }
        }
    };
    recovers(&home, &process, fill, || std::fs::remove_file(&filler).unwrap()).await;
    assert!(process.log().contains("database or disk is full"), "{}", process.log());
}

fn may_mount(folder: &Path) -> Result<(), String> {
    let mut command = Command::new(IN_A_SMALL_FOLDER[0]);
    command.args(&IN_A_SMALL_FOLDER[1..]).arg("true").current_dir(folder.parent().unwrap());
    let tried = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    if tried.status.success() { Ok(()) } else { Err(said) }
}

#[tokio::test]
async fn a_disk_that_takes_no_more_is_over_when_it_does() {
    let home = Home::embedded();
    let process = home.start_by(&WITHOUT_SIGXFSZ, &[]).await;
    let full = || process.limit("fsize", "4096:");
    recovers(&home, &process, full, || process.limit("fsize", "unlimited:")).await;
}

#[tokio::test]
async fn everything_that_has_no_room_is_named() {
    let home = Home::embedded();
    let process = home.start_by(&WITHOUT_SIGXFSZ, &[]).await;
    process.until_ready().await;
    process.limit("fsize", "4096:");
    for check in ["database", "disk", "manifest repository manifests"] {
        let found = process.until(check, async || waits(&process, check).await).await;
        let shown = home.path("").display().to_string();
        assert!(!found.contains(&shown) && !found.contains("error returned"), "{found}");
    }
    process.limit("fsize", "unlimited:");
    process.until_ready().await;
}

#[tokio::test]
async fn a_write_lock_of_another_process_is_named() {
    let home = Home::embedded();
    let process = home.start().await;
    process.until_ready().await;
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}", home.state("state.db").display());
    let mut other = AnyConnection::connect(&url).await.unwrap();
    other.execute(raw_sql("BEGIN IMMEDIATE")).await.unwrap();
    let found = process.until("the word", async || waits(&process, "database").await).await;
    assert!(found.contains("lock"), "{found}");
    other.execute(raw_sql("ROLLBACK")).await.unwrap();
    process.until_ready().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_eq!(process.ended(&id).await["state"], "succeeded");
}

#[tokio::test]
async fn too_many_open_files_are_no_damage() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start_with(&[("THE_DEPLOYER_LIMITS_WORKERS", "1")]).await;
    let first = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    let second = Event::of_app(&home, 2, "cart").accepted(&process).await;
    // Fewer than it has: nothing more can be opened.
    process.limit("nofile", "8:");
    held.let_go();
    let short = |line: &Json| {
        let line = line.to_string();
        line.contains("Too many open files") && line.contains(&second)
    };
    process.line("that there are too many open files", short).await;
    process.limit("nofile", "1024:");
    for id in [&first, &second] {
        assert_eq!(process.ended(id).await["state"], "succeeded", "{}", process.log());
    }
    assert!(!process.log().contains("fsck"), "{}", process.log());
}

#[tokio::test]
async fn a_deployment_that_waits_for_a_future_that_was_none_goes_on() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    process.kill();
    held.let_go();
    host.idle().await;
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}", home.state("state.db").display());
    let mut database = AnyConnection::connect(&url).await.unwrap();
    let sql = "UPDATE deployments SET worker = NULL, due_at = due_at + 864000000";
    database.execute(raw_sql(sql)).await.unwrap();
    database.close().await.unwrap();
    let process = home.start().await;
    assert_eq!(process.ended(&id).await["state"], "succeeded");
}
