//! `the-deployer validators`: every rule, and those of a company.

use std::path::Path;

use super::{program, said};

use crate::harness::folder;

fn validators(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = program("the-deployer", folder);
    command.arg("validators").args(arguments).output().unwrap()
}

/// A folder with the built-in templates and one policy.
fn company(policy: &str) -> tempfile::TempDir {
    let folder = folder::temporary();
    for file in the_deployer::templates::sources::built_in().files {
        let path = folder.path().join("apps").join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.text).unwrap();
    }
    for file in the_deployer::templates::sources::built_in().components {
        let path = folder.path().join("components").join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.text).unwrap();
    }
    std::fs::create_dir(folder.path().join("policies")).unwrap();
    std::fs::write(folder.path().join("policies/p.yaml"), policy).unwrap();
    folder
}

#[test]
fn every_rule_is_listed_with_what_it_checks_and_where_it_comes_from() {
    let folder = folder::temporary();
    let text = said(&validators(folder.path(), &[]));
    let list = the_deployer::pipeline::validate::RULES;
    for rule in list {
        for part in [rule.name, rule.about, rule.source] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
    assert!(text.ends_with(&format!("\n{} rules, 0 policies\n", list.len())), "{text}");
}

#[test]
fn a_companys_policies_are_listed_as_data() {
    let policy = "- {name: small, expression: size(objects) < 50, message: too much, targets: ['prod-*'], severity: warn}\n";
    let folder = company(policy);
    let output = validators(folder.path(), &["--templates", ".", "--output", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!([{
        "name": "policy/small", "message": "too much", "severity": "warning",
        "targets": ["prod-*"], "source": "policies/p.yaml:1:10",
    }]);
    assert_eq!(json["policies"], expected);
    let hosts = json["rules"].as_array().unwrap().iter().find(|r| r["name"] == "hosts").unwrap();
    assert_eq!((&hosts["severity"], &hosts["when"]), (&"both".into(), &"facts".into()));
}

#[test]
fn a_broken_policy_is_shown_at_its_place() {
    let folder = company("- {name: p, message: no, expression: wml.env == 1}\n");
    let output = validators(folder.path(), &["--templates", "."]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("error[policy]: there is no variable `wml`"), "{text}");
    assert!(
        text.contains("policies/p.yaml:1:38") && text.contains("did you mean `waml`?"),
        "{text}"
    );
}
