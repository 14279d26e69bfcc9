//! Where a branch on a server is, and how what is new of it comes into a clone.

use git2::{AutotagOption, Direction, FetchOptions, Oid, RemoteHead, Repository};

use crate::git::clone::TRACKING;
use crate::git::remote::Remote;
use crate::git::transport::{self, WireError};

/// What a branch's reference begins with.
pub(super) const HEADS: &str = "refs/heads/";
/// So many other branches are named to who has to find the right one.
pub(super) const FEW: usize = 5;

/// Where a server has a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    At(Oid),
    /// It has no branch at all.
    Empty,
    /// It has others; the names of a few.
    Others(Vec<String>),
}

impl Found {
    pub(super) fn tip(&self) -> Option<Oid> {
        match self {
            Self::At(tip) => Some(*tip),
            Self::Empty | Self::Others(_) => None,
        }
    }

    fn in_place_of(reference: &str, heads: &[RemoteHead<'_>]) -> Self {
        if let Some(head) = heads.iter().find(|head| head.name() == reference) {
            return Self::At(head.oid());
        }
        let names = heads.iter().filter_map(|head| head.name().strip_prefix(HEADS));
        let names: Vec<String> = names.take(FEW).map(str::to_owned).collect();
        if names.is_empty() { Self::Empty } else { Self::Others(names) }
    }
}

/// Asks the server where the branch is, and gets what is new. The first time only the tip comes;
/// old servers cannot do that, and send everything, once.
pub(super) fn newest(
    remote: &Remote,
    repo: &Repository,
    reference: &str,
) -> Result<Found, WireError> {
    let first = repo.refname_to_id(TRACKING).is_err();
    let fetch = |depth| transport::over(remote, |address| fetch(repo, address, reference, depth));
    match fetch(i32::from(first)) {
        Err(error) if first && error.git.message().contains("support shallow") => fetch(0),
        other => other,
    }
}

/// Gets what is new on a branch into [`TRACKING`]; where the branch is, if there is one.
pub(super) fn fetch(
    repo: &Repository,
    address: &str,
    reference: &str,
    depth: i32,
) -> Result<Found, git2::Error> {
    let mut remote = repo.remote_anonymous(address)?;
    let mut connection = remote.connect_auth(Direction::Fetch, None, None)?;
    let found = Found::in_place_of(reference, connection.list()?);
    if found.tip().is_some() && repo.refname_to_id(TRACKING).ok() != found.tip() {
        let mut options = FetchOptions::new();
        options.depth(depth).download_tags(AutotagOption::None).update_fetchhead(false);
        let refspec = format!("+{reference}:{TRACKING}");
        connection.remote().fetch(&[refspec], Some(&mut options), None)?;
    }
    Ok(found)
}
