//! The service's own record: kept, put back, and made again of what others know.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value as Json, json};
use sqlx::{AnyPool, AssertSqlSafe};

use crate::harness::events::{Event, waml};
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};
use crate::service::crash::assert_right;

/// An operator's command beside the service of that home.
fn run(home: &Home, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
    command.current_dir(home.path("")).env_clear().args(arguments).stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("NO_COLOR", "1");
    if home.path("config.yaml").exists() {
        command.env("THE_DEPLOYER_CONFIG", "config.yaml");
    }
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// What is printed by a command that does what it is told.
fn done(home: &Home, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// What it prints for programs.
fn data(home: &Home, arguments: &[&str]) -> Json {
    let output = run(home, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What is printed by one that will not.
fn refused(home: &Home, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
    said(&output)
}

async fn deployed(process: &Process, event: &Event) -> Json {
    let id = event.accepted(process).await;
    let done = process.ended(&id).await;
    assert_eq!(done["state"], "succeeded", "{done}");
    done
}

/// The disk forgets the database.
fn lose(home: &Home) {
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _not_there = std::fs::remove_file(home.state(name));
    }
}

/// Changes a database file by hand.
async fn by_hand(file: &std::path::Path, sql: &str) {
    sqlx::any::install_default_drivers();
    let pool = AnyPool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn a_backup_of_a_running_service_is_put_back_and_brought_up_to_date() {
    let home = Home::embedded();
    let process = home.start().await;
    let (shop, cart) = (Event::of_app(&home, 1, "shop"), Event::of_app(&home, 2, "cart"));
    let before = [deployed(&process, &shop).await, deployed(&process, &cart).await];
    let copied = done(&home, &["backup", "night.db"]);
    assert!(copied.starts_with("copied 2 deployments, the last change at 2"), "{copied}");
    let mode = std::fs::metadata(home.path("night.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let bytes = std::fs::read(home.path("night.db")).unwrap();
    assert!(refused(&home, &["backup", "night.db"]).contains("is there already"));
    let later = Event { number: 3, tag: "v3".to_owned(), ..shop.clone() };
    let later = deployed(&process, &later).await;
    let running = run(&home, &["restore", "night.db", "--force"]);
    assert_eq!(running.status.code(), Some(2), "{}", said(&running));
    assert!(said(&running).contains("is in use by another the-deployer"), "{}", said(&running));
    process.kill();

    let newer = refused(&home, &["restore", "night.db"]);
    assert!(newer.contains("has changes that the backup does not have (3 deployments"), "{newer}");
    let restored = data(&home, &["restore", "night.db", "--force", "--output", "json"]);
    assert_eq!(restored["deployments"], 2);
    let kept = restored["kept"].as_str().unwrap().to_owned();
    assert!(std::path::Path::new(&kept).is_file(), "{kept}");
    assert!(done(&home, &["audit", "--act", "restore"]).contains("night.db"), "who did it");
    let rebuilt = done(&home, &["rebuild", "--merge"]);
    assert!(rebuilt.contains("added 1 deployments, 0 removals, 0 owners"), "{rebuilt}");
    let left: Vec<_> = std::fs::read_dir(home.path("")).unwrap().flatten().collect();
    assert!(left.iter().all(|file| !file.file_name().to_string_lossy().contains("part")));

    let process = home.start().await;
    for one in &before {
        let mut now = process.ended(one["id"].as_str().unwrap()).await;
        assert_eq!(now["state"], one["state"]);
        assert_eq!(now["pushed"].take(), one["pushed"], "{now}");
    }
    let back = process.deployment(later["id"].as_str().unwrap()).await;
    assert_remembered(&back, &later);
    let next = Event { number: 4, tag: "v4".to_owned(), ..shop };
    let id = next.accepted(&process).await;
    assert_right(&process, &home.manifests(), &id, "shop").await;
    assert_eq!(home.manifests().commits(), 4);
    assert_eq!(std::fs::read(home.path("night.db")).unwrap(), bytes, "it can be used again");
}

#[tokio::test]
async fn what_is_no_good_backup_is_refused_and_changes_nothing() {
    let home = Home::embedded();
    let process = home.start().await;
    deployed(&process, &Event::of_app(&home, 1, "shop")).await;
    done(&home, &["backup", "good.db"]);
    process.kill();
    let good = std::fs::read(home.path("good.db")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(home.path(name), bytes).unwrap();
    write("text.db", b"no database at all");
    write("cut.db", &good[..good.len() / 2]);
    let mut torn = good.clone();
    // Whole pages, so that some of them are in use.
    torn[4 * 4_096..good.len() - 4_096].fill(0xa5);
    write("torn.db", &torn);
    write("newer.db", &good);
    by_hand(
        &home.path("newer.db"),
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         SELECT 9999, 'later', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
    )
    .await;
    write("others.db", b"");
    by_hand(&home.path("others.db"), "CREATE TABLE a (b TEXT)").await;
    write("in-use.db", &good);
    write("in-use.db-wal", b"x");
    let before = std::fs::read(home.state("state.db")).unwrap();
    for (file, code, words) in [
        ("absent.db", 2, "there is no database at"),
        ("text.db", 2, "text.db"),
        ("cut.db", 2, "cut.db"),
        ("torn.db", 2, "torn.db is damaged"),
        ("newer.db", 1, "newer the-deployer (migration 9999"),
        ("others.db", 2, "is no backup of the-deployer"),
        ("in-use.db", 2, "a database in use"),
    ] {
        let output = run(&home, &["restore", file, "--force"]);
        assert_eq!(output.status.code(), Some(code), "{file}: {}", said(&output));
        assert!(said(&output).contains(words), "{file}: {}", said(&output));
    }
    assert_eq!(std::fs::read(home.state("state.db")).unwrap(), before);
    let open = AnyPool::connect(&format!("sqlite://{}", home.state("state.db").display())).await;
    let open = open.unwrap();
    sqlx::query("SELECT COUNT(*) FROM deployments").execute(&open).await.unwrap();
    let busy = refused(&home, &["restore", "good.db", "--force"]);
    assert!(busy.contains("state.db is in use"), "{busy}");
    open.close().await;
    done(&home, &["lock", "--everything", "--reason", "the fair", "--by", "jo"]);
    let lock = refused(&home, &["restore", "good.db"]);
    assert!(
        lock.contains("has changes that the backup does not have (1 deployment"),
        "a lock: {lock}"
    );
    let left = std::fs::read_dir(home.state("")).unwrap().flatten();
    let left = left.filter(|file| file.file_name().to_string_lossy().contains("restoring"));
    assert_eq!(left.count(), 0);
    done(&home, &["restore", "good.db", "--force"]);
    assert_eq!(done(&home, &["locks"]), "nothing is locked\n");
}

#[tokio::test]
async fn a_database_that_is_broken_is_kept_beside_the_backup() {
    let home = Home::embedded();
    let process = home.start().await;
    let one = deployed(&process, &Event::of_app(&home, 1, "shop")).await;
    done(&home, &["backup", "good.db"]);
    process.kill();
    lose(&home);
    std::fs::write(home.state("state.db"), "broken").unwrap();
    let unread = refused(&home, &["restore", "good.db"]);
    assert!(unread.contains("cannot be read") && unread.contains("--force"), "{unread}");
    done(&home, &["restore", "good.db", "--force"]);
    let process = home.start().await;
    assert_eq!(process.deployment(one["id"].as_str().unwrap()).await["state"], "succeeded");
}

/// What waited at the time of the backup was pushed since, or was overtaken: it does neither again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_in_a_backup_is_not_deployed_over_newer_ones() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start_with(&[("THE_DEPLOYER_LIMITS_WORKERS", "1")]).await;
    let shop = Event::of_app(&home, 1, "shop");
    let pushing = shop.accepted(&process).await;
    held.reached().await;
    let cart = Event::of_app(&home, 2, "cart");
    let queued = cart.accepted(&process).await;
    done(&home, &["backup", "middle.db"]);
    let newer = Event { number: 3, tag: "v3".to_owned(), ..cart.clone() };
    let newer = newer.accepted(&process).await;
    held.let_go();
    for id in [&pushing, &newer] {
        assert_eq!(process.ended(id).await["state"], "succeeded", "{}", process.log());
    }
    process.kill();
    let tip = bare.tip();
    done(&home, &["restore", "middle.db", "--force"]);
    let rebuilt = done(&home, &["rebuild", "--merge"]);
    assert!(rebuilt.contains("added 1 deployments"), "{rebuilt}");
    let process = home.start().await;
    assert_eq!(process.ended(&queued).await["state"], "superseded");
    let done = process.ended(&pushing).await;
    assert_eq!(done["state"], "succeeded", "{done}");
    assert_eq!(bare.tip(), tip, "nothing was pushed once more");
}

#[tokio::test]
async fn a_postgresql_database_is_copied_by_its_own_programs() {
    let home =
        Home::configured("storage: {url: \"postgres://me:s3cret@db.example.com/deployer\"}\n");
    for command in [&["backup", "a.db"][..], &["restore", "a.db"]] {
        let output = run(&home, command);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let said = said(&output);
        assert!(said.contains("pg_dump") && said.contains("db.example.com"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
        assert!(!home.path("a.db").exists());
    }
}

/// What of a deployment's record is in the repository, too, is as it was.
fn assert_remembered(now: &Json, was: &Json) {
    let keys = ["id", "repository", "target", "commit", "tag", "actor", "state", "app", "pushed"];
    for key in keys.iter().chain(&["template"]) {
        assert_eq!(now[key], was[key], "{key} of {now}");
    }
    // Its id was drawn a moment before the event was stored.
    let time =
        |one: &Json| -> jiff::Timestamp { one["received_at"].as_str().unwrap().parse().unwrap() };
    let apart = time(was).duration_since(time(now)).abs();
    assert!(apart < jiff::SignedDuration::from_secs(2), "{apart:#} apart: {now}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_record_is_rebuilt_from_the_repository() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start().await;
    let (shop, cart) = (Event::of_app(&home, 1, "shop"), Event::of_app(&home, 2, "cart"));
    let mut made = Vec::new();
    for number in 1..=7 {
        let tag = format!("v{number}");
        let event = if number == 2 { &cart } else { &shop };
        made.push(deployed(&process, &Event { number, tag, ..event.clone() }).await);
    }
    let path = "/api/v1/apps/prod-cluster-1/devx/cart/remove";
    let gone = process.request(reqwest::Method::POST, path).json(&json!({"reason": "moved away"}));
    assert_eq!(gone.send().await.unwrap().status(), 200);
    bare.somebody_writes("docs/notes.md", "what somebody else commits is no deployment");
    let path = "/api/v1/apps/prod-cluster-1/devx/shop/rollback";
    let back = process.request(reqwest::Method::POST, path).json(&json!({"reason": "it was slow"}));
    let back: Json = back.send().await.unwrap().json().await.unwrap();
    let back = process.ended(back["deployment"]["id"].as_str().unwrap()).await;
    assert_eq!(back["state"], "succeeded", "{back}");
    let held = process.json("/api/v1/holds").await;
    made.push(back.clone());
    let kept = data(&home, &["owners", "list", "-o", "json"]);
    process.kill();
    lose(&home);

    let dry = done(&home, &["rebuild", "--dry-run"]);
    assert!(
        dry.contains("found 8 deployments")
            && dry.contains("would add 8 deployments, 1 removals, 2 owners"),
        "{dry}"
    );
    let rebuilt = done(&home, &["rebuild"]);
    assert!(rebuilt.contains("added 8 deployments, 1 removals, 2 owners"), "{rebuilt}");
    assert!(done(&home, &["audit", "--act", "rebuild"]).contains("8 deployments"), "who did it");
    let twice = refused(&home, &["rebuild"]);
    assert!(twice.contains("has 8 deployments already") && twice.contains("--merge"), "{twice}");
    let again = done(&home, &["rebuild", "--merge"]);
    assert!(again.contains("added 0 deployments, 0 removals, 0 owners"), "{again}");
    let now = data(&home, &["owners", "list", "-o", "json"]);
    let whose = |all: &Json| {
        let all = all.as_array().unwrap().iter();
        all.map(|one| (one["app"].clone(), one["repository"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(whose(&now), whose(&kept), "also of what was removed");

    let process = home.start().await;
    for one in &made {
        let now = process.deployment(one["id"].as_str().unwrap()).await;
        assert_remembered(&now, one);
    }
    let listed = process.deployments().await;
    assert_eq!(listed.len(), 8);
    let first = |all: &Json| {
        let one = &all["holds"][0];
        ["target", "app", "by", "reason", "rollback", "from", "to"].map(|key| one[key].clone())
    };
    let holds = process.json("/api/v1/holds").await;
    assert_eq!(first(&holds), first(&held), "{holds}");
    let rolled = process.deployment(back["id"].as_str().unwrap()).await;
    assert_eq!(rolled["rollback"], back["rollback"]);
    assert!(listed.windows(2).all(|two| two[0]["id"].as_str() < two[1]["id"].as_str()));
    for (number, app) in [(8, "shop"), (10, "cart")] {
        let thief = home.commit("example/thief", &waml(app));
        let stolen = Event::new(number, "thief", &thief).accepted(&process).await;
        let stolen = process.ended(&stolen).await;
        assert_eq!(stolen["violations"][0]["rule"], "owner", "the app is somebody's: {stolen}");
    }
    let next = Event { number: 9, tag: "v9".to_owned(), ..shop };
    let id = next.accepted(&process).await;
    assert_right(&process, &bare, &id, "shop").await;
}

#[tokio::test]
async fn commits_that_only_look_like_ours_are_named_and_left_out() {
    let home = Home::embedded();
    let process = home.start().await;
    deployed(&process, &Event::of_app(&home, 1, "shop")).await;
    process.kill();
    let bare = home.manifests();
    let forge = |subject: &str, id: &str| {
        let message = format!(
            "{subject}\n\nDeploy-Id: {id}\nRepository: evil/shop\nCommit: {}\nActor: eve",
            "a".repeat(40)
        );
        let tree = bare.run(&["rev-parse", "main^{tree}"]);
        let tip = bare.tip();
        let commit = bare.run(&["commit-tree", "-m", &message, "-p", &tip, tree.trim()]);
        bare.run(&["update-ref", "refs/heads/main", commit.trim()]);
    };
    forge("deploy devx/shop v9 to prod-cluster-1", "20261121-054812123-3f9a2c");
    forge("deploy devx/shop v9 to ../etc", "20261121-054812123-3f9a2d");
    lose(&home);
    let rebuilt = done(&home, &["rebuild"]);
    assert!(rebuilt.contains("added 1 deployments, 0 removals, 1 owners"), "{rebuilt}");
    assert!(rebuilt.contains("it has no folder of that revision"), "{rebuilt}");
    assert!(rebuilt.contains("is not a legal target"), "{rebuilt}");
}
