//! Whether commits can be signed, tried before anything depends on it.

use crate::config::settings::Settings;
use crate::git::signing::{Signing, SigningKey};
use crate::model::violation::Violation;

/// Makes a signature with the key of each manifest repository that has one, in homes of their own
/// that are gone afterwards, so that a service that runs beside is not disturbed. What does not
/// work, by repository. Blocks.
pub fn tried(settings: &Settings) -> Vec<Violation> {
    let keys = settings.manifests.iter().enumerate();
    let keys = keys.filter_map(|(n, one)| Some((n, one.signing.as_ref()?)));
    let refused = keys.filter_map(|(n, signing)| {
        // Not below `storage.folder`, which may be another user's. What is made in it is ours alone.
        let home = std::env::temp_dir().join(format!("the-deployer-{}", std::process::id()));
        let key = SigningKey { home, ..signing.clone() };
        let error = Signing::open(&key).err()?;
        let path = format!("manifests.repositories[{n}].signing");
        let message = format!("`{path}` cannot be used: {error}");
        Some(Violation::error("configuration", message).at(path, None).help(HELP))
    });
    refused.collect()
}

const HELP: &str = "docs/signing.md says how a key is made for it";
