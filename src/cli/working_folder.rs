//! The working folder, and the files that are read in it.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::CliError;

/// The name of the WAML in a service repository.
pub(super) const WAML_FILE: &str = ".weave.yaml";

/// Reads a file whole, up to the largest size of a WAML; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    const MAX: u64 = 16 * 1024 * 1024;
    let mut bytes = Vec::new();
    let input: std::io::Result<Box<dyn Read>> = match path.to_str() {
        Some("-") => Ok(Box::new(std::io::stdin())),
        _ => std::fs::File::open(path).map(|file| Box::new(file) as Box<dyn Read>),
    };
    let result = input.and_then(|input| input.take(MAX).read_to_end(&mut bytes));
    result.map_err(|error| {
        CliError::file("read", path)(error)
            .hint(format!("name the file, or run the command where `{WAML_FILE}` is"))
    })?;
    Ok(bytes)
}

/// Returns the working folder.
pub(super) fn path() -> Result<PathBuf, CliError> {
    std::env::current_dir()
        .map_err(|error| CliError::io(format!("the working folder cannot be found: {error}")))
}
