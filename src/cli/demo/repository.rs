//! The example's service repository: bare, with one file.

use std::path::Path;

use git2::{Repository, Signature, Time};

use crate::git::writer::ManifestRepository;
use crate::model::id::CommitSha;

/// The example of the documentation, as it stands in the tests.
pub(super) const FIRST: &str = include_str!("../../../tests/pipeline/example/waml.yaml");

/// The same with one more variable, and more replicas.
pub(super) fn second() -> String {
    FIRST
        .replace("value: some-value}]", "value: some-value}, {name: LOG_LEVEL, value: debug}]")
        .replace("minReplicas: 3", "minReplicas: 5")
}

/// The same with five mistakes.
pub(super) fn broken() -> String {
    FIRST
        .replace("servicePort: 8000", "servicePort: 8080")
        .replace("MY_ENV_NAME", "1ST_ENV_NAME")
        .replace("slo:", "resources: {requests: {memory: 1GB}}\n    slos:")
        .replace("minReplicas: 3", "minReplicas: 30")
}

/// Commits the file on `main`, and makes the repository for that if it is not there.
pub(super) fn commit(
    path: &Path,
    waml: &str,
    message: &str,
    seconds: i64,
) -> Result<CommitSha, git2::Error> {
    let made = ManifestRepository::create_local(path, "main");
    made.map_err(|error| git2::Error::from_str(&error.to_string()))?;
    let repository = Repository::open_bare(path)?;
    let blob = repository.blob(waml.as_bytes())?;
    let mut tree = repository.treebuilder(None)?;
    tree.insert(".weave.yaml", blob, 0o100_644)?;
    let tree = repository.find_tree(tree.write()?)?;
    let author = Signature::new("Ada", "ada@example.com", &Time::new(seconds, 0))?;
    let parent =
        repository.find_reference("refs/heads/main").and_then(|main| main.peel_to_commit()).ok();
    let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
    let id =
        repository.commit(Some("refs/heads/main"), &author, &author, message, &tree, &parents)?;
    CommitSha::parse(id.to_string()).map_err(|error| git2::Error::from_str(&error.to_string()))
}
