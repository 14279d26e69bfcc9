//! What is asked of `git receive-pack`: one branch, from here to there, and a pack. Pure.
//! `gitprotocol-pack(5)`, "Reference Update Request".

use git2::Oid;

use crate::git::push::pkt;
use crate::git::push::update::Update;

/// A server does of these what it can, and leaves the others: so they are asked for unseen. `quiet`
/// because what it prints is for people, who want the words of hooks and not how far it is.
const CAPABILITIES: &str = "report-status report-status-v2 side-band-64k quiet object-format=sha1";

/// The bytes of a push.
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
