use super::*;
use crate::model::facts::Facts;
use crate::model::id::{CommitSha, ImageTag, RepoName};
use crate::model::release::Release;
use crate::model::target::Clusters;
use crate::pipeline::{Input, plan};
use crate::templates::set::TemplateSet;
use crate::waml::Waml;

fn file(text: &str) -> TemplateFile {
    TemplateFile { path: "p.yaml".to_owned(), text: text.to_owned() }
}

/// Returns the violations of refused policies, with their help at the end.
fn refused(text: &str) -> Vec<String> {
    let violations = PolicySet::load(&[file(text)]).map(|_| ()).unwrap_err();
    let help = |v: &Violation| v.help.clone().unwrap_or_default();
    violations.iter().map(|v| format!("{v} → {}", help(v))).collect()
}

/// Checks a section for the target `prod-1` with a policy.
fn check_policy(policy: &str, section: &str) -> Vec<String> {
    let text = format!(
        "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\ndeploy:\n  prod-1: {section}\n"
    );
    let mut sources = crate::templates::sources::built_in();
    sources.policies = vec![file(policy)];
    let templates = TemplateSet::compile(&sources).unwrap_or_else(|e| panic!("{e}"));
    let input = Input {
        waml: Waml::parse(".weave.yaml", text.as_bytes()).unwrap().into(),
        target: TargetName::parse("prod-1").unwrap(),
        fleet: None,
        release: Release {
            repository: RepoName::parse("o/a").unwrap(),
            app: None,
            commit: CommitSha::parse("0".repeat(40)).unwrap(),
            tag: ImageTag::parse("1").unwrap(),
        },
        templates: templates.into(),
    };
    let facts = Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, Clusters::any());
    let violations = match plan(&input, &facts) {
        Ok(rendered) => rendered.warnings,
        Err(rejection) => rejection.violations,
    };
    violations.iter().map(|v| format!("{:?} {v}", v.severity)).collect()
}

/// Returns the violations of one expression.
fn judged(expression: &str, section: &str) -> Vec<String> {
    check_policy(&format!("- {{name: p, message: no, expression: {expression:?}}}\n"), section)
}

const NONE: [&str; 0] = [];
const NO: [&str; 1] = ["Error no [policy/p]"];

#[test]
fn an_expression_holds_or_does_not() {
    for (expression, section, holds) in [
        ("waml.scaling.replicas <= 3", "{}", true),
        ("waml.scaling.replicas <= 3", "{scaling: {replicas: 4}}", false),
        ("waml.image.registry == 'ghcr.io'", "{}", true),
        ("!has(waml.ingress) || waml.ingress.all(i, !i.public)", "{}", true),
        ("app.owner.endsWith('@b.c') && app.slug in ['a', 'b']", "{}", true),
        ("target.name.startsWith('prod-') && target.environment == 'development'", "{}", true),
        ("release.tag.matches('^[0-9]+$') && size(release.commit) == 40", "{}", true),
        ("objects.exists(o, o.kind == 'Deployment' && o.spec.replicas == 3)", "{}", true),
        (
            "objects.filter(o, o.kind == 'Deployment').all(d, d.spec.template.spec.containers.all(c, c.image.startsWith('ghcr.io/')))",
            "{}",
            true,
        ),
        ("objects.map(o, o.kind).exists_one(k, k == 'Service')", "{}", false),
        ("'a,b'.split(',').size() == 2 && 'X'.lowerAscii() == 'x'", "{}", true),
    ] {
        let expected: &[&str] = if holds { &NONE } else { &NO };
        assert_eq!(judged(expression, section), expected, "{expression}");
    }
}

#[test]
fn a_policy_is_for_its_targets_and_as_severe_as_it_says() {
    let policy = |more: &str| format!("name: p\nexpression: 'false'\nmessage: no\n{more}\n");
    assert_eq!(check_policy(&policy("targets: ['prod-*']"), "{}"), NO);
    assert_eq!(check_policy(&policy("targets: [dev-1, 'staging-*']"), "{}"), NONE);
    assert_eq!(check_policy(&policy("severity: warn"), "{}"), ["Warning no [policy/p]"]);
    assert_eq!(
        check_policy(&policy("path: scaling.replicas"), "{scaling: {replicas: 2}}"),
        ["Error .weave.yaml:7:32: no [policy/p]"]
    );
    assert_eq!(
        check_policy(
            &format!("---\n{}---\n{}", policy(""), policy("").replace(": p", ": q")),
            "{}"
        )
        .len(),
        2
    );
}

#[test]
fn what_cannot_be_applied_is_a_violation() {
    for (expression, why) in [
        ("waml.scaling.nope > 1", "there is no `nope`"),
        ("waml.image.registry", "it gives string, not true or false"),
        ("waml.scaling.replicas.startsWith('a')", "found no matching overload"),
        ("waml.env[7].name == 'A'", "there is no `env`"),
        (
            "objects.all(a, objects.all(b, objects.all(c, objects.all(d, [1,2,3,4,5,6,7,8,9,10].all(e, e > 0)))))",
            "loops",
        ),
    ] {
        if why == "loops" {
            assert!(
                refused(&format!("- {{name: p, message: no, expression: {expression:?}}}\n"))[0]
                    .contains("more than 4 loops")
            );
            continue;
        }
        let messages = judged(expression, "{}");
        assert_eq!(messages.len(), 1, "{expression}: {messages:?}");
        assert!(
            messages[0].contains("the policy `p` cannot be applied") && messages[0].contains(why),
            "{messages:?}"
        );
    }
}

#[test]
fn loops_have_an_end() {
    let many: Vec<String> = (0..100).map(|n| format!("{{name: V{n}, value: x}}")).collect();
    let section = format!("{{env: [{}]}}", many.join(", "));
    let expression =
        "waml.env.all(a, waml.env.all(b, waml.env.all(c, waml.env.all(d, a.value == d.value))))";
    let messages = judged(expression, &section);
    assert!(messages[0].contains("its loops take more than 100000 turns"), "{messages:?}");
    assert_eq!(judged("waml.env.all(a, waml.env.all(b, a.value == b.value))", &section), NONE);
}

/// Each would take gigabytes or hours.
#[test]
fn no_expression_takes_all_memory_or_time() {
    let many: Vec<String> = (0..100).map(|n| format!("{{name: V{n}, value: x}}")).collect();
    let section = format!("{{env: [{}]}}", many.join(", "));
    let doubling = |start: &str, step: &str| format!("[{start}]{}.size() == 0", step.repeat(10));
    for expression in [
        doubling("'aaaaaaaaaaaaaaaa'", ".map(x, x + x + x + x + x + x + x + x)"),
        doubling("b'aaaaaaaaaaaaaaaa'", ".map(x, x + x + x + x + x + x + x + x)"),
        doubling("1", ".map(x, [x, x, x, x, x, x])"),
        doubling("[1, 2]", ".map(x, x + x + x + x + x + x)"),
        doubling("1", ".map(x, {1: x, 2: x, 3: x, 4: x, 5: x})"),
        "waml.env.all(a, waml.env.all(b, waml.env == waml.env))".to_owned(),
        "waml.env.map(a, waml.env.map(b, waml.env.map(c, waml.env))) == []".to_owned(),
    ] {
        let messages = judged(&expression, &section);
        assert_eq!(messages.len(), 1, "{expression}");
        let is_stopped = messages[0].contains("values of more than 16777216 bytes")
            || messages[0].contains("more than 100000 turns");
        assert!(is_stopped, "{expression}: {messages:?}");
    }
}

/// Returns a section with so many variables, the first of which has a long value.
fn variables(count: usize, length: usize) -> String {
    let rest = (1..count).map(|n| format!(", {{name: V{n}, value: x}}"));
    format!("{{env: [{{name: V0, value: {}}}{}]}}", "a".repeat(length), rest.collect::<String>())
}

/// Each holds, and takes seconds where nothing but turns and new values count.
#[test]
fn what_is_copied_evaluated_and_searched_counts() {
    let parts = "true && ".repeat(110) + "true";
    for (expression, expected, section) in [
        (
            "waml.env.all(a, waml.env.all(b, objects.all(o, true)))",
            "its loops run over values of more than 67108864 bytes",
            variables(90, 1),
        ),
        (
            &format!("waml.env.all(a, waml.env.all(b, {parts}))"),
            "its loops evaluate more than 2000000 parts",
            variables(120, 1),
        ),
        (
            &format!("waml.env.map(a, waml.env.map(b, {parts})).size() > 0"),
            "its loops evaluate more than 2000000 parts",
            variables(120, 1),
        ),
        (
            "waml.env.all(a, size(waml.env[0].value) > 0)",
            "values of more than 16777216 bytes",
            variables(100, 200_000),
        ),
        (
            "waml.env.all(a, !a.value.matches('^' + a.name + '$'))",
            "values of more than 16777216 bytes",
            variables(200, 1),
        ),
        (
            "waml.env.all(a, waml.env[0].value.matches('^a*$'))",
            "values of more than 16777216 bytes",
            variables(10, 200_000),
        ),
        (
            "waml.env[0].value.indexOf('b') == -1",
            "values of more than 16777216 bytes",
            variables(1, 200_000),
        ),
    ] {
        let messages = judged(expression, &section);
        assert_eq!(messages.len(), 1, "{expression}");
        assert!(messages[0].contains(expected), "{expression}: {messages:?}");
        assert!(messages[0].contains("the policy `p` cannot be applied"), "{messages:?}");
    }
}

#[test]
fn all_policies_of_a_plan_share_a_limit() {
    let policy = |n: usize| {
        let expression = "waml.env.all(a, size(waml.env[0].value) > 0)";
        format!("- {{name: p{n}, message: no, expression: '{expression}'}}\n")
    };
    let policies: String = (0..12).map(policy).collect();
    let messages = check_policy(&policies, &variables(70, 200_000));
    assert_eq!(messages.len(), 3, "eight times what one may cost: {messages:#?}");
    assert!(messages[0].contains("the policy `p9` cannot be applied"), "{messages:?}");
    assert!(messages[0].contains("together with the policies before it"), "{messages:?}");
}

#[test]
fn a_regular_expression_that_is_none_is_said_to_fail() {
    for expression in ["app.slug.matches('(')", "app.slug.matches('(a{1000}){1000}')"] {
        let messages = judged(expression, "{}");
        assert!(messages[0].contains("`matches` fails"), "{messages:?}");
    }
    assert_eq!(judged("matches(app.slug, '^a$') && 'ab'.matches('b')", "{}"), NONE);
}

#[test]
fn what_multiplies_texts_or_makes_them_of_numbers_is_no_function() {
    for call in [
        "'aa'.replace('a', 'aa') == ''",
        "['a', 'a'].join('aa') == ''",
        "'%.2000000000f'.format([1.0]) == ''",
        "lists.range(1000000).size() == 0",
        "strings.quote('a') == ''",
    ] {
        let messages = refused(&format!("- {{name: p, message: no, expression: {call:?}}}\n"));
        assert!(messages[0].contains("there is no "), "{call}: {messages:?}");
    }
    for name in ["@tick() == true", "@weigh(1) == 1", "@matches('a', 'a')"] {
        let messages = refused(&format!("- {{name: p, message: no, expression: {name:?}}}\n"));
        assert!(messages[0].contains("this is no CEL expression"), "{name}: {messages:?}");
    }
}

#[test]
fn a_broken_policy_is_refused_at_its_place() {
    let policy =
        |expression: &str| format!("- name: p\n  message: no\n  expression: {expression}\n");
    let place = |text: &str| {
        let messages = refused(text);
        assert_eq!(messages.len(), 1, "{messages:?}");
        let parts: Vec<String> = messages[0].splitn(4, ':').map(str::to_owned).collect();
        (format!("{}:{}", parts[1], parts[2]), parts[3].clone())
    };
    for (expression, at, expected) in [
        ("waml.env.all(e, x.name == 'a')", "3:31", "there is no variable `x`"),
        ("\"wml.env == 'a'\"", "3:16", "there is no variable `wml`"),
        ("waml.env.frobnicate('a')", "3:", "there is no function `frobnicate`"),
        ("waml.env ==", "3:26", "this is no CEL expression"),
        ("size(objects)", "3:15", "gives a number, not true or false"),
        ("objects.map(o, o.kind)", "3:15", "gives a list, not true or false"),
        ("|\n    true &&\n      nope", "5:7", "there is no variable `nope`"),
        ("|\n    true &&\n    )", "5:5", "this is no CEL expression"),
    ] {
        let (place_text, message) = place(&policy(expression));
        assert!(place_text.starts_with(at), "{expression}: {place_text}{message}");
        assert!(message.contains(expected), "{expression}: {message}");
    }
    for (text, expected) in [
        ("- {name: p, expression: 'true'}\n", "`message` is missing"),
        ("- {name: A b, expression: 'true', message: m}\n", "`A b` is no name for a policy"),
        ("- {name: a, expression: 'true', message: m, targets: ['[']}\n", "is not a glob"),
        ("- {name: a, expression: 'true', message: m, path: 'a..b'}\n", "not a path"),
        ("- {name: a, expression: 'true', message: m, extra: 1}\n", "has no key `extra`"),
        (
            "- {name: a, expression: 'true', message: m}\n- {name: a, expression: 'true', message: m}\n",
            "exists already: policies/p.yaml:1:10",
        ),
        ("a: [\n", "policies/p.yaml:"),
    ] {
        let messages = refused(text);
        assert!(messages[0].contains(expected), "{text}: {messages:?}");
    }
}

#[test]
fn a_set_with_a_broken_policy_is_not_taken() {
    let mut sources = crate::templates::sources::built_in();
    sources.policies = vec![file("- {name: p, message: no, expression: nope}\n")];
    let rejection = TemplateSet::compile(&sources).unwrap_err();
    assert_eq!(rejection.to_string(), "policies/p.yaml:1:38: there is no variable `nope` [policy]");
}

/// Neither what is refused nor what just passes may take all of a thread's stack: nothing could
/// catch that. Threads for blocking work have 2 MiB; here is half of that.
#[test]
fn no_expression_takes_the_stack_away() {
    let nested =
        |open: &str, n: usize, close: &str| format!("{}true{}", open.repeat(n), close.repeat(n));
    let chains =
        [("1", " + 1", 380), ("waml", ".a", 900), ("true", " && true", 240), ("waml", "[0]", 600)];
    let mut texts: Vec<String> =
        chains.iter().map(|(a, b, n)| format!("{a}{}", b.repeat(*n))).collect();
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("!", ""),
        ("-", ""),
        ("- ", ""),
        ("true ? ", " : true"),
        ("size([", "])"),
        ("{1: ", "}"),
    ] {
        for n in [8, 30, 200, 900] {
            texts.push(nested(open, n, close));
        }
    }
    for n in [4, 8, 11, 12, 13, 40] {
        for step in [".map(x, [x])", ".filter(x, true)", ".map(x, x > 0, x)"] {
            texts.push(format!("[1]{}.all(x, true)", step.repeat(n)));
        }
    }
    texts.push(format!("{} == 1", "waml.all(a, ".repeat(100)));
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(move || {
        let context =
            evaluate::PolicyContext::counting(cel::Context::with_env(expression::ENV.clone()));
        let compiled: Vec<_> = texts.iter().flat_map(|t| expression::compile(t)).collect();
        for expression in &compiled {
            let _ = context.ask(expression);
        }
        (texts.len() - compiled.len(), compiled.len())
    });
    let (refused_count, evaluated) = thread.unwrap().join().unwrap();
    assert!(refused_count > 20 && evaluated > 10, "{refused_count} {evaluated}");
}
