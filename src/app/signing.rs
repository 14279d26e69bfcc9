//! Whether commits can be signed, tried before anything depends on it.

use crate::config::settings::Settings;
use crate::git::signing::{Signing, SigningError, SigningKey};
use crate::model::violation::Violation;

/// Makes a signature with the key of each manifest repository that has one, in homes of their own
/// that are gone afterwards, so that a service that runs beside is not disturbed. What does not
/// work, by repository. Blocks.
pub fn tried(settings: &Settings) -> Vec<Violation> {
    let keys = settings.manifests.iter().enumerate();
    let keys = keys.filter_map(|(n, one)| Some((n, one.signing.as_ref()?)));
    let refused = keys.filter_map(|(n, signing)| {
        let error = not_signed_with(signing)?;
        let path = format!("manifests.repositories[{n}].signing");
        let message = format!("`{path}` cannot be used: {error}");
        Some(Violation::error("configuration", message).at(path, None).help(HELP))
    });
    refused.collect()
}

/// In the folder for temporary files, because `storage.folder` may be another user's; in that, where
/// the other cannot be written to.
fn not_signed_with(signing: &SigningKey) -> Option<SigningError> {
    let name = format!("the-deployer-{}", std::process::id());
    let beside = signing.home.with_extension(&name);
    let mut refused = None;
    for home in [std::env::temp_dir().join(name), beside] {
        let key = SigningKey { home, ..signing.clone() };
        let error = Signing::open(&key).err()?;
        let no_folder = matches!(error, SigningError::Folder { .. });
        refused.get_or_insert(error);
        if !no_folder {
            break;
        }
    }
    refused
}

const HELP: &str = "docs/signing.md says how a key is made for it";
