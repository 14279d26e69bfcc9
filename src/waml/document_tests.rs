use super::*;

/// The example of the source document and of the design, as they stand.
pub(crate) const EXAMPLE: &str = include_str!("../../tests/pipeline/example/waml.yaml");

fn parse_violations(text: &str) -> Vec<String> {
    let violations = match Waml::parse(".weave.yaml", text.as_bytes()) {
        Ok(waml) => waml.violations,
        Err(rejection) => rejection.violations,
    };
    violations.iter().map(ToString::to_string).collect()
}

const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\n";

#[test]
fn the_examples_are_read_as_they_stand() {
    for text in [EXAMPLE, include_str!("../../tests/pipeline/source-document/waml.yaml")] {
        let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
        assert_eq!(waml.violations, []);
        assert_eq!(waml.app.to_string(), "devx/my-app");
        assert_eq!(waml.slack.as_deref(), Some("#squad-devx"));
        assert_eq!(waml.defaults.len(), 1);
        assert_eq!(waml.targets(), [&TargetName::parse("prod-cluster-1").unwrap()]);
    }
}

#[test]
fn a_team_hears_of_successes_where_it_asks_for_them() {
    let parse_notify = |notify: &str| {
        Waml::parse(".weave.yaml", format!("{HEAD}{notify}deploy: {{prod: {{}}}}\n").as_bytes())
            .unwrap()
    };
    assert!(!parse_notify("").successes && !parse_notify("notify: {}\n").successes);
    assert!(!parse_notify("notify: {success: false}\n").successes);
    let waml = parse_notify("notify: {success: true}\n");
    assert!(waml.successes && waml.violations.is_empty());
    let waml = parse_notify("notify: {sucess: true, success: often}\n");
    assert!(!waml.successes);
    assert_eq!(waml.violations[0].help.as_deref(), Some("did you mean `success`?"));
    assert_eq!(
        waml.violations[1].to_string(),
        ".weave.yaml:6:33: `notify.success` must be `true` or `false`, but `often` is not a boolean [schema]"
    );
}

#[test]
fn all_violations_are_told_at_once_each_at_its_place() {
    let text = format!(
        "{HEAD}colour: red\ndefaults:\n- service: []\ndeploy:\n  prod:\n    sevrice: []\n    scaling: {{replicas: many}}\n    ingress: {{}}\n"
    );
    assert_eq!(
        parse_violations(&text),
        [
            ".weave.yaml:6:1: the file has no key `colour` [unknown-key]",
            ".weave.yaml:8:3: `match` is missing from `defaults[0]` [schema]",
            ".weave.yaml:11:5: `deploy.prod` has no key `sevrice` [unknown-key]",
            ".weave.yaml:12:25: `deploy.prod.scaling.replicas` must be a whole number from 0 to 10000, but `many` is not a whole number [schema]",
            ".weave.yaml:13:14: `deploy.prod.ingress` must be a list, but this is a map [schema]",
        ]
    );
}

#[test]
fn yaml_1_1_traps_keep_their_spelling_where_text_is_wanted() {
    let env = ["on", "yes", "017", "1_000", "1.10", "12:30", "2024-01-01", "0x1F", "true", "1e3"];
    let list: String = env
        .iter()
        .enumerate()
        .map(|(n, v)| format!("    - {{name: E{n}, value: {v}}}\n"))
        .collect();
    let text = format!("{HEAD}deploy:\n  prod:\n    env:\n{list}");
    let waml = Waml::parse("f", text.as_bytes()).unwrap();
    assert_eq!(waml.violations, []);
    let (_, prod) = waml.deploy.first().unwrap();
    for (n, value) in env.iter().enumerate() {
        let path = Path::root().key("env").index(n).key("value");
        assert_eq!(prod.at(&path).unwrap().as_text(), Some(*value));
    }
}

#[test]
fn a_header_that_names_no_app_is_refused_whole() {
    for (line, message) in [
        ("slug: ../../x", "`slug` must be a slug, but `../../x` is not well formed"),
        ("slug: [a]", "`slug` must be a slug, but this is a list"),
        ("slug:", "`slug` must be a slug, but this is empty"),
    ] {
        let text = format!("{}deploy: {{}}\n", HEAD.replace("slug: a", line));
        assert!(parse_violations(&text)[0].contains(message), "{:?}", parse_violations(&text));
        assert!(Waml::parse("f", text.as_bytes()).is_err());
    }
    assert!(parse_violations("just text")[0].contains("must be a map"));
    assert!(parse_violations("- a\n- b\n")[0].contains("must be a map"));
    assert!(
        parse_violations(&format!("{HEAD}deploy:\n  a/b: {{}}\n"))[0]
            .contains("the key `a/b` is not well formed")
    );
    assert!(
        parse_violations(&format!("{}deploy: {{}}\n", HEAD.replace("\"2\"", "1")))[0]
            .contains("`schema` must be `2`, but `1`")
    );
}

#[test]
fn a_name_stands_once_in_a_list() {
    let text = format!(
        "{HEAD}deploy:\n  prod:\n    env: [{{name: A, value: 1}}, {{name: A, value: 2}}]\n    service: [{{}}, {{name: a}}]\n"
    );
    assert_eq!(
        parse_violations(&text),
        [
            ".weave.yaml:8:39: `deploy.prod.env` has `A` twice [unique]",
            ".weave.yaml:9:26: `deploy.prod.service` has `a` twice [unique]",
        ]
    );
}

#[test]
fn every_keyword_of_the_published_schema_is_one_that_is_checked() {
    assert_eq!(crate::waml::schema::unknown_keywords(&json_schema()), Vec::<String>::new());
}

#[test]
fn a_hostile_glob_is_refused_and_panics_nowhere() {
    for glob in [
        "?".repeat(200_000),
        format!("{}{}", "{a,".repeat(80), "}".repeat(80)),
        "[".to_owned(),
        "{a".to_owned(),
    ] {
        let text = format!("{HEAD}defaults: [{{match: '{glob}'}}]\ndeploy: {{prod: {{}}}}\n");
        let _ = parse_violations(&text);
    }
    let long =
        format!("{HEAD}defaults: [{{match: '{}'}}]\ndeploy: {{prod: {{}}}}\n", "?".repeat(300));
    assert_eq!(
        parse_violations(&long),
        [".weave.yaml:6:20: `match` is not a glob: it has more than 256 characters [schema]"]
    );
}

#[test]
fn lists_of_text_are_no_lists_of_things() {
    let text = format!("{HEAD}deploy: {{prod: {{vault: {{paths: [secret/a, secret/b]}}}}}}\n");
    assert_eq!(parse_violations(&text), Vec::<String>::new());
}

#[test]
fn a_hostile_key_does_not_break_the_message() {
    let text = format!("{HEAD}deploy: {{prod: {{labels: {{\"a\\nb\\e[2J\": [1]}}}}}}\n");
    assert!(
        parse_violations(&text)[0].contains("a\\nb\\u{1b}[2J"),
        "{:?}",
        parse_violations(&text)
    );
    assert!(!parse_violations(&text)[0].contains('\n'));
}

#[test]
fn what_a_file_lacks_is_told_once() {
    assert_eq!(
        parse_violations(&format!("{HEAD}deploy: {{prod: {{env: [{{value: x}}]}}}}\n")),
        [".weave.yaml:6:23: `name` is missing from `deploy.prod.env[0]` [schema]"]
    );
}

#[test]
fn editors_may_write_numbers_where_text_is_wanted() {
    let schema = json_schema();
    let surge = &schema.as_value()["$defs"]["Scaling"]["properties"]["maxSurge"]["type"];
    assert_eq!(*surge, serde_json::json!(["string", "number", "boolean", "null"]));
}

fn hints(text: &str) -> Vec<(String, String)> {
    let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
    assert!(!waml.is_broken(), "{:?}", waml.violations);
    waml.violations.iter().map(|v| (v.to_string(), v.help.clone().unwrap_or_default())).collect()
}

#[test]
fn a_value_that_is_only_a_comment_is_told() {
    let text = format!("{HEAD}slack: #squad-devx\ndeploy:\n  t: {{}}\n");
    assert_eq!(
        hints(&text),
        [(
            ".weave.yaml:6:1: `slack` is empty: `#squad-devx` is a comment [ignored]".to_owned(),
            "quote the value: `slack: \"#squad-devx\"`".to_owned()
        )]
    );
    let inner = format!("{HEAD}deploy:\n  t:\n    labels:\n      \"é\":   #1 is first\n");
    assert!(hints(&inner)[0].0.contains("`#1 is first` is a comment"), "{:?}", hints(&inner));
    // A comment for people, and nothing at all.
    for fine in [
        "slack: # none\n",
        "slack:\n",
        "slack: null #squad\n",
        "slack: \"#squad\"\n",
        "slack: ## x\n",
        "slack: #-----\n",
    ] {
        assert_eq!(hints(&format!("{HEAD}{fine}deploy:\n  t: {{}} #x\n")), [], "{fine}");
    }
}

/// A password that begins with `#` and was not quoted is no word for a message.
#[test]
fn a_comment_that_was_meant_as_a_secret_is_not_shown() {
    let text = format!(
        "{HEAD}deploy:\n  t:\n    env:\n    - name: DB_PASSWORD\n      value: #Pa55w0rd!\n    \
         labels:\n      dbPassword: #Pa55w0rd!\n"
    );
    let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
    let ignored_values: Vec<_> =
        waml.violations.iter().filter(|violation| violation.rule == "ignored").collect();
    assert_eq!(ignored_values.len(), 2, "{:?}", waml.violations);
    for violation in ignored_values {
        assert!(
            violation.message.ends_with("is empty: the text after it is a comment"),
            "{violation}"
        );
        assert_eq!(violation.help.as_deref(), Some("quote the value"));
    }
    assert!(!format!("{:?}", waml.violations).contains("Pa55w0rd"));
}

/// In these places a comment may have been meant as a value, too; quoting it would make a right file a wrong one.
#[test]
fn a_comment_where_no_text_is_wanted_is_told_with_the_line_to_write() {
    let space = "a comment for people has a space behind its `#`";
    for (section, path, comment, line) in [
        ("  public: #true\n", "ingress[0].public", "#true", "public: true"),
        ("  public: #no\n", "ingress[0].public", "#no", "public: false"),
        ("command: #foo\n", "command", "#foo", "command: [foo]"),
        (
            "resources: #foo\n",
            "resources",
            "#foo",
            "resources: {requests: {cpu: 100m, memory: 256Mi}}",
        ),
        ("scaling:\n    replicas: #4\n", "scaling.replicas", "#4", "replicas: 4"),
        ("probes:\n    liveness: #off\n", "probes.liveness", "#off", "liveness: {path: /healthz}"),
    ] {
        let section = match section.strip_prefix("  ") {
            Some(ingress) => format!("  ingress:\n  - hostPrefix: a\n    {ingress}"),
            None => format!("  {section}"),
        };
        let text = format!("{HEAD}defaults:\n- match: '*'\n{section}deploy:\n  t: {{}}\n");
        let hints_found = hints(&text);
        assert_eq!(hints_found.len(), 1, "{hints_found:?}");
        let (message, help) = &hints_found[0];
        let ending = format!("`defaults[0].{path}` is empty: `{comment}` is a comment [ignored]");
        assert!(message.ends_with(&ending), "{message}");
        assert_eq!(*help, format!("write it without `#`: `{line}`; {space}"));
    }
    let hints_found = hints(&format!(
        "{HEAD}deploy:\n  t:\n    command: #mysql -phunter2\n    secrets: #hunter2\n"
    ));
    assert_eq!(hints_found.len(), 2, "{hints_found:?}");
    assert!(!format!("{hints_found:?}").contains("hunter2"), "{hints_found:?}");
    for line in ["args: #--port=80", "env: #- {name: A, value: b}", "labels: #{a: b}"] {
        assert_eq!(hints(&format!("{HEAD}deploy:\n  t:\n    {line}\n")).len(), 1, "{line}");
    }
    // A target without settings says all that it has to.
    assert_eq!(hints(&format!("{HEAD}deploy:\n  t: #same as prod\n")), []);
}

#[test]
fn defaults_for_no_target_are_told() {
    let text = format!(
        "{HEAD}defaults:\n- match: 'prdo-*'\n  scaling: {{replicas: 2}}\n- match: '{{a,prod-1}}'\ndeploy:\n  prod-1: {{}}\n  dev: {{}}\n"
    );
    assert_eq!(
        hints(&text),
        [(
            ".weave.yaml:7:10: `prdo-*` matches no target of this app [ignored]".to_owned(),
            "the targets are `prod-1` and `dev`; did you mean `prod-1`?".to_owned()
        )]
    );
    // Of targets that cannot be read nobody knows whether one would match.
    let text_with_error =
        format!("{HEAD}defaults:\n- match: 'a'\ndeploy:\n  A B: {{}}\n  b: {{}}\n");
    assert_eq!(
        parse_violations(&text_with_error).len(),
        1,
        "{:?}",
        parse_violations(&text_with_error)
    );
}

/// Each message shows a line that could stand in its place.
#[test]
fn what_to_write_is_shown_as_a_line() {
    let help = |section: &str| -> Vec<String> {
        let text = format!("{HEAD}deploy:\n  t:\n{section}");
        let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
        waml.violations.iter().map(|v| v.help.clone().unwrap_or_default()).collect()
    };
    for (section, line) in [
        (
            "    scaling: {replicas: 4 pods}\n",
            "write a whole number from 0 to 10000: `replicas: 4`",
        ),
        ("    scaling: {replicas: many}\n", "write a whole number from 0 to 10000: `replicas: 3`"),
        ("    service: {ports: []}\n", "write a list: `service: [{ports: []}]`"),
        (
            "    service: {ports: [{name: http, number: 80}]}\n",
            "write a list: `service: [{ports: [{name: http, number: 80}]}]`",
        ),
        (
            "    service: {web: 80}\n",
            "write a list: `service: [{ports: [{name: web, number: 80}]}]`",
        ),
        ("    service: [{ports: [80]}]\n", "write a map: `- {name: http, number: 80}`"),
        ("    service: 80\n", "write a list: `service: [{ports: [{name: http, number: 80}]}]`"),
        ("    env: [A]\n", "write a map: `- {name: A, value: …}`"),
        ("    env: [A=b]\n", "write a map: `- {name: A, value: …}`"),
        (
            "    env: {A: b, C: d}\n",
            "write a list: `env: [{name: A, value: …}, {name: C, value: …}]`",
        ),
        ("    env: [{A: b}]\n", "write `- {name: A, value: …}`"),
        ("    secrets: [db]\n", "write a map: `- {name: db}`"),
        (
            "    volumes: {data: /data}\n",
            "write a list: `volumes: [{name: data, mountPath: /data}]`",
        ),
        (
            "    image: ghcr.io/acme/app:1.2\n",
            "write a map: `image: {repository: ghcr.io/acme/app}`; the tag comes with each deployment",
        ),
        (
            "    image: nginx:1.2\n",
            "write a map: `image: {repository: nginx}`; the tag comes with each deployment",
        ),
        ("    image: {tag: 1.2}\n", "remove it: the tag comes with each deployment"),
        ("    command: run me\n", "write a list: `command: [run, me]`"),
        ("    command: sh -c 'a b'\n", "write a list: `command: [/bin/app, serve]`"),
        ("    vault: {paths: devx/*}\n", "write a list: `paths: [devx/*]`"),
        ("    ingress: a.example.com\n", "write a list: `ingress: [{host: a.example.com}]`"),
        ("    scaling: 3\n", "write a map: `scaling: {replicas: 3}`"),
        ("    cron: '@daily'\n", "write a map: `cron: {schedule: \"@daily\"}`"),
        ("    redis: true\n", "write a map: `redis: {}`"),
        ("    database: postgres\n", "write a map: `database: {engine: postgres}`"),
        (
            "    probes: /ok\n",
            "write a map: `probes: {liveness: {path: /ok}, readiness: {path: /ok}}`",
        ),
        ("    labels: [a]\n", "write a map: `labels: {team: devx}`"),
        ("    slo: 99,9\n", "write a map: `slo: {availability: 99.9}`"),
        (
            "    slo: {availability: 99,9}\n",
            "the comma begins another key; write a decimal point: `availability: 99.9`",
        ),
        ("    slo: {availability: '99,9 %'}\n", "write a number: `availability: 99.9`"),
        (
            "    ingress: [{hostPrefix: a, public: yes}]\n",
            "write `true` or `false`: `public: true`",
        ),
        ("    replicas: 7\n", "it belongs further down: `scaling: {replicas: 7}`"),
        ("    replica: 7\n", "it belongs further down: `scaling: {replicas: 7}`"),
        ("    memory: 3\n", "it belongs further down: `resources: {requests: {memory: 256Mi}}`"),
        ("    memory: 1Gi\n", "it belongs further down: `resources: {requests: {memory: 1Gi}}`"),
        ("    resources: {memory: 1Gi}\n", "it belongs further down: `requests: {memory: 1Gi}`"),
        ("    ports: [8000]\n", "write a map: `- {name: http, number: 8000}`"),
        (
            "    port: 9000\n",
            "it belongs further down: `service: [{ports: [{name: http, number: 9000}]}]`",
        ),
        (
            "    host: a.example.com\n",
            "it belongs further down: `ingress: [{host: a.example.com}]`",
        ),
        (
            "    size: 1Gi\n",
            "it belongs further down: `volumes: [{name: data, mountPath: /data, size: 1Gi}]`",
        ),
        ("    slug: x\n", "it belongs to the top of the file: `slug: x`"),
        (
            "    servicePort: 80\n",
            "it belongs further down: `ingress: [{hostPrefix: my-app, paths: [{servicePort: 80}]}]`",
        ),
        (
            "    colour: red\n",
            "remove it, or look for the right word in the documentation of this file",
        ),
    ] {
        assert_eq!(help(section), [line], "{section}");
    }
    for section in [
        "    env: {DB_PASSWORD: hunter2}\n",
        "    env: [DB_PASSWORD=hunter2]\n",
        "    env: [{DB_PASSWORD: hunter2}]\n",
        "    value: hunter2\n",
        "    service: [{dbPassword: hunter2}]\n",
        "    volumes: {password: hunter2}\n",
        "    dbPassword: hunter2\n",
    ] {
        assert!(!format!("{:?}", help(section)).contains("hunter2"), "{section}");
    }
    // The key that was meant is not missing.
    assert_eq!(help("    env: [{nmae: A, value: x}]\n"), ["did you mean `name`?"]);
}

#[test]
fn targets_that_are_one_name_in_kubernetes_are_refused() {
    let text = |deploy: &str| {
        format!("schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndeploy:\n{deploy}")
    };
    let violations_of = |deploy: &str| -> Vec<String> {
        let waml = Waml::parse(".weave.yaml", text(deploy).as_bytes()).unwrap();
        waml.violations.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        violations_of("  Prod_EU: {}\n  dev: {}\n  prod-eu: {}\n"),
        [".weave.yaml:9:3: `Prod_EU` and `prod-eu` are one name in Kubernetes [unique]"]
    );
    assert_eq!(violations_of("  Prod_EU: {}\n  prod-us: {}\n"), [""; 0]);
}

#[test]
fn the_last_layer_that_has_the_key_names_the_files_of_a_target() {
    let text = "schema: \"2\"\nname: A\nslug: a\nowner: a@example.com\nnamespace: n\ndefaults:\n\
                - {match: \"*\", manifests: [a.yaml, ../no.yaml, a.yaml]}\n\
                - {match: \"b*\", manifests: [b.yaml]}\n\
                deploy:\n  a1: {}\n  b1: {}\n  b2: {manifests: null}\n  b3: {manifests: [c.yaml]}\n";
    let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
    for (target, paths) in
        [("a1", vec!["a.yaml"]), ("b1", vec!["b.yaml"]), ("b2", vec![]), ("b3", vec!["c.yaml"])]
    {
        assert_eq!(waml.extra_paths_of(&TargetName::parse(target).unwrap()), paths, "{target}");
    }
    assert_eq!(waml.extra_paths(), ["a.yaml", "b.yaml", "c.yaml"]);
}

#[test]
fn all_files_of_all_targets_are_listed_however_many_they_are() {
    let list = |target: usize| (0..9).map(move |n| format!("k8s/{target:02}-{n}.yaml"));
    let target = |target: usize| {
        let paths: Vec<String> = list(target).collect();
        format!("  t-{target:02}: {{manifests: [{}]}}\n", paths.join(", "))
    };
    let deploy: String = (0..25).map(target).collect();
    let text = format!(
        "schema: \"2\"\nname: A\nslug: a\nowner: a@example.com\nnamespace: n\ndeploy:\n{deploy}"
    );
    let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
    assert_eq!(waml.extra_paths(), (0..25).flat_map(list).collect::<Vec<_>>());
}
