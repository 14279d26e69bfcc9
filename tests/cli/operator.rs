//! Tests the operator's commands on the database.

use std::path::Path;
use std::process::Output;

use serde_json::Value as Json;

use super::{program, said};

use crate::harness::folder;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    program("the-deployer", folder).args(arguments).output().unwrap()
}

/// What is printed by a command that does what it is told.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    said(&output)
}

#[test]
fn a_lock_is_placed_shown_and_taken_away() {
    let folder = folder::temporary();
    let folder = folder.path();
    assert_eq!(done(folder, &["locks"]), "nothing is locked\n");
    let why = ["--reason", "the fair", "--by", "jo"];
    let lock = |arguments: &[&str]| done(folder, &[&["lock"], arguments, &why].concat());
    let placed = lock(&["--target", "prod-1", "--app", "devx/shop", "--for", "2h"]);
    let first = placed.lines().next().unwrap();
    assert!(first.starts_with("locked devx/shop on prod-1, ends in 2 h: "), "{placed}");
    let id = first.rsplit(' ').next().unwrap().to_owned();
    assert!(placed.contains("lock placed") && placed.contains("by=\"jo\""), "{placed}");
    lock(&["--owner", "team@example.com"]);
    lock(&["--everything", "--until", "2999-01-01T00:00:00Z"]);
    let list = done(folder, &["locks"]);
    for line in ["devx/shop on prod-1", "the apps of team@example.com", "everything", "the fair"] {
        assert!(list.contains(line), "{line} in {list}");
    }
    let json = done(folder, &["locks", "--output", "json"]);
    let json: Json = serde_json::from_str(&json).unwrap();
    let scope = |n: usize| json["locks"][n]["scope"].clone();
    assert_eq!(json["locks"][0]["id"], id.as_str());
    assert_eq!(scope(0), serde_json::json!({"target": "prod-1", "app": "devx/shop"}));
    assert_eq!(scope(1), serde_json::json!({"owner": "team@example.com"}));
    assert_eq!(scope(2), serde_json::json!({"everything": true}));
    let away = ["unlock", &id, "--reason", "it is over", "--by", "jo"];
    assert!(done(folder, &away).starts_with("unlocked devx/shop on prod-1\n"));
    let again = run(folder, &away);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        said(&again).contains(&format!("there is no lock {id} any more: jo removed it")),
        "{again:?}"
    );
    assert_eq!(done(folder, &["locks"]).lines().count(), 1 + 2);
}

#[test]
fn an_app_is_given_away_with_a_reason() {
    let folder = folder::temporary();
    let folder = folder.path();
    assert_eq!(done(folder, &["owners", "list"]), "no app has been deployed yet\n");
    let give = |to: &str| {
        let to = ["--target", "prod-1", "--to", to, "--reason", "split off", "--by", "jo"];
        done(folder, &[&["owners", "move", "devx/shop"], &to[..]].concat())
    };
    let first = give("acme/shop");
    assert!(first.starts_with("moved devx/shop on prod-1 from nobody to acme/shop\n"), "{first}");
    let moved = give("acme/store");
    assert!(
        moved.starts_with("moved devx/shop on prod-1 from acme/shop to acme/store\n"),
        "{moved}"
    );
    assert!(moved.contains("app owner changed") && moved.contains("split off"), "{moved}");
    let list = done(folder, &["owners", "list", "--target", "prod-1"]);
    assert!(list.contains("acme/store") && list.contains("moved by jo: split off"), "{list}");
    let json = done(folder, &["owners", "list", "-o", "json"]);
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["app"], &json[0]["moved"]["by"]), (&"devx/shop".into(), &"jo".into()));
}

#[test]
fn what_is_not_said_right_changes_nothing() {
    let folder = folder::temporary();
    let folder = folder.path();
    for (arguments, words) in [
        (&["lock", "--reason", "x", "--by", "jo"][..], "--everything"),
        (
            &["lock", "--everything", "--target", "a", "--reason", "x", "--by", "jo"],
            "cannot be used",
        ),
        (&["lock", "--everything", "--by", "jo"], "--reason"),
        (&["lock", "--everything", "--reason", "x"], "--by"),
        (&["lock", "--everything", "--reason", " ", "--by", "jo"], "--reason must be a line"),
        (&["lock", "--everything", "--reason", "x", "--by", "a\nb"], "--by must be a line"),
        (&["lock", "--app", "a/b", "--reason", "x", "--by", "jo"], "--target"),
        (&["lock", "--target", "A_", "--reason", "x", "--by", "jo"], "is not a legal target"),
        (&["lock", "--owner", "", "--reason", "x", "--by", "jo"], "--owner must not be empty"),
        (
            &[
                "lock",
                "--everything",
                "--until",
                "2020-01-01T00:00:00Z",
                "--reason",
                "x",
                "--by",
                "jo",
            ],
            "would end before it begins",
        ),
        (
            &["lock", "--everything", "--for", "99999999999h", "--reason", "x", "--by", "jo"],
            "--for is too long",
        ),
        (&["unlock", "nope", "--reason", "x", "--by", "jo"], "is not a legal lock id"),
        (
            &[
                "owners", "move", "shop", "--target", "a", "--to", "a/b", "--reason", "x", "--by",
                "jo",
            ],
            "NAMESPACE/APP",
        ),
    ] {
        let output = run(folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
    assert_eq!(done(folder, &["locks"]), "nothing is locked\n");
}

#[test]
fn an_act_on_a_target_that_is_not_there_is_refused() {
    let folder = folder::temporary();
    let folder = folder.path();
    let config = "clusters: [{name: prod-1, environment: production, domain: a.example.com}]";
    std::fs::write(folder.join("config.yaml"), config).unwrap();
    let who = ["--reason", "x", "--by", "jo", "--config", "config.yaml"];
    let lock = |target| [&["lock", "--target", target], &who[..]].concat();
    let give = |target| {
        [&["owners", "move", "devx/shop", "--to", "a/b", "--target", target], &who[..]].concat()
    };
    for wrong in [lock("prod-2"), give("prod-2")] {
        let output = run(folder, &wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", said(&output));
        let words = "the configuration has no cluster `prod-2`\nhelp: did you mean `prod-1`?";
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    done(folder, &lock("prod-1"));
    done(folder, &give("prod-1"));
}
