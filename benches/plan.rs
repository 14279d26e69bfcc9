//! Measures how long `plan` takes, and how that compares with only reading the same text.
//!
//! `cargo bench --profile fast --bench plan`. The ratio is against the plainest thing that one could do with a
//! WAML: parse it into a tree with the usual YAML library, in the same run.

#![allow(
    missing_docs,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and may fail loudly"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::Criterion;
use the_deployer::model::facts::Facts;
use the_deployer::model::id::{CommitSha, ImageTag, RepoName, TargetName};
use the_deployer::model::release::Release;
use the_deployer::model::target::Clusters;
use the_deployer::pipeline::Input;
use the_deployer::pipeline::plan;
use the_deployer::templates::set::TemplateSet;
use the_deployer::waml::Waml;

const EXAMPLE: &[u8] = include_bytes!("../tests/pipeline/example/waml.yaml");

fn input() -> Input {
    let templates = TemplateSet::compile(&the_deployer::templates::sources::built_in());
    Input {
        waml: Arc::new(Waml::parse(".weave.yaml", EXAMPLE).expect("the example is valid")),
        target: TargetName::parse("prod-cluster-1").expect("a target's name"),
        fleet: None,
        release: Release {
            repository: RepoName::parse("weave-lab/my-app").expect("a repository's name"),
            app: None,
            commit: CommitSha::parse("0".repeat(40)).expect("a commit id"),
            tag: ImageTag::parse("1.0.202206151506-sha.649008fb").expect("a tag"),
        },
        templates: Arc::new(templates.expect("the built-in templates are valid")),
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    let facts = Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, Clusters::any());
    let input = input();
    criterion.bench_function("read the WAML with every place", |b| {
        b.iter(|| Waml::parse(".weave.yaml", black_box(EXAMPLE)));
    });
    criterion.bench_function("plan: merge, default, validate, render", |b| {
        b.iter(|| plan(black_box(&input), &facts));
    });
    criterion.bench_function("peer: only parse the WAML (serde_yaml)", |b| {
        b.iter(|| serde_yaml::from_slice::<serde_yaml::Value>(black_box(EXAMPLE)));
    });
    criterion.final_summary();
}
