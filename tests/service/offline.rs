//! Commands that work without the service: as root beside a unit with a user of its own, and where the
//! service's secrets are not.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::events::Event;
use crate::harness::folder;
use crate::harness::process::Home;

/// Whom the unit runs as.
const USER: (u32, u32) = (4711, 4712);

/// A command of an operator who stands in that folder.
fn run_in(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
    command.current_dir(folder).env_clear().args(arguments).stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("NO_COLOR", "1");
    command.envs(variables.iter().copied());
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat())
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    // As docs/operations.md has it: git opens what is root's own, and what is theirs for whom root acts.
    let (code, said) = run_in(folder, &[("SUDO_UID", "4711")], arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

/// The folder and everything below.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    let mut at = 0;
    while let Some(path) = all.get(at).cloned() {
        if path.is_dir() {
            all.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        at += 1;
    }
    all
}

fn assert_all_are_the_users(folder: &Path, after: &str) {
    for path in all_below(folder) {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), USER, "{after}: {}", path.display());
    }
}

/// A home with a deployment and a backup of it, as the unit's user left it.
#[expect(clippy::print_stderr, reason = "who reads the tests' output must see what was left out")]
async fn stopped_unit(config: &str) -> Option<Home> {
    let home = Home::configured(config);
    let mine = home.path("mine");
    std::fs::write(&mine, "").unwrap();
    if chown(&mine, Some(USER.0), Some(USER.1)).is_err() {
        let required = std::env::var("THE_DEPLOYER_TEST_REQUIRE_ALL").is_ok_and(|v| v == "1");
        assert!(!required, "only root can give files away, and all tests are required");
        eprintln!("SKIPPED: what root leaves to the service, because this is not root");
        return None;
    }
    std::fs::remove_file(&mine).unwrap();
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_eq!(process.ended(&id).await["state"], "succeeded");
    done(&home.path(""), &["backup", "--config", "config.yaml", "night.db"]);
    process.kill();
    for path in all_below(&home.state("")) {
        chown(&path, Some(USER.0), Some(USER.1)).unwrap();
    }
    Some(home)
}

#[tokio::test]
async fn what_root_restores_and_rebuilds_is_the_services() {
    let Some(home) = stopped_unit("{}\n").await else { return };
    let (folder, state) = (home.path(""), home.state("state.db"));
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o640)).unwrap();
    let config = ["--config", "config.yaml"];
    let said = done(&folder, &["restore", config[0], config[1], "night.db", "--force"]);
    assert!(said.contains(&format!("into {}", state.display())), "{said}");
    assert!(said.contains("rebuild --merge --config config.yaml"), "{said}");
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o640);
    assert_all_are_the_users(&home.state(""), "restored");
    let said = done(&folder, &["rebuild", config[0], config[1], "--merge"]);
    assert!(said.contains(&format!("to {}", state.display())), "{said}");
    assert_all_are_the_users(&home.state(""), "rebuilt");
    done(&folder, &["lock", config[0], config[1], "--everything", "--reason", "x", "--by", "jo"]);
    assert_all_are_the_users(&home.state(""), "locked");
    for name in ["state.db", "state.db-wal", "state.db-shm", "lock"] {
        let _not_there = std::fs::remove_file(home.state(name));
    }
    let said = done(&folder, &["rebuild", config[0], config[1]]);
    assert!(said.contains("added 1 deployments"), "{said}");
    assert_all_are_the_users(&home.state(""), "made again");
    std::fs::remove_file(&state).unwrap();
    done(&folder, &["restore", config[0], config[1], "night.db"]);
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
    assert_all_are_the_users(&home.state(""), "restored where there was none");
}

/// Every secret is where only the service can read it, but those of the code host and of the repositories.
const SECRETS: &str = "
forge: {local: {webhook_secret: {file: /nowhere/webhook-secret}}}
auth: {tokens: [{name: ci, file: /nowhere/api-token, scope: deploy}]}
notify: {slack: {token: {file: /nowhere/slack-token}}}
registries: [{host: ghcr.io, username: me, password: {file: /nowhere/registry-token}}]
";

#[tokio::test]
async fn secrets_that_a_command_does_not_need_are_not_read() {
    let Some(home) = stopped_unit("{}\n").await else { return };
    let folder = home.path("");
    std::fs::write(home.path("config.yaml"), SECRETS).unwrap();
    let (code, said) = run_in(&folder, &[], &["config", "check", "--config", "config.yaml"]);
    assert_eq!(code, Some(1), "the service needs them: {said}");
    for command in [
        &["backup", "--config", "config.yaml", "other.db"][..],
        &["restore", "--config", "config.yaml", "night.db", "--force"],
        &["rebuild", "--config", "config.yaml", "--merge"],
        &["locks", "--config", "config.yaml"],
        &["audit", "--config", "config.yaml"],
        &["owners", "list", "--config", "config.yaml"],
    ] {
        done(&folder, command);
    }
    // The way back from a newer version: what it added to the file says nothing here.
    std::fs::write(home.path("config.yaml"), "newer: {key: 1}\nstorage: {}\n").unwrap();
    done(&folder, &["backup", "--config", "config.yaml", "third.db"]);
    done(&folder, &["restore", "--config", "config.yaml", "night.db", "--force"]);
    std::fs::write(home.path("config.yaml"), "storage: {foldr: a}\n").unwrap();
    let (code, said) = run_in(&folder, &[], &["backup", "--config", "config.yaml", "fourth.db"]);
    assert!(code == Some(1) && said.contains("foldr"), "{said}");
}

/// A secret that is needed is there under another name, where a unit has it only while it runs.
#[tokio::test]
async fn a_units_credentials_are_read_where_the_operator_says() {
    let Some(home) = stopped_unit("{}\n").await else { return };
    let url = home.state("manifests.git");
    let config = format!(
        "manifests: {{repositories: [{{name: m, url: \"{}\", token: {{file: \
         /run/credentials/the-deployer.service/manifests-token}}}}]}}\n",
        url.display()
    );
    std::fs::write(home.path("config.yaml"), config).unwrap();
    std::fs::write(home.path("manifests-token"), "secret\n").unwrap();
    let rebuild = ["rebuild", "--config", "config.yaml", "--merge"];
    let (code, said) = run_in(&home.path(""), &[], &rebuild);
    assert!(code == Some(1) && said.contains("manifests-token cannot be read"), "{said}");
    let folder = home.path("").display().to_string();
    let variables = [("CREDENTIALS_DIRECTORY", folder.as_str())];
    let (_, said) =
        run_in(&home.path(""), &variables, &["config", "check", "--config", "config.yaml"]);
    assert!(!said.contains("cannot be read"), "{said}");
}

#[tokio::test]
async fn a_command_in_another_folder_makes_no_second_record() {
    let Some(home) = stopped_unit("{}\n").await else { return };
    let elsewhere = folder::temporary();
    let (backup, config) = (home.path("night.db"), home.path("config.yaml"));
    let (backup, config) = (backup.to_str().unwrap(), config.to_str().unwrap());
    for command in [
        &["restore", backup][..],
        &["restore", "--config", config, backup],
        &["rebuild"],
        &["rebuild", "--config", config, "--merge"],
        &["backup", "--config", config, "copy.db"],
    ] {
        let (code, said) = run_in(elsewhere.path(), &[], command);
        assert!(matches!(code, Some(1 | 2)), "{command:?}: {said}");
        let folder = elsewhere.path().join(".the-deployer");
        assert!(said.contains(&format!("there is no folder {}", folder.display())), "{said}");
        assert!(said.contains("--config") && said.contains("WorkingDirectory="), "{said}");
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "{command:?}");
    }
    // An absolute path is meant, also on a machine where nothing is yet.
    let state = elsewhere.path().join("deep/state");
    std::fs::write(config, format!("storage: {{folder: \"{}\"}}\n", state.display())).unwrap();
    let said = done(elsewhere.path(), &["restore", "--config", config, backup]);
    assert!(said.contains(&format!("into {}", state.join("state.db").display())), "{said}");
}
