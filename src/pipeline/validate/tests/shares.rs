//! Live versions: how much traffic each gets.

use super::check_section;

const NONE: [&str; 0] = [];

#[test]
fn live_versions_share_all_of_the_traffic() {
    let versions = |text: &str| {
        let mut messages = check_section(&format!("    versions: [{text}]\n"));
        messages.retain(|line| !line.contains("[unused]"));
        messages
    };
    assert_eq!(versions("{name: a, weight: 90}, {name: b, tag: '2', weight: 10}"), NONE);
    assert_eq!(versions("{name: a}"), NONE);
    assert_eq!(
        versions("{name: a, weight: 90}, {name: b, weight: 20}"),
        ["8:5: the weights add up to 110, not 100 [versions]"]
    );
    assert_eq!(
        versions("{name: a, weight: 100}, {name: b}"),
        ["8:40: this version does not say how much traffic it gets [versions]"]
    );
    assert_eq!(
        versions("{name: A, weight: 50}, {name: a, weight: 25}, {name: a, tag: 'x y', weight: 25}"),
        [
            "8:23: `A` is not a legal name [versions]",
            "8:69: `versions[1]` has this name already [versions]",
            "8:77: `deploy.t.versions[2].tag` must be an image tag, but `x y` is not well formed [schema]",
        ]
    );
    assert_eq!(
        check_section("    versions: [{name: a}]\n    canary: {}\n")
            .into_iter()
            .filter(|line| line.contains("[versions]"))
            .collect::<Vec<_>>(),
        ["8:5: an app has a canary or versions, not both [versions]"]
    );
}

/// Returns the expression of the alert for an app without a pod that can be asked.
fn without_replicas(slug: &str, section: &str) -> String {
    let head = super::HEAD.replace("slug: a", &format!("slug: {slug}"));
    let rendered = super::plan_of(&format!("{head}deploy:\n  t:\n{section}")).unwrap();
    let file = rendered.files.iter().find(|file| file.name == "prometheusrule.yaml").unwrap();
    let rules: super::Json = serde_yaml::from_slice(&file.bytes).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap().iter();
    let mut rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let rule = rules.find(|rule| rule["alert"] == "NoReplicasAvailable").unwrap();
    rule["expr"].as_str().unwrap().to_owned()
}

#[test]
fn an_app_without_pods_is_noticed_whatever_runs_them() {
    for (section, deployments) in [
        ("    scaling: {replicas: 2}\n", r#"deployment="a""#),
        (
            "    canary: {stepWeight: 50, maxWeight: 50, interval: 1m}\n    service: [{ports: [{name: http, number: 8000}]}]\n    autoscaling: {horizontal: {minReplicas: 2, maxReplicas: 4, cpu: {averageUtilization: 75}}}\n",
            r#"deployment=~"a(-primary)?""#,
        ),
        (
            "    versions: [{name: blue, weight: 50}, {name: green, weight: 50}]\n",
            r#"deployment=~"a|a-blue|a-green""#,
        ),
    ] {
        let expression = without_replicas("a", section);
        assert_eq!(expression.matches(deployments).count(), 2, "{deployments}: {expression}");
    }
}

#[test]
fn an_app_with_a_long_slug_may_have_versions() {
    let slug = "s".repeat(60);
    let section = "    versions: [{name: blue, weight: 50}, {name: green, weight: 50}]\n";
    let expression = without_replicas(&slug, section);
    let names = expression.split_once("deployment=~\"").unwrap().1.split_once('"').unwrap().0;
    let names: Vec<&str> = names.split('|').collect();
    assert_eq!(names.len(), 3);
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert!(distinct.len() == 3 && names.iter().all(|name| name.len() == 46), "{names:?}");
    // The pods of each are measured.
    let text = format!(
        "{}deploy:\n  t:\n{section}",
        super::HEAD.replace("slug: a", &format!("slug: {slug}"))
    );
    let rendered = super::plan_of(&text).unwrap();
    let file = rendered.files.iter().find(|file| file.name == "prometheusrule.yaml").unwrap();
    let rules = String::from_utf8_lossy(&file.bytes).into_owned();
    let pods = format!("pod=~\"({}|{}|{})-.+", names[0], names[1], names[2]);
    assert!(rules.replace("\\\"", "\"").contains(&pods), "{pods}: {rules}");
}
