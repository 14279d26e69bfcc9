//! Ways to bring one deployment into a manifest repository behind HTTP. Each has a branch of its
//! own of the same repository, so that none waits for another's commits.

mod command_line;
mod floor;
mod libgit2;
mod objects; // the trees and the commit of a deployment
mod ours;

use std::path::Path;
use std::time::Duration;

use the_deployer::git::writer::PushBy;

use crate::host::Host;
use crate::shape::Deployment;

pub use crate::ways::command_line::CommandLine;
pub use crate::ways::floor::Floor;
pub use crate::ways::libgit2::LibGit2;
pub use crate::ways::ours::Ours;

/// The one repository of the host.
pub const REPOSITORY: &str = "manifests";

/// One way to write.
pub trait Way {
    /// Writes a deployment; how long the caller waited for it.
    fn write(&mut self, deployment: &Deployment) -> Duration;
}

/// The names of all ways; each is the name of its branch.
pub const ALL: [&str; 5] = ["floor", "ours", "fallback", "git2", "git"];

/// A way, ready to write: its clone is made before this returns.
pub fn ready(name: &str, host: &Host, folder: &Path) -> Box<dyn Way> {
    let folder = folder.join(name);
    let _absent = std::fs::remove_dir_all(&folder);
    match name {
        "floor" => Box::new(Floor::ready(host, &folder)),
        "ours" => Box::new(Ours::ready(host, &folder, name, PushBy::Direct)),
        "fallback" => Box::new(Ours::ready(host, &folder, name, PushBy::Libgit2)),
        "git2" => Box::new(LibGit2::ready(host, &folder)),
        "git" => Box::new(CommandLine::ready(host, &folder)),
        other => panic!("{other} is no way: {}", ALL.join(", ")),
    }
}
