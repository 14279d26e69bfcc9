//! The folders that a key is kept in while it is in use: ours, and for nobody else.

use std::fs;
use std::io;
use std::path::Path;

/// Makes a folder that folders for keys are made in, with those above it.
///
/// # Errors
/// One that is there and is a link, or another user's, is not used: its owner could look into what is
/// made in it, or put something else there.
pub(super) fn base(folder: &Path) -> io::Result<()> {
    builder().recursive(true).create(folder)?;
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::Error::other("it is a link, and must be a folder: remove it"));
    }
    if !is_ours(folder)? {
        return Err(io::Error::other("it is another user's: remove it"));
    }
    // An orchestrator may let a group into all that is on a volume.
    for_nobody_else(folder)
}

/// Makes a folder that was not there.
pub(super) fn new(folder: &Path) -> io::Result<()> {
    builder().create(folder)?;
    for_nobody_else(folder)
}

#[cfg(unix)]
fn builder() -> fs::DirBuilder {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(not(unix))]
fn builder() -> fs::DirBuilder {
    fs::DirBuilder::new()
}

#[cfg(unix)]
fn for_nobody_else(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn for_nobody_else(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether it belongs to who we are: to whom a folder belongs that we make in it.
#[cfg(unix)]
fn is_ours(folder: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let probe = folder.join(format!("{}-whose", std::process::id()));
    let _left_by_a_crash = fs::remove_dir(&probe);
    new(&probe)?;
    let ours = fs::symlink_metadata(&probe).map(|probe| probe.uid());
    fs::remove_dir(&probe)?;
    Ok(ours? == fs::symlink_metadata(folder)?.uid())
}

#[cfg(not(unix))]
fn is_ours(_: &Path) -> io::Result<bool> {
    Ok(true)
}
