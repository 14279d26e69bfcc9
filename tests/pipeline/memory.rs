//! Tests that reading and planning a WAML within the limits takes little memory, however it is written.
//!
//! Aliases let a small file say a lot; what they multiply is tried by hand, in [`SHAPES`], and at
//! random. All is measured by the allocator, never by what is said of the file.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::sample::select;
use the_deployer::model::id::TargetName;
use the_deployer::model::template::TemplateFile;
use the_deployer::pipeline::Input;
use the_deployer::pipeline::plan;
use the_deployer::templates::set::TemplateSet;
use the_deployer::waml::{self, Waml};

use super::{facts, release};
use crate::harness::memory::{MIB, peak};

/// The largest file that is read, without configuration.
const LARGEST: usize = 256 * 1024;
/// Reading a WAML holds no more at once.
const READING: u64 = 64 * MIB;
/// Nor does planning it hold more: as many as there are processors are planned at once.
const PLANNING: u64 = 128 * MIB;

const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\n";

/// The head, a beginning, and as many pieces as fit.
fn filled(begin: &str, piece: impl Fn(usize) -> String, most: usize, end: &str) -> String {
    let mut text = format!("{HEAD}{begin}");
    for n in 0..most {
        let piece = piece(n);
        if text.len() + piece.len() + end.len() > LARGEST {
            break;
        }
        text.push_str(&piece);
    }
    text.push_str(end);
    text
}

/// Its name, how many pieces fit, and a file of so many.
type Shape = (&'static str, usize, fn(usize) -> String);

/// What small files are made large with: a name, how many pieces fit, and a file of so many.
const SHAPES: &[Shape] = &[
    ("aliases of a map with a very long key", 2000, |most| {
        let key = "k".repeat(190_000);
        filled(&format!("x: &a {{? {key} : 1}}\ndefaults: ["), |_| "*a, ".to_owned(), most, "]\n")
    }),
    ("aliases of a map with the longest key", 250, |most| {
        let key = "k".repeat(1000);
        filled(&format!("x: &a {{? {key} : 1}}\ndefaults: ["), |_| "*a, ".to_owned(), most, "]\n")
    }),
    ("aliases of a map with many keys", 30, |most| {
        let keys: String = (0..300).map(|n| format!("{}{n}: , ", "k".repeat(100))).collect();
        filled(&format!("x: &a {{{keys}}}\ny: ["), |_| "*a,".to_owned(), most, "]\n")
    }),
    ("aliases as keys", 1000, |most| {
        let key = "k".repeat(1000);
        filled(&format!("x: &a {key}\ny: ["), |_| "{*a : 1},".to_owned(), most, "]\n")
    }),
    ("an anchor at every key", 4900, |most| {
        filled("x: {", |n| format!("&a{n} k{n}: &b{n} v, "), most, "}\n")
    }),
    ("merge keys", 10, |most| {
        let keys: String = (0..50).map(|n| format!("{}{n}: 1, ", "k".repeat(900))).collect();
        filled(&format!("x: &a {{{keys}}}\ny: ["), |_| "{<<: [*a, *a]},".to_owned(), most, "]\n")
    }),
    ("aliases of a long text", 4, |most| {
        let text = "t".repeat(200_000);
        filled(&format!("x: &a {text}\ndefaults: ["), |_| "*a,".to_owned(), most, "]\n")
    }),
    ("maps of one in lists of one", 4900, |most| {
        filled("x: [", |_| "[{a: }],".to_owned(), most, "]\n")
    }),
    ("maps in maps", 165, |most| {
        let deep = format!("{}{}", "{a: ".repeat(58), "}".repeat(58));
        filled("defaults: [", move |_| format!("{deep},"), most, "]\n")
    }),
    ("maps in maps with long keys", 9800, |most| {
        let open: String = (0..58).map(|_| format!("{{{}: ", "k".repeat(1000))).collect();
        let begin = format!("deploy: {{t: {{labels: {open}{{");
        filled(&begin, |n| format!("a{n}: [], "), most, &format!("{}}}}}}}}}\n", "}".repeat(58)))
    }),
    ("sections for many targets", 940, |most| {
        let section = "{env: [{name: A, value: b}], service: [{ports: [{name: a, number: 1}]}]}";
        filled(&format!("x: &a {section}\ndeploy: {{"), |n| format!("t{n}: *a, "), most, "}\n")
    }),
    ("defaults that match", 300, |most| {
        let one = |n| format!("{{match: '*', env: [{{name: V{n}, value: x}}]}}, ");
        filled("defaults: [", one, most, "]\ndeploy: {t: }\n")
    }),
    ("unknown keys", 9900, |most| filled("deploy: {t: {", |n| format!("k{n}: , "), most, "}}\n")),
    ("the same key again and again", 9900, |most| {
        filled("x: {", |_| "a: , ".to_owned(), most, "}\n")
    }),
    ("the same name again and again", 3900, |most| {
        filled("deploy: {t: {env: [", |_| "{name: A, value: b}, ".to_owned(), most, "]}}\n")
    }),
    ("values of a wrong kind", 3900, |most| {
        filled("deploy: {t: {env: [", |_| "{name: [], value: {}}, ".to_owned(), most, "]}}\n")
    }),
    ("names of a wrong form", 6500, |most| {
        filled("deploy: {t: {env: [", |n| format!("{{name: '- {n}'}}, "), most, "]}}\n")
    }),
    ("unknown tags", 19_900, |most| filled("x: [", |_| "!a b, ".to_owned(), most, "]\n")),
    ("many documents", 6500, |most| filled("", |_| "---\na: 1\n".to_owned(), most, "")),
    ("a comment", 60_000, |most| filled("#", |_| "##########".to_owned(), most, "\n")),
    ("brackets without an end", 60_000, |most| filled("x: ", |_| "[".to_owned(), most, "")),
    ("a cache for many paths", 6400, |most| {
        let bypass = "t".repeat(100_000);
        let cache = format!("{{bypass: [{bypass}], nope: {bypass}}}");
        let begin = format!("deploy: {{t: {{ingress: [{{host: a.b, cache: {cache}, paths: [");
        filled(&begin, |n| format!("{{path: /{n}}},"), most, "]}]}}\n")
    }),
    ("many variables", 3900, |most| {
        let one = |n| format!("{{name: V{n}, value: x}}, ");
        filled("deploy: {t: {env: [", one, most, "]}}\n")
    }),
    ("many jobs beside many variables", 2000, |most| {
        let variables: String = (0..1500).map(|n| format!("{{name: V{n}, value: x}}, ")).collect();
        let begin = format!("deploy: {{t: {{env: [{variables}], jobs: [");
        filled(&begin, |n| format!("{{name: j{n}, args: [x]}}, "), most, "]}}\n")
    }),
    ("sixteen jobs, containers and sidecars beside many variables", 16, |most| {
        let variables: String = (0..3000).map(|n| format!("{{name: V{n}, value: x}}, ")).collect();
        let list = |most: usize, kind: char| -> String {
            (0..most.min(16)).map(|n| format!("{{name: {kind}{n}, args: [x]}}, ")).collect()
        };
        let (jobs, first, beside) = (list(most, 'j'), list(most, 'i'), list(most, 's'));
        let lists = format!("jobs: [{jobs}], initContainers: [{first}], sidecars: [{beside}]");
        filled(
            &format!("deploy: {{t: {{env: [{variables}], {lists}}}}}\n"),
            |_| String::new(),
            1,
            "",
        )
    }),
    ("many services", 1950, |most| {
        let one = |n| format!("{{name: s{n}, ports: [{{name: a, number: 80}}]}}, ");
        filled("deploy: {t: {service: [", one, most, "]}}\n")
    }),
    ("many labels on many services", 4500, |most| {
        let labels: String = (0..3000).map(|n| format!("l{n}: {}, ", "v".repeat(30))).collect();
        let one = |n| format!("{{name: s{n}}}, ");
        let begin = format!("deploy: {{t: {{labels: {{{labels}}}, service: [");
        filled(&begin, one, most, "]}}\n")
    }),
    ("many addresses", 6500, |most| {
        let one = |n| format!("{{host: h{n}.example.com}}, ");
        filled("deploy: {t: {ingress: [", one, most, "]}}\n")
    }),
    ("many volumes", 2200, |most| {
        let one = |n| format!("{{name: v{n}, mountPath: /{n}, files: {{a: b}}}}, ");
        filled("deploy: {t: {volumes: [", one, most, "]}}\n")
    }),
];

/// The built-in templates, and policies that look at everything.
static TEMPLATES: LazyLock<Arc<TemplateSet>> = LazyLock::new(|| {
    let text = "{name: all, message: m, expression: 'objects.all(o, size(o) > 0) && waml != {}'}\n";
    let mut sources = the_deployer::templates::sources::built_in();
    sources.policies = vec![TemplateFile { path: "p.yaml".to_owned(), text: text.to_owned() }];
    Arc::new(TemplateSet::compile(&sources).unwrap())
});

/// What reading the file holds at once, and what planning it for its first target does.
fn measured(text: &str) -> (u64, u64) {
    waml::document::prepare();
    let templates = Arc::clone(&TEMPLATES);
    let (read, reading) = peak(|| Waml::parse(".weave.yaml", text.as_bytes()));
    let Ok(waml) = read else { return (reading, 0) };
    let first = waml.targets().first().map(|target| (*target).clone());
    let target = first.unwrap_or(TargetName::parse("none").unwrap());
    let input = Input { waml: waml.into(), target, fleet: None, release: release(), templates };
    let facts = facts();
    let (_, planning) = peak(|| plan(&input, &facts));
    (reading, planning)
}

#[test]
fn no_shape_of_a_waml_takes_much_memory() {
    let _ = measured(HEAD);
    let mut wrong = Vec::new();
    for (name, fit, shape) in SHAPES {
        for most in [*fit, 60_000] {
            let text = shape(most);
            assert!(text.len() <= LARGEST, "{name}: {}", text.len());
            let (reading, planning) = measured(&text);
            eprintln!("{:>4} MiB {:>4} MiB  {name}, {most}", reading / MIB, planning / MIB);
            if reading > READING || planning > PLANNING {
                wrong.push(format!("{name}, {most}: {reading} and {planning} bytes"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a generated file is made of: something with an anchor, and where aliases of it stand.
#[derive(Debug, Clone)]
struct Generated {
    key: usize,
    keys: usize,
    text: usize,
    depth: usize,
    place: &'static str,
    wrap: &'static str,
    levels: usize,
    each: usize,
    most: usize,
}

impl Generated {
    fn text(&self) -> String {
        let Self { key, keys, text, depth, place, wrap, levels, each, most } = self;
        let value = format!("{}{}{}", "[".repeat(*depth), "t".repeat(*text), "]".repeat(*depth));
        let entries: String =
            (0..*keys).map(|n| format!("? {}{n} : {value}, ", "k".repeat(*key))).collect();
        let mut begin = format!("x0: &a0 {{{entries}}}\n");
        // Each level says the one below it some times more.
        for level in 1..=*levels {
            let aliases = format!("*a{}, ", level - 1).repeat(*each);
            writeln!(begin, "x{level}: &a{level} [{aliases}]").unwrap();
        }
        let (open, close) = place.split_once('@').unwrap();
        let piece =
            |n: usize| wrap.replace('@', &format!("*a{levels}")).replace('#', &n.to_string());
        filled(&format!("{begin}{open}"), piece, *most, close)
    }
}

prop_compose! {
    fn generated()(
        key in select(vec![1, 8, 100, 1000, 1024, 1025, 50_000]),
        keys in select(vec![1, 2, 9, 40, 200]),
        text in select(vec![0, 1, 30, 1000]),
        depth in select(vec![0, 1, 20]),
        place in select(vec![
            "y: [@]\n", "y: {@}\n", "defaults: [@]\n", "deploy: {@}\n", "deploy: {t: {env: [@]}}\n",
            "deploy: {t: {labels: {@}}}\n", "deploy: {t: {volumes: [{name: a, files: {@}}]}}\n",
            "defaults: [{match: '*', ingress: [@]}]\ndeploy: {t: }\n",
        ]),
        wrap in select(vec![
            "@, ", "[@, @], ", "{a: @}, ", "k#: @, ", "{<<: @}, ", "<<: @, ", "{name: n#, value: @}, ",
            "{match: '*', labels: @}, ", "{host: h#.b, paths: [@]}, ", "? @ : 1, ",
        ]),
        levels in 0..4_usize,
        each in select(vec![1, 3, 30]),
        most in select(vec![1, 5, 30, 200, 1000, 5000]),
    ) -> Generated {
        Generated { key, keys, text, depth, place, wrap, levels, each, most }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_generated_waml_takes_much_memory(generated in generated()) {
        let text = generated.text();
        prop_assume!(text.len() <= LARGEST);
        let (reading, planning) = measured(&text);
        prop_assert!(reading <= READING, "reading holds {reading} bytes");
        prop_assert!(planning <= PLANNING, "planning holds {planning} bytes");
    }
}
