//! The service's own client of `git receive-pack`: one exchange with exactly the new objects.
//!
//! It does not fetch the branch first: it sends the last known commit of the branch, and the server compares that under
//! its own lock. Only when the server cannot read the pack, its advertisement is fetched, and the same objects are sent
//! once more, whole.

use git2::Repository;

use crate::git::error::{StepError, WriteError};
use crate::git::objects::pack::Deltas;
use crate::git::transport::failure::Failure;
use crate::git::transport::push::report::{self, PushReport, RefStatus, Transfer, TransferError};
use crate::git::transport::push::update::{Push, Update, classify_refusal, request};
use crate::git::transport::remote::Remote;
use crate::git::writer::outcome::BranchMove;

/// Pushes to one repository.
pub(super) struct DirectPush {
    remote: Remote,
    /// The number of thin packs in a row that the server could not read, while it could read whole ones.
    unread: u32,
    /// The number of next pushes that go whole at once.
    whole: u32,
}

/// A server that could not read so many thin packs in a row does not want them; one may be a full disk.
const UNREAD: u32 = 2;
/// The number of whole pushes before a thin one is tried again: servers are updated.
const WHOLE: u32 = 100;

impl DirectPush {
    pub(super) fn new(remote: Remote) -> Self {
        Self { remote, unread: 0, whole: 0 }
    }

    fn send(&self, update: &Update<'_>, deltas: Deltas) -> Result<Transfer, TransferError> {
        let body = match deltas {
            Deltas::Thin => request(update, update.load.thin()),
            Deltas::None => request(update, &update.load.undeltified_bytes()),
        };
        self.remote.receive_pack((update.base, update.reference), body, update.fence)
    }

    /// Handles a pack that the server could not read. If the branch has moved, that is the reason: the bases of the
    /// deltas may be gone. If not, the server cannot use deltas.
    fn unreadable(
        &mut self,
        update: &Update<'_>,
        why: &UnreadablePack,
    ) -> Result<BranchMove, StepError> {
        let advertisement =
            self.remote.advertisement().map_err(|failure| self.remote.error(failure))?;
        let remote_tip = report::find_advertised(&advertisement, update.reference);
        if remote_tip.is_ok_and(|tip| tip != update.base) {
            return Ok(BranchMove::Lost);
        }
        if self.whole > 0 {
            return Ok(why.classify_refusal());
        }
        let carried = match self.send(update, Deltas::None) {
            Ok(carried) => carried,
            Err(failed) => return self.not_carried(failed),
        };
        let published = match self.read_branch_move(&carried, update) {
            Ok(published) => published,
            Err(why) => return Ok(why.classify_refusal()),
        };
        if matches!(published, BranchMove::Done) {
            self.unread += 1;
        }
        if self.unread >= UNREAD {
            tracing::info!(repository = %self.remote, "server refuses deltas, objects are sent whole");
            (self.unread, self.whole) = (0, WHOLE);
        }
        Ok(published)
    }

    /// Reads the outcome of a push from the answer; the error is why the pack was not read.
    fn read_branch_move(
        &self,
        carried: &Transfer,
        update: &Update<'_>,
    ) -> Result<BranchMove, UnreadablePack> {
        let Transfer::Answer(answer) = carried else { return Ok(BranchMove::Lost) };
        let PushReport { word, printed } = report::read(answer, update.reference);
        match word {
            RefStatus::Done => Ok(BranchMove::Done),
            RefStatus::Not(status) => Ok(classify_refusal(&status, &printed)),
            RefStatus::NotUnpacked(why) => Err(UnreadablePack { why, printed }),
            // The server said something, but not the outcome of the branch.
            RefStatus::None => Ok(BranchMove::Unclear(WriteError::unreachable(
                &self.remote,
                "the server did not report what became of the push",
            ))),
        }
    }

    fn not_carried(
        &self,
        TransferError { failure, sent }: TransferError,
    ) -> Result<BranchMove, StepError> {
        if failure == (Failure::Server { status: 413 }) {
            return Ok(classify_refusal("the server takes no push that large (HTTP 413)", &[]));
        }
        let unclear = sent && !failure.is_definite();
        let error = self.remote.error(failure);
        if unclear { Ok(BranchMove::Unclear(error)) } else { Err(error.into()) }
    }
}

/// The reason why the server did not read a pack, and its output.
struct UnreadablePack {
    why: String,
    printed: Vec<u8>,
}

impl UnreadablePack {
    fn classify_refusal(&self) -> BranchMove {
        classify_refusal(&self.why, &self.printed)
    }
}

impl Push for DirectPush {
    fn push(&mut self, _: &Repository, update: &Update<'_>) -> Result<BranchMove, StepError> {
        let deltas = if self.whole > 0 { Deltas::None } else { Deltas::Thin };
        let carried = match self.send(update, deltas) {
            Ok(carried) => carried,
            Err(failed) => return self.not_carried(failed),
        };
        match self.read_branch_move(&carried, update) {
            Ok(published) => {
                self.whole = self.whole.saturating_sub(1);
                if deltas == Deltas::Thin && matches!(published, BranchMove::Done) {
                    self.unread = 0;
                }
                Ok(published)
            }
            Err(why) => self.unreadable(update, &why),
        }
    }
}
