//! `action.yml` as GitHub reads it, and what its README says.

use std::process::Command;

use crate::action::job::{action, folder};

#[test]
fn it_is_a_composite_action_with_all_that_one_needs() {
    let action = action();
    for key in ["name", "description"] {
        assert!(!action[key].as_str().unwrap().is_empty(), "{key}");
    }
    for (name, input) in action["inputs"].as_object().unwrap() {
        assert!(!input["description"].as_str().unwrap().is_empty(), "{name}");
        // GitHub itself does not hold anybody to `required`; the script does.
        assert_eq!(input["default"].is_string(), input["required"] != true, "{name}");
    }
    assert_eq!(action["runs"]["using"], "composite");
    let steps = action["runs"]["steps"].as_array().unwrap();
    let [step] = steps.as_slice() else { panic!("one step: {steps:?}") };
    assert_eq!(step["shell"], "bash", "a composite step must say its shell");
    for (name, output) in action["outputs"].as_object().unwrap() {
        let value = format!("${{{{ steps.{}.outputs.{name} }}}}", step["id"].as_str().unwrap());
        assert_eq!(output["value"], value.as_str());
    }
}

#[test]
fn inputs_are_data_each_is_handed_over_once_and_none_is_written_into_the_script() {
    let action = action();
    let step = &action["runs"]["steps"][0];
    assert!(!step["run"].as_str().unwrap().contains("${{"));
    let env = step["env"].as_object().unwrap();
    let inputs = action["inputs"].as_object().unwrap();
    assert_eq!(env.len(), inputs.len());
    for name in inputs.keys() {
        let variable = format!("INPUT_{}", name.to_uppercase().replace('-', "_"));
        assert_eq!(env[&variable], format!("${{{{ inputs.{name} }}}}").as_str());
    }
}

#[test]
fn the_readme_has_every_input_and_its_workflow_uses_no_other() {
    let action = action();
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let inputs = action["inputs"].as_object().unwrap();
    for name in inputs.keys() {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    let workflow = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let workflow: serde_json::Value = serde_yaml::from_str(workflow).unwrap();
    let job = &workflow["jobs"]["deploy"];
    let step = job["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(step["uses"], "./actions/deploy/", "as everybody knows it");
    for name in step["with"].as_object().unwrap().keys() {
        assert!(inputs.contains_key(name), "{name}");
    }
    let required = inputs.iter().filter(|(_, input)| input["required"] == true);
    for (name, _) in required {
        assert!(step["with"].get(name).is_some(), "{name}");
    }
    assert_eq!(job["permissions"]["deployments"], "write");
}

#[test]
fn the_scripts_are_bash() {
    for name in ["deploy.sh", "github.sh"] {
        let read = Command::new("bash").arg("-n").arg(folder().join(name)).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    }
}
