//! Folders of the tests, in memory where the machine has room for them: on a disk, much of a test's time goes into making
//! and removing small files.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::{Builder, TempDir};

/// The space that the tests together never fill, many times over.
const ROOM: u64 = 4 << 30;

/// Where the folders are: as `TMPDIR` says; without it in memory, where there is room and programs can be run.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let is_fit = statvfs(memory).is_ok_and(|at| {
        !at.f_flag.contains(StatVfsMountFlags::NOEXEC) && at.f_bavail * at.f_frsize >= ROOM
    });
    if is_fit && std::env::var_os("TMPDIR").is_none() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
});

/// An empty folder that is gone with what this returns.
pub(crate) fn temporary() -> TempDir {
    named("deployer-test")
}

/// The same with a name to know it by. Paths of sockets in it are short enough.
pub(crate) fn named(prefix: &str) -> TempDir {
    Builder::new().prefix(prefix).tempdir_in(&*PLACE).unwrap()
}
