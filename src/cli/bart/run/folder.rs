//! A private folder for the files of one run, which is removed at its end.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::settings::write_private;

/// A folder that only its owner can read; it is removed when this is dropped.
pub(super) struct RunFolder(PathBuf);

impl RunFolder {
    /// Creates it in the system's folder for temporary files; one with that name must not exist.
    pub(super) fn create(id: &str) -> Result<Self, CliError> {
        let path = std::env::temp_dir().join(format!("bart-run-{id}"));
        make_private(&path).map_err(CliError::file("create", &path))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file that only its owner can read, and makes the folders before it. Parts of the path are what the WAML
    /// says, which no rule has judged: a path that leads out of this folder is refused.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> CommandOutcome {
        let is_normal = |part| matches!(part, Component::Normal(_));
        if !path.strip_prefix(&self.0).is_ok_and(|rest| rest.components().all(is_normal)) {
            return Err(CliError::usage(format!(
                "{} leads out of the run's folder",
                path.display()
            ))
            .hint("write folders and names of files without `..`"));
        }
        write_private(path, bytes)
    }

    /// Lets the user of a container read a folder that is mounted: the private folder around it keeps others of this
    /// machine out.
    #[cfg(unix)]
    #[expect(clippy::unused_self, reason = "it is private for the folder around it")]
    pub(super) fn open_to_container(&self, folder: &Path) -> CommandOutcome {
        use std::os::unix::fs::PermissionsExt as _;
        let set =
            |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        let open = || -> io::Result<()> {
            for file in fs::read_dir(folder)? {
                set(&file?.path(), 0o644)?;
            }
            set(folder, 0o755)
        };
        open().map_err(CliError::file("prepare", folder))
    }

    #[cfg(not(unix))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "folders have no modes there"
    )]
    pub(super) fn open_to_container(&self, _folder: &Path) -> CommandOutcome {
        Ok(())
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What cannot be removed is the owner's alone.
        let _stays = fs::remove_dir_all(&self.0);
    }
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}
