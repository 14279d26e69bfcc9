//! Tests the signing keys for `the-deployer config check`, before a deployment depends on them.

use std::path::{Path, PathBuf};

use crate::config::settings::Settings;
use crate::git::signing::{CommitSigner, SigningError, SigningKey};
use crate::model::violation::Violation;
use crate::support::clock;

/// Makes a signature with the key of each manifest repository that has one, in temporary folders,
/// so that a running service is not disturbed. Returns the errors, by repository. Blocks.
pub fn check_signing(settings: &Settings) -> Vec<Violation> {
    let keys = settings.manifests.iter().enumerate();
    let keys = keys.filter_map(|(n, manifests)| Some((n, manifests.signing.as_ref()?)));
    let violations = keys.filter_map(|(n, signing)| {
        let error = signing_error(signing)?;
        let path = format!("manifests.repositories[{n}].signing");
        let message = format!("`{path}` cannot be used: {error}");
        Some(Violation::error("configuration", message).at(path, None).help(HELP))
    });
    violations.collect()
}

/// Returns the error of a signature, if it fails. The key goes into the folder for temporary files,
/// because `storage.folder` may be another user's; or into `storage.folder`, where the former
/// cannot be written. Other users can write to the folder for temporary files, so the name must be
/// unpredictable.
fn signing_error(signing: &SigningKey) -> Option<SigningError> {
    let mut refused = None;
    for home in homes(&signing.home) {
        let key = SigningKey { home, ..signing.clone() };
        let error = CommitSigner::open(&key).err()?;
        let no_folder = matches!(error, SigningError::Folder { .. } | SigningError::TooDeep { .. });
        refused.get_or_insert(error);
        if !no_folder {
            break;
        }
    }
    refused
}

fn homes(real: &Path) -> [PathBuf; 2] {
    let digits = clock::random_digits();
    let temporary = std::env::temp_dir().join(format!("the-deployer-{digits}"));
    [temporary, real.with_extension(digits)]
}

const HELP: &str = "docs/signing.md explains how to create a key";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_make_the_folder_for_a_key_before_we_do() {
        let real = Path::new("/var/lib/the-deployer/gnupg/main");
        let (first, second) = (homes(real), homes(real));
        for (home, other_home) in first.iter().zip(&second) {
            assert_ne!(home, other_home);
            assert!(
                home.to_str().unwrap().len() - home.parent().unwrap().to_str().unwrap().len() > 16
            );
        }
    }
}
