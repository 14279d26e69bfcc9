//! No file imports another that, by whatever way, imports it: each can be read before those that use it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::source::{self, Source};
use super::tell;

/// The modules of which this holds, with all that is in them.
const WITHOUT_CYCLES: &[&str] = &[
    "support",
    "model",
    "waml",
    "manifests",
    "policy",
    "templates",
    "pipeline",
    "git",
    "forge",
    "notify",
    "store",
    "lookups",
    "cluster",
    "inventory",
    "deployments",
    "outbox",
    "controller",
    "api",
    "server",
    "config",
    "app",
    "cli",
];

/// Each file, and those that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_file_imports_one_that_imports_it() {
    let all = source::all();
    let graph = graph(&all);
    let is_held = |file: &&String| WITHOUT_CYCLES.iter().any(|module| super::is_in(file, module));
    let cycles: BTreeSet<String> =
        graph.keys().filter(is_held).filter_map(|file| cycle(&graph, file)).collect();
    tell("no file imports one that imports it", &cycles.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_cycle_is_found() {
    let files = [("a.rs", "b.rs"), ("b.rs", "c.rs"), ("c.rs", "a.rs"), ("d.rs", "a.rs")];
    let edge = |(from, to): (&str, &str)| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let graph: Graph = files.into_iter().map(edge).collect();
    assert_eq!(cycle(&graph, "a.rs").as_deref(), Some("a.rs → b.rs → c.rs → a.rs"));
    assert_eq!(cycle(&graph, "d.rs"), None);
}

/// Which file names which; a module's file stands for what is in it and has no file of its own.
fn graph(sources: &[Source]) -> Graph {
    let built = || sources.iter().filter(|source| !source.is_test());
    let named_by = |source: &Source| source.module().join("::");
    let files: BTreeMap<String, &str> =
        built().map(|source| (named_by(source), source.path.as_str())).collect();
    let named = |source: &Source| {
        let paths = source::paths(&source.code());
        let modules = paths.iter().filter_map(|path| absolute(source, &path.parts));
        let files = modules.filter_map(|parts| {
            (1..=parts.len()).rev().find_map(|length| files.get(&parts[..length].join("::")))
        });
        let others = files.filter(|file| **file != source.path);
        others.map(|file| (*file).to_owned()).collect::<BTreeSet<_>>()
    };
    built().map(|source| (source.path.clone(), named(source))).collect()
}

/// A path of the code from the crate's root on; `None` for one that begins elsewhere.
fn absolute(source: &Source, parts: &[String]) -> Option<Vec<String>> {
    let module: Vec<String> = source.module().iter().map(|part| (*part).to_owned()).collect();
    let rest = |skipped: usize| parts.get(skipped..).unwrap_or_default().to_vec();
    match parts.first()?.as_str() {
        "crate" | "the_deployer" => Some(rest(1)),
        "self" => Some([module, rest(1)].concat()),
        "super" => {
            let steps = parts.iter().take_while(|part| *part == "super").count();
            let above = module.get(..module.len().checked_sub(steps)?)?.to_vec();
            Some([above, rest(steps)].concat())
        }
        _ => None,
    }
}

/// The shortest way from a file back to itself, from its first file in the order of names on.
fn cycle(graph: &Graph, file: &str) -> Option<String> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = VecDeque::from([file]);
    while let Some(here) = next.pop_front() {
        for to in graph.get(here)? {
            if to == file {
                let mut way = vec![file, here];
                while way.last() != Some(&file) {
                    way.push(came_from[way[way.len() - 1]]);
                }
                way.reverse();
                way.dedup();
                let first = way.iter().min()?;
                return (*first == file).then(|| way.join(" → "));
            }
            if !came_from.contains_key(to.as_str()) {
                came_from.insert(to, here);
                next.push_back(to);
            }
        }
    }
    None
}
