//! Tests bart's offline commands: their output, and their exit codes.

use std::io::Write;
use std::process::Stdio;

use tempfile::TempDir;

use super::{bart, example, program, said};

use crate::harness::folder;

#[test]
fn a_valid_file_is_praised_with_its_warnings() {
    let folder = example();
    let waml = folder.path().join(".weave.yaml");
    let text = std::fs::read_to_string(&waml).unwrap();
    std::fs::write(&waml, text.replace("slo: {requestClass: critical}", "alerts: {redisDown: {}}"))
        .unwrap();
    let output = bart(folder.path(), &["validate"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(said(&output), @r"
    ok .weave.yaml is valid for prod-cluster-1
    note: what the targets offer is unknown (no service is named), so violations that depend on it are warnings: see --server and --platform
    warning[alerts]: the alert `redisDown` is not created: the app has no `redis`
      --> .weave.yaml:16:14
       |
    16 |     alerts: {redisDown: {}}
       |              ^^^^^^^^^ without effect
       |
       = help: remove `redisDown`, or set it only where the app has what it measures

    1 warning
    ");
}

#[test]
fn no_value_of_a_variable_is_printed_beside_what_is_wrong() {
    let folder = example();
    let waml = folder.path().join(".weave.yaml");
    let text = std::fs::read_to_string(&waml).unwrap();
    // Put together here, so that nobody's scanner takes this file for a leak.
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5");
    let shows_nothing = |env: &str, said_of: &str| {
        let wrong = text.replace("env: [{name: MY_ENV_NAME, value: some-value}]", env);
        std::fs::write(&waml, wrong).unwrap();
        for output in ["text", "json"] {
            let printed = said(&bart(folder.path(), &["validate", "--output", output]));
            assert!(printed.contains(said_of), "{printed}");
            assert!(!printed.contains(&token) && !printed.contains("hunter2"), "{printed}");
        }
    };
    shows_nothing(&format!("env: [{{name: 1X, value: \"{token}\"}}]"), "is not a legal name");
    shows_nothing("env: [{name: 1X, value: hunter2}]", "is not a legal name");
    shows_nothing(
        "env: [{name: A, value: hunter2, secret: {name: s, key: k}}]",
        "a value and a secret",
    );
    // A secret at the wrong place, and in a file that is no YAML.
    shows_nothing(&format!("env: [{{name: {token}/x, value: x}}]"), "is not a legal name");
    shows_nothing(&format!("env: [{{name: A, value: \"{token}\"]"), "not YAML");
}

#[test]
fn violations_are_data_for_programs() {
    let folder = example();
    std::fs::write(folder.path().join("bad.yaml"), "schema: 3\nname: x\n").unwrap();
    let output = bart(folder.path(), &["validate", "bad.yaml", "--output", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["valid"], false);
    let first = &json["violations"][0];
    assert_eq!(first["rule"], "schema");
    assert_eq!(first["position"]["file"], "bad.yaml");
    assert_eq!(first["position"]["line"], 1);
    assert!(json["violations"].as_array().unwrap().len() > 3, "{json}");
}

#[test]
fn explain_gives_every_origin_as_data() {
    let folder = example();
    let output = bart(
        folder.path(),
        &["explain", "-t", "prod-cluster-1", "env[0].value", "--output", "json"],
    );
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!([{
        "path": "env[0].value", "value": "some-value", "layer": "deploy.prod-cluster-1",
        "file": ".weave.yaml", "line": 15, "column": 38,
    }]);
    assert_eq!(json, expected);
}

#[test]
fn explain_shows_no_secret() {
    let folder = example();
    let section = "env: [{name: DB_PASSWORD, value: hunter2}, {name: MODE, value: slow}, {name: WORD_TOKEN, value: open, plain: true}]\n    \
                   args: [--token, hunter2, \"--password=hunter2\", --mode=slow]\n    annotations: {db-password: hunter2}\n";
    let waml = format!(
        "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndefaults:\n- match: \"*\"\n  env: [{{name: OLD_PASSWORD, value: hunter2}}]\n\
         deploy:\n  t:\n    {}",
        section.replace("}]\n    args", "}, {name: OLD_PASSWORD, value: null}]\n    args")
    );
    std::fs::write(folder.path().join(".weave.yaml"), waml).unwrap();
    for format in ["text", "json"] {
        let shown = said(&bart(folder.path(), &["explain", "-t", "t", "--output", format]));
        assert!(!shown.contains("hunter2") && shown.contains("••••"), "{shown}");
        for part in ["DB_PASSWORD", "slow", "--password=••••", "--mode=slow", "open"] {
            assert!(shown.contains(part) || format == "text", "{part}: {shown}");
        }
    }
}

#[test]
fn explain_shows_what_a_null_took_away_and_what_does_nothing() {
    let folder = folder::temporary();
    let text = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndefaults:\n- match: '*'\n  env: [{name: LEVEL, value: debug}]\ndeploy:\n  t:\n    env: [{name: LEVEL, value: null}]\n    probes: {liveness: null}\n    scaling: {replicas: 2}\n    autoscaling: {horizontal: {maxReplicas: 9, cpu: {averageUtilization: 75}}}\n    cron: {schedule: '0 3 * * *'}\n";
    std::fs::write(folder.path().join(".weave.yaml"), text).unwrap();
    let output = bart(folder.path(), &["explain", "-t", "t", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let at = |path: &str| json.as_array().unwrap().iter().find(|one| one["path"] == path).unwrap();
    assert_eq!(
        at("env[0].value"),
        &serde_json::json!({
            "path": "env[0].value", "value": null, "layer": "deploy.t", "file": ".weave.yaml", "line": 11, "column": 32,
            "removes": {"value": "debug", "layer": "defaults[0]", "file": ".weave.yaml", "line": 8, "column": 30},
        })
    );
    assert_eq!(at("probes.liveness")["removes"]["layer"], "backend-default/defaults.yaml");
    let why = |path: &str| at(path)["without_effect"].as_str().unwrap().to_owned();
    assert_eq!(why("scaling.replicas"), "the number of replicas is the autoscaler's");
    assert!(why("cron.schedule").contains("does not use it"));
    let shown = said(&bart(folder.path(), &["explain", "-t", "t", "env"]));
    assert!(shown.contains("takes away `debug` of .weave.yaml:8:30"), "{shown}");
}

#[test]
fn a_file_and_a_path_may_both_be_named() {
    let folder = example();
    let output =
        bart(folder.path(), &["explain", ".weave.yaml", "--target", "prod-cluster-1", "slo"]);
    assert!(
        said(&output).contains("slo.requestClass  critical  .weave.yaml:16:25"),
        "{}",
        said(&output)
    );
}

#[test]
fn the_schema_is_json_and_names_every_section() {
    let folder = example();
    let output = bart(folder.path(), &["schema"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["$defs"]["Section"]["properties"]["autoscaling"].is_object());
    assert!(json["properties"]["deploy"].is_object());
}

/// A folder with the template `web`, which takes a parameter, and a WAML that sets it.
fn example_of_parameters() -> TempDir {
    let folder = folder::temporary();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("t/apps/web/defaults.yaml", "");
    put(
        "t/apps/web/parameters.yaml",
        "parameters:\n  tier: {type: string, enum: [gold, silver], default: silver}\n  cost: {type: integer}\n",
    );
    put("t/apps/web/latest/configmap.yaml.tmpl", "");
    put(
        ".weave.yaml",
        "schema: \"2\"\nname: A\nslug: a\nowner: a@example.com\nnamespace: n\ntemplate: web\n\
         defaults:\n- {match: \"*\", parameters: {cost: 1}}\ndeploy: {t: {parameters: {cost: 2}}}\n",
    );
    folder
}

#[test]
fn the_schema_of_a_template_has_its_parameters() {
    let folder = example_of_parameters();
    let output = bart(folder.path(), &["schema", "--templates", "t", "--template", "web"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for section in ["Section", "DefaultsEntry"] {
        let parameters = &json["$defs"][section]["properties"]["parameters"];
        let tier = &parameters["properties"]["tier"]["anyOf"][0];
        assert_eq!(tier["enum"], serde_json::json!(["gold", "silver"]), "{parameters}");
        assert_eq!(parameters["additionalProperties"], false);
    }
    let output = bart(folder.path(), &["schema", "--templates", "t", "--template", "wbe"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("did you mean `web`?"), "{}", said(&output));
}

#[test]
fn explain_shows_where_parameters_come_from() {
    let folder = example_of_parameters();
    let arguments = ["explain", "-t", "t", "--templates", "t", "parameters"];
    insta::assert_snapshot!(said(&bart(folder.path(), &arguments)), @r"
    PATH             VALUE   WRITTEN AT                LAYER
    parameters.cost  2       .weave.yaml:9:33          deploy.t
    parameters.tier  silver  web/parameters.yaml:2:55  template
    ");
}

#[test]
fn explain_shows_where_each_part_of_a_patch_is_written() {
    let folder = folder::temporary();
    let waml = include_str!("../pipeline/patches/waml.yaml");
    std::fs::write(folder.path().join(".weave.yaml"), waml).unwrap();
    let arguments = ["explain", "-t", "prod-cluster-1", "patches[1]"];
    insta::assert_snapshot!(said(&bart(folder.path(), &arguments)), @r#"
    PATH                                            VALUE                  WRITTEN AT         LAYER
    patches[1].kind                                 Service                .weave.yaml:30:13  deploy.prod-cluster-1
    patches[1].operations[0].op                     add                    .weave.yaml:32:14  deploy.prod-cluster-1
    patches[1].operations[0].path                   /spec/sessionAffinity  .weave.yaml:32:25  deploy.prod-cluster-1
    patches[1].operations[0].value                  ClientIP               .weave.yaml:32:55  deploy.prod-cluster-1
    patches[1].operations[1].op                     add                    .weave.yaml:33:14  deploy.prod-cluster-1
    patches[1].operations[1].path                   /metadata/annotations  .weave.yaml:33:25  deploy.prod-cluster-1
    patches[1].operations[1].value.example.com/neg  true                   .weave.yaml:33:73  deploy.prod-cluster-1
    "#);
}

#[test]
fn render_prints_what_it_writes() {
    let folder = example();
    let arguments = ["render", "--target", "prod-cluster-1", "--tag", "1.0"];
    let printed = bart(folder.path(), &arguments);
    assert_eq!(printed.status.code(), Some(0));
    let written = bart(folder.path(), &[&arguments[..], &["--out", "out"]].concat());
    assert_eq!(written.status.code(), Some(0), "{}", said(&written));
    let file = std::fs::read_to_string(folder.path().join("out/deployment.yaml")).unwrap();
    assert!(String::from_utf8_lossy(&printed.stdout).contains(&file));
    let again = bart(folder.path(), &[&arguments[..], &["--out", "out"]].concat());
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("out is not empty"), "{}", said(&again));
}

#[test]
fn templates_of_ones_own_are_used_and_their_mistakes_shown() {
    let folder = example();
    let version = folder.path().join("mine/apps/backend-default/latest");
    std::fs::create_dir_all(&version).unwrap();
    std::fs::write(
        folder.path().join("mine/apps/backend-default/defaults.yaml"),
        "resources: {requests: {cpu: 1}}\n",
    )
    .unwrap();
    let template = version.join("configmap.yaml.tmpl");
    std::fs::write(
        &template,
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ app.slug }}\n",
    )
    .unwrap();
    let arguments = ["render", "-t", "prod-cluster-1", "--tag", "1", "--templates", "mine"];
    let output = bart(folder.path(), &arguments);
    assert!(said(&output).contains("kind: ConfigMap"), "{}", said(&output));

    std::fs::write(
        &template,
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ app.slig }}\n",
    )
    .unwrap();
    let output = bart(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("backend-default/latest/configmap.yaml.tmpl:4:"),
        "{}",
        said(&output)
    );
}

#[test]
fn bad_input_ends_with_code_2_and_a_next_step() {
    let folder = folder::temporary();
    for (arguments, message) in [
        (&["validate"][..], "cannot read .weave.yaml"),
        (&["validate", "."], "cannot read ."),
        (&["render", "-t", "a/b", "--tag", "1"], "is not a legal target"),
        (&["render", "-t", "a", "--tag", "a\nb"], "is not a legal image tag"),
        (&["validate", "--templates", "nowhere"], "cannot read .weave.yaml"),
        (&["status", "--server", "http://127.0.0.1:1"], "cannot reach http://127.0.0.1:1"),
        (&["status", "--server", "nonsense"], "is not an address"),
        (&["remove", "prod", "devx/my-app", "--yes"], "--reason"),
        (&["remove", "prod", "devx/my-app", "--yes", "--reason", " "], "the reason is empty"),
        (&["remove", "prod", "devx/my-app", "--reason", "x"], "a removal needs confirmation"),
        (&["remove", "prod", "a/b/c", "--yes", "--reason", "x"], "is not a legal slug"),
        (&["remove", "prod", "my-app", "--yes", "--reason", "x"], "write NAMESPACE/my-app"),
        (&["dance"], "unrecognized subcommand"),
    ] {
        let output = bart(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn times_are_taken_as_people_write_them() {
    let folder = folder::temporary();
    let nowhere = ["--server", "http://127.0.0.1:1"];
    for arguments in [
        &["history", "--all", "--since", "2h", "--until", "30m"][..],
        &["history", "--all", "--since", "2d"],
        &["history", "--all", "--since", "2026-11-21", "--until", "2026-11-22T08:00"],
        &["lock", "prod", "--all", "--reason", "x", "--for", "2d"],
        &["lock", "prod", "--all", "--reason", "x", "--until", "2126-11-22"],
    ] {
        let output = bart(folder.path(), &[arguments, &nowhere].concat());
        assert!(said(&output).contains("cannot reach"), "{arguments:?}: {}", said(&output));
    }
    for (arguments, message) in [
        (&["history", "--all", "--since", "soon"][..], "write it like 2h, 2d, 2026-11-21 or"),
        (&["history", "--all", "--until", "2 months"], "write it like 2h, 2d, 2026-11-21 or"),
        (&["history", "--all", "--limit", "x"], "write a number from 1 to 100000"),
        (&["builds", "--limit", "0"], "write a number from 1 to 100"),
        (&["lock", "prod", "--reason", "x", "--for", "2 moons"], "write it like 90m, 2h or 2d"),
        (&["lock", "prod", "--reason", "x", "--until", "2h"], "for a duration use --for"),
        (
            &["rollback", "prod", "--reason", "x", "--timeout", "soon"],
            "write it like 90m, 2h or 2d",
        ),
        (&["status", "--server", "nonsense"], "nonsense is not an address\n"),
    ] {
        let output = bart(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(message), "{arguments:?}: {}", said(&output));
        for internal in ["failed to parse", "jiff", "invalid digit", "relative URL"] {
            assert!(!said(&output).contains(internal), "{arguments:?}: {}", said(&output));
        }
    }
}

#[test]
fn bad_files_end_with_code_1_and_never_with_a_panic() {
    let folder = folder::temporary();
    let large = "x".repeat(10 * 1024 * 1024);
    for text in
        ["", "\u{0}", "- a\n- b\n", "a: [\n", "\u{feff}", "just text", "a: *b", large.as_str()]
    {
        let mut child = program("bart", folder.path())
            .args(["validate", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let output = child.wait_with_output().unwrap();
        let shown: String = text.chars().take(20).collect();
        assert_eq!(output.status.code(), Some(1), "{shown:?}: {}", said(&output));
        assert!(said(&output).contains("<stdin>:"), "{shown:?}: {}", said(&output));
    }
}

#[test]
fn every_command_has_help() {
    let folder = folder::temporary();
    for (name, commands) in [
        (
            "bart",
            &[
                "validate", "render", "explain", "schema", "status", "history", "logs", "open",
                "remove",
            ][..],
        ),
        ("the-deployer", &["serve", "demo", "init", "config"]),
    ] {
        for command in commands {
            let output = program(name, folder.path()).args([command, "--help"]).output().unwrap();
            assert!(output.status.success());
            assert!(said(&output).lines().count() > 8, "{name} {command}: {}", said(&output));
        }
    }
}

#[test]
fn a_configuration_is_checked_with_the_place_of_every_mistake() {
    let folder = folder::temporary();
    std::fs::write(folder.path().join("c.yaml"), "server:\n  lisen: x\nclusters: 3\n").unwrap();
    let output = program("the-deployer", folder.path())
        .args(["config", "check", "--config", "c.yaml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    for part in ["c.yaml:2:3", "did you mean `listen`", "c.yaml:3:11"] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    let none = program("the-deployer", folder.path()).args(["config", "check"]).output().unwrap();
    assert_eq!(none.status.code(), Some(0), "{}", said(&none));
    let schema =
        program("the-deployer", folder.path()).args(["config", "schema"]).output().unwrap();
    assert!(
        serde_json::from_slice::<serde_json::Value>(&schema.stdout).unwrap()["properties"]
            .is_object()
    );
}

#[test]
fn a_secret_is_never_printed_not_even_as_the_line_it_stands_on() {
    let folder = folder::temporary();
    let secret = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS".repeat(2));
    let waml = format!(
        "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndeploy:\n  t:\n    env: [{{name: A, value: {secret}}}]\n"
    );
    std::fs::write(folder.path().join(".weave.yaml"), waml).unwrap();
    for format in ["text", "json"] {
        let output = bart(folder.path(), &["validate", "--output", format]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("plaintext") && !text.contains(&secret), "{text}");
    }
}
