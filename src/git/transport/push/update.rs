//! The request to a server to move one branch, with a pack; and the meaning of its refusal. `gitprotocol-pack(5)`,
//! "Reference Update Request".

use git2::{Oid, Repository};

use crate::git::error::StepError;
use crate::git::objects::pack::NewObjects;
use crate::git::transport::push::pkt;
use crate::git::transport::push_rejection::{self, PushVerdict};
use crate::git::writer::fence::Fence;
use crate::git::writer::outcome::BranchMove;

/// The branch is to be moved from `base` to `tip`.
pub(in crate::git) struct Update<'a> {
    /// The commit that the branch must have; `None` where there must be no such branch.
    pub(in crate::git) base: Option<Oid>,
    pub(in crate::git) tip: Oid,
    /// `refs/heads/main`
    pub(in crate::git) reference: &'a str,
    /// The objects that the server does not have.
    pub(in crate::git) load: &'a NewObjects,
    /// The fence; when it closes, the exchange is cut.
    pub(in crate::git) fence: &'a Fence,
}

/// A way to move a branch. Never forces: on a branch that is elsewhere it is [`BranchMove::Lost`].
pub(in crate::git) trait Push: Send {
    fn push(&mut self, repo: &Repository, update: &Update<'_>) -> Result<BranchMove, StepError>;
}

/// Classifies a server's refusal: its status for the branch, and its output.
pub(super) fn classify_refusal(status: &str, printed: &[u8]) -> BranchMove {
    match push_rejection::classify(status, &String::from_utf8_lossy(printed)) {
        PushVerdict::LostRace => BranchMove::Lost,
        PushVerdict::Refused(refusal) => BranchMove::Refused(refusal),
    }
}

/// The requested capabilities. A server uses those that it has, and ignores the others, so they are requested unseen.
/// `quiet` is there because the printed text is for people, who want the words of hooks and not the progress.
const CAPABILITIES: &str = "report-status report-status-v2 side-band-64k quiet object-format=sha1";

/// Returns the bytes of a push.
pub(super) fn request(update: &Update<'_>, pack: &[u8]) -> Vec<u8> {
    let Update { base, tip, reference, load: _, fence: _ } = update;
    let base = base.unwrap_or(Oid::ZERO_SHA1);
    let agent = concat!("agent=the-deployer/", env!("CARGO_PKG_VERSION"));
    let mut bytes = Vec::with_capacity(pack.len() + 256);
    let command = format!("{base} {tip} {reference}\0 {CAPABILITIES} {agent}");
    pkt::write(&mut bytes, command.as_bytes());
    pkt::flush(&mut bytes);
    bytes.extend_from_slice(pack);
    bytes
}
