//! FUZZ TARGETS: each reader of foreign bytes as a function that takes any bytes, and panics where a promise
//! of that reader is broken.
//!
//! ```text
//! ci/fuzz ──▶ fuzz/main.rs ──▶ TARGETS      libFuzzer looks for bytes that break a promise
//! cargo test ─────────────────▶ TARGETS      each runs over its kept corpus, `fuzz/corpus/TARGET/`
//! ```
//!
//! The promises stand beside the readers, in their functions `fuzz`. In no program that ships.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;

use crate::cli::diagnostics::{self, SourceTexts};
use crate::manifests;
use crate::model::facts::Facts;
use crate::model::id::{CommitSha, ImageTag, RepoName};
use crate::model::release::Release;
use crate::model::target::Clusters;
use crate::model::violation::Violation;
use crate::pipeline;
use crate::pipeline::Input;
use crate::templates::set::TemplateSet;
use crate::templates::sources;
use crate::waml::Waml;
use crate::waml::yaml::{self, Budget};

/// A reader of foreign bytes.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// Its name on the command line, and its folder under `fuzz/corpus/`.
    pub name: &'static str,
    /// Reads the bytes.
    ///
    /// # Panics
    /// The reader breaks a promise.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "waml", run: waml },
    FuzzTarget { name: "webhook", run: crate::forge::github::webhook::fuzz },
    FuzzTarget { name: "report", run: crate::git::transport::push::report::fuzz },
    FuzzTarget { name: "event_stream", run: crate::cli::fuzz_event_stream },
    FuzzTarget { name: "challenge", run: crate::lookups::fuzz_challenge },
    FuzzTarget { name: "traefik_rule", run: manifests::parse::fuzz_rule },
    FuzzTarget { name: "watch", run: crate::cluster::watch::fuzz },
    FuzzTarget { name: "cursor", run: crate::server::fuzz_query },
];

const FILE: &str = ".weave.yaml";

static TEMPLATES: LazyLock<Arc<TemplateSet>> = LazyLock::new(|| {
    let compiled = TemplateSet::compile(&sources::built_in());
    Arc::new(compiled.expect("the built-in templates compile"))
});

/// A WAML: what is read is planned for its first target, what is planned is YAML, and every violation can be
/// shown at its place.
fn waml(data: &[u8]) {
    let waml = match Waml::parse(FILE, data) {
        Ok(waml) => Arc::new(waml),
        Err(rejection) => {
            assert!(!rejection.violations.is_empty(), "refused without a reason");
            return show(&rejection.violations, data);
        }
    };
    show(&waml.violations, data);
    let Some(target) = waml.targets().first().map(|target| (*target).clone()) else { return };
    let release = Release {
        repository: RepoName::parse("example/shop").expect("a name"),
        tag: ImageTag::parse("1.0").expect("a tag"),
        app: None,
        commit: CommitSha::parse("0123456789012345678901234567890123456789").expect("a commit"),
    };
    let input = Input { waml, target, fleet: None, release, templates: Arc::clone(&TEMPLATES) };
    let facts = Facts::without_lookups(Timestamp::UNIX_EPOCH, Clusters::any());
    match pipeline::plan(&input, &facts) {
        Err(rejection) => {
            assert!(!rejection.violations.is_empty(), "refused without a reason");
            show(&rejection.violations, data);
        }
        Ok(rendered) => {
            for file in &rendered.files {
                let text = std::str::from_utf8(&file.bytes).expect("what is rendered is text");
                let documents = yaml::parse_stream("manifest", text, &MANIFEST);
                let documents = documents.expect("what is rendered is YAML");
                assert_eq!(documents.len(), 1, "one object a file: {text}");
            }
        }
    }
}

/// A manifest may be larger than the WAML that it comes from.
const MANIFEST: Budget =
    Budget { bytes: 16 * 1024 * 1024, nodes: 1_000_000, text: 16 * 1024 * 1024, depth: 128 };

/// Every place lies in the file, and every violation can be shown there.
fn show(violations: &[Violation], data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
    for violation in violations {
        let Some(place) = violation.position.as_ref().filter(|place| &*place.file == FILE) else {
            continue;
        };
        assert!((1..=lines).contains(&(place.line as usize)), "{violation:?} of {lines} lines");
    }
    let mut sources = SourceTexts::default();
    sources.add(FILE, text);
    let text = diagnostics::render(violations, &sources);
    assert_eq!(text.is_empty(), violations.is_empty(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_holds_on_its_kept_corpus() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        for FuzzTarget { name, run } in TARGETS {
            let folder = root.join(name);
            let files = std::fs::read_dir(&folder)
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let mut count = 0;
            for file in files {
                let file = file.unwrap().path();
                eprintln!("{}", file.display());
                run(&std::fs::read(&file).unwrap());
                count += 1;
            }
            assert!(count > 0, "{name} has no corpus");
        }
    }
}
