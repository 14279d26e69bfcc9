//! A push over ssh: the server speaks first, then come commands and pack, then its report.

use std::sync::Arc;

use git2::Oid;

use crate::git::fence::Fence;
use crate::git::push::report;
use crate::git::remote::{Carried, NotCarried};
use crate::git::ssh::client::Ssh;
use crate::git::ssh::failure::Failure;
use crate::git::ssh::options::Program;
use crate::git::ssh::session::Session;

/// The server's report of a push is a few lines, and what hooks print.
const REPORT: usize = 16 * 1024 * 1024;
/// Of an answer up to this size it is looked whether it says already what became of the branch. Then
/// nobody waits for what the server does after it: hooks that tell others, and its housekeeping.
const TOLD: usize = 64 * 1024;

impl Ssh {
    /// Hands a push to the server's `git receive-pack`, if the branch is at `base`. When the fence
    /// closes, it is cut.
    pub(in crate::git) fn receive_pack(
        self: &Arc<Self>,
        (base, reference): (Option<Oid>, &str),
        body: &[u8],
        fence: &Fence,
    ) -> Result<Carried, NotCarried> {
        let unsent = |failure: Failure| NotCarried { failure: failure.into(), sent: false };
        let mut session = self.open(Program::ReceivePack).map_err(unsent)?;
        session.within(fence);
        let there = session.branch(reference).map_err(unsent)?;
        if there != base {
            session.say_goodbye();
            return Ok(Carried::Moved);
        }
        let told = |answer: &[u8]| answer.len() <= TOLD && report::is_told(answer, reference);
        let answer = session.write(body).and_then(|()| session.answer(REPORT, told));
        answer
            .map(Carried::Answer)
            .map_err(|failure| NotCarried { failure: failure.into(), sent: true })
    }

    /// The branches of the server, as `git receive-pack` advertises them.
    pub(in crate::git) fn advertised(self: &Arc<Self>) -> Result<Vec<u8>, Failure> {
        let mut session = self.open(Program::ReceivePack)?;
        let advertisement = session.advertisement()?;
        session.say_goodbye();
        Ok(advertisement)
    }
}

impl Session {
    fn branch(&mut self, reference: &str) -> Result<Option<Oid>, Failure> {
        let advertisement = self.advertisement()?;
        report::advertised(&advertisement, reference)
            .map_err(|no_list| Failure::NotGit(no_list.to_string()))
    }
}
