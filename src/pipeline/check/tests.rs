//! Sets of templates, and their violations.

use super::*;

const WAML: &str = "schema: \"2\"\nname: S\nslug: sample\nowner: a@example.com\nnamespace: s\ntemplate: t\n\
                    deploy:\n  dev:\n    service: [{ports: [{name: http, number: 80}]}]\n";
const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ app.slug }}\n";

fn file(path: &str, text: &str) -> TemplateFile {
    TemplateFile { path: path.to_owned(), text: text.to_owned() }
}

/// Builds the template `t`, with these defaults and one file with that text behind an object's head.
fn set(defaults: &str, body: &str) -> TemplateSources {
    let files = vec![
        file("t/defaults.yaml", defaults),
        file("t/latest/configmap.yaml.tmpl", &format!("{OBJECT}{body}")),
        file("t/samples/one.yaml", WAML),
    ];
    TemplateSources { files, ..TemplateSources::default() }
}

fn lint_sources(sources: &TemplateSources) -> Vec<String> {
    let report = templates(sources).unwrap();
    report.violations.iter().map(|v| format!("{}: {v}", severity(v))).collect()
}

fn severity(violation: &Violation) -> &'static str {
    if violation.is_error() { "error" } else { "warning" }
}

/// Returns the violations of a small template, without those about unused parts of the sample and about objects that
/// Kubernetes does not know.
fn of_template(defaults: &str, body: &str) -> Vec<String> {
    let lines = lint_sources(&set(defaults, body));
    lines
        .into_iter()
        .filter(|line| !line.ends_with("[unused]") && !line.ends_with("[kubernetes]"))
        .collect()
}

#[test]
fn what_is_right_is_counted_and_nothing_is_said() {
    let sources = set("", "data: {{ {\"a\": service[0].ports[0].name} | yaml }}\n");
    let report = templates(&sources).unwrap();
    assert_eq!(report.violations, []);
    let [template_report] = &report.templates[..] else { panic!("one") };
    assert_eq!(template_report.template, "t@latest");
    assert_eq!(
        (
            template_report.files,
            template_report.samples,
            template_report.targets,
            template_report.objects
        ),
        (1, 1, 1, 1)
    );
}

#[test]
fn names_that_nothing_gives_are_told_in_branches_that_no_sample_reaches() {
    let body = "{% if labels %}data: {a: {{ lables }}, b: {{ app.slig }}}{% endif %}";
    assert_eq!(
        of_template("", body),
        [
            "error: t/latest/configmap.yaml.tmpl:5:29: there is no `lables` [undefined]",
            "warning: t/latest/configmap.yaml.tmpl:5:46: `app.slig` may not exist: no sample has it, and no WAML can have it [undefined]",
        ]
    );
    let report = templates(&set("", body)).unwrap();
    assert!(!report.passes());
    let help: Vec<_> = report.violations.iter().filter_map(|v| v.help.as_deref()).collect();
    assert!(help.contains(&"did you mean `labels`?"), "{help:?}");
    assert!(help.contains(&"did you mean `slug`? Else add a sample that has it"), "{help:?}");
}

#[test]
fn names_that_templates_give_are_followed() {
    for body in [
        "{% for s in service %}{% for port in s.ports %}a: {{ port.name }}{% endfor %}{% endfor %}",
        "{% for key, value in labels or {} %}{{ key }}: {{ value }}{% endfor %}",
        "{% set first = service[0] %}a: {{ first.ports[0].target }}",
        "{% set text %}x{% endset %}a: {{ text }}",
        "a: {{ [p.name for p in service[0].ports] | length }}",
        "a: {{ [s.name for s in service if s.ports] | yaml }}",
        "a: {{ autoscaling?.horizontal?.minReplicas or 1 }}",
        "a: {{ env | length if env else 0 }}{# {{ nothing }} #}{% raw %}{{ nothing }}{% endraw %}",
        "a: {{ \"{{ nothing }}\" }}",
        "{% if target.platform.ingress.kind is defined and not app.slack is none %}{% endif %}",
        "a: {{ loop_like | default(value=app.slug) if false else app.name }}",
    ] {
        let lines = of_template("", body);
        let expected = usize::from(body.contains("loop_like"));
        assert_eq!(lines.len(), expected, "{body}: {lines:?}");
    }
    let wrong = of_template(
        "",
        "{% for s in service %}{% for p in s.ports %}a: {{ p.nam }}{% endfor %}{% endfor %}",
    );
    assert!(wrong[0].contains("`service[].ports[].nam`"), "{wrong:?}");
}

#[test]
fn components_see_what_they_are_given_and_nothing_else() {
    let component = "{% component pod(app, ports, release, labels = {}) %}{% for p in ports %}\
                     {{ p.target }}{{ p.tarjet }}{% endfor %}{{ app.slug }}{{ release.tag }}\
                     {{ labels.x }}{{ target.name }}{% endcomponent pod %}";
    let mut sources = set("", "data: {{ <pod app release ports={service[0].ports}/> | yaml }}\n");
    sources.components = vec![file("pod.yaml.tmpl", component)];
    let lines: Vec<_> =
        lint_sources(&sources).into_iter().filter(|l| l.contains("[undefined]")).collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let unseen = "components/pod.yaml.tmpl:1:91: `service[].ports[].tarjet` may not exist";
    assert!(lines[0].contains(unseen), "{lines:#?}");
    assert!(lines[1].contains("the component has no parameter `target`"), "{lines:#?}");
}

#[test]
fn a_component_that_calls_itself_comes_to_an_end() {
    let component =
        "{% component again(x) %}{% if x.y %}{{ <again x={x.y}/> }}{% endif %}{% endcomponent %}";
    let mut sources = set("", "data: {{ <again x={app}/> | yaml }}\n");
    sources.components = vec![file("again.yaml.tmpl", component)];
    assert!(lint_sources(&sources).iter().any(|line| line.contains("`app.y`")));
}

#[test]
fn defaults_that_no_file_reads_are_told_at_their_key() {
    let defaults =
        "scaling: {replicas: 2, maxSurge: 1}\nargs: [x]\nservice: {ports: {protocol: TCP}}\n";
    let body = "data: {a: {{ scaling.replicas ~ \"\" }}}{% for s in service %}{% for p in s.ports %}\
                \n# {{ p.protocol }}{% endfor %}{% endfor %}\n";
    assert_eq!(
        of_template(defaults, body),
        [
            "warning: t/defaults.yaml:1:24: no file of the template reads `scaling.maxSurge` [unused-default]",
            "warning: t/defaults.yaml:2:1: no file of the template reads `args` [unused-default]",
        ]
    );
}

#[test]
fn a_default_that_reaches_the_template_in_another_form_is_used() {
    // The registry becomes a part of the image's reference.
    let lines = of_template("image: {registry: ghcr.io}\n", "data: {a: {{ image.reference }}}\n");
    assert_eq!(lines, [""; 0]);
}

#[test]
fn samples_that_cannot_be_used_are_told() {
    let lint_sample = |text: &str| {
        let mut sources = set("", "");
        sources.files.pop();
        sources.files.push(file("t/samples/one.yaml", text));
        lint_sources(&sources)
    };
    let without_template = lint_sample(&WAML.replace("template: t\n", ""));
    assert!(
        without_template[0]
            .contains("the sample is in the folder of `t` and deploys with `backend-default`"),
        "{without_template:?}"
    );
    let without_targets =
        lint_sample(&WAML.replace(WAML.split("deploy:").nth(1).unwrap(), " {}\n"));
    assert!(
        without_targets.iter().any(|line| line.contains("no target under `deploy`")),
        "{without_targets:?}"
    );
    let with_error = lint_sample(&WAML.replace("number: 80", "number: many"));
    assert!(with_error.iter().any(|line| line.contains("t/samples/one.yaml:9:")), "{with_error:?}");
    let mut sources_without_sample = set("", "");
    sources_without_sample.files.pop();
    let lines = lint_sources(&sources_without_sample);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("warning: the template `t` has no sample"), "{lines:?}");
}

#[test]
fn a_sample_with_a_version_is_for_that_one_alone() {
    let mut sources = set("", "");
    sources.files.insert(1, file("t/old/configmap.yaml.tmpl", OBJECT));
    sources.files.push(file("t/samples/two.yaml", &WAML.replace("template: t", "template: t@old")));
    let report = templates(&sources).unwrap();
    let counts: Vec<_> =
        report.templates.iter().map(|c| (c.template.as_str(), c.targets)).collect();
    assert_eq!(counts, [("t@latest", 1), ("t@old", 2)]);
}

#[test]
fn what_a_sample_renders_is_judged_as_a_deployment_would_be() {
    let lines = of_template("", "---\nkind: ConfigMap\n");
    assert!(
        lines.iter().any(|line| line.starts_with("error: ") && line.ends_with("[rendered]")),
        "{lines:?}"
    );
}

#[test]
fn a_policy_without_a_path_is_told_with_the_sample_that_breaks_it() {
    let policy =
        "- {name: never, expression: \"size(objects) == 0\", message: there are objects}\n";
    let mut sources = set("", "data: {{ {\"a\": service[0].ports[0].name} | yaml }}\n");
    sources.policies = vec![file("never.yaml", policy)];
    let lines = lint_sources(&sources);
    assert_eq!(lines, ["error: t/samples/one.yaml:1:1: there are objects [policy/never]"]);
}

const PARAMETERS: &str = "parameters:\n  tier: {type: string}\n  disk: {type: object, properties: {size: {type: string}}}\n";

fn of_parameters(file_text: &str, body: &str) -> Vec<String> {
    let mut sources = set("", body);
    sources.files.push(file("t/parameters.yaml", file_text));
    let lines = lint_sources(&sources);
    lines
        .into_iter()
        .filter(|line| line.contains("parameter") || line.contains("declare"))
        .collect()
}

#[test]
fn a_parameter_is_declared_and_read_or_the_check_says_so() {
    let body = "data: {a: {{ parameters.tier }}, b: {{ parameters.disk?.size }}}";
    assert_eq!(of_parameters(PARAMETERS, body), Vec::<String>::new());
    let everything = "data: {{ parameters | yaml }}";
    assert_eq!(of_parameters(PARAMETERS, everything), Vec::<String>::new());
    // In a branch that no sample reaches, too.
    let body =
        "{% if labels %}data: {a: {{ parameters.teir }}, b: {{ parameters.disk.sise }}}{% endif %}";
    assert_eq!(
        of_parameters(PARAMETERS, body),
        [
            "error: t/latest/configmap.yaml.tmpl:5:29: the template declares no `parameters.teir` [undefined]",
            "error: t/latest/configmap.yaml.tmpl:5:55: the template declares no `parameters.disk.sise` [undefined]",
            "warning: t/parameters.yaml:2:3: no file of the template reads `parameters.tier` [unused-parameter]",
        ]
    );
    let report = templates(&TemplateSources {
        files: [set("", "").files, vec![file("t/parameters.yaml", PARAMETERS)]].concat(),
        ..TemplateSources::default()
    });
    assert_eq!(report.unwrap().templates[0].parameters, ["tier", "disk"]);
}

#[test]
fn a_read_of_a_parameter_of_a_template_without_any_is_refused() {
    let lines = of_template("", "data: {a: {{ parameters.tier }}}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("the template declares no `parameters.tier` [undefined]")),
        "{lines:?}"
    );
    let lines =
        TemplateSet::compile(&set("parameters: {tier: gold}\n", "")).unwrap_err().to_string();
    assert!(lines.contains("the defaults of parameters are not here"), "{lines}");
}
