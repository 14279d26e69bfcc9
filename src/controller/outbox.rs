//! The forge is told what the store has for it: in order per deployment, deployments side by
//! side.

use futures::{StreamExt as _, stream};

use crate::controller::Parts;
use crate::controller::outcome::{self, NextReport};
use crate::controller::outside::{Outside, Problem};
use crate::store::{Held, Message, StoreError};

/// How many statuses are taken at once; they must all be sent within a lease.
const TAKEN: u32 = 32;

/// How many are on their way at once: forges limit how many requests one may have open.
const AT_ONCE: usize = 8;

impl<O: Outside> Parts<O> {
    /// Sends what may be sent now; how many that were.
    pub(super) async fn send_some(&self) -> Result<usize, StoreError> {
        let messages = self.store.take_messages(self.clock.now(), self.settings.lease, TAKEN);
        let messages = messages.await?;
        let taken = messages.len();
        let sent = stream::iter(messages.into_iter().map(|message| self.tell(message)));
        let results: Vec<_> = sent.buffer_unordered(AT_ONCE).collect().await;
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(taken)
    }

    async fn tell(&self, message: Message) -> Result<(), StoreError> {
        let Message { repository, forge_id, status, .. } = &message;
        let told = self.outside.report(repository, *forge_id, status).await;
        let (recorded, outcome) = match told {
            Ok(()) => (self.store.sent(&message, self.clock.now()).await?, "sent"),
            Err(problem) => self.not_told(&message, problem).await?,
        };
        self.metrics.report(outcome);
        if recorded == Held::Lost {
            let deployment = &message.deployment;
            tracing::warn!(%deployment, seq = message.seq, "another sender took over");
        }
        Ok(())
    }

    async fn not_told(
        &self,
        message: &Message,
        problem: Problem,
    ) -> Result<(Held, &'static str), StoreError> {
        let (deployment, state) = (&message.deployment, message.status.state.as_str());
        let (patience, now) = (&self.settings.report_patience, self.clock.now());
        let reason = problem.message.clone();
        match outcome::after_report(problem, message.attempts, patience, now) {
            NextReport::At(at) => {
                tracing::warn!(%deployment, state, reason, %at, "status not sent, tried again");
                Ok((self.store.send_again_at(message, at).await?, "put_off"))
            }
            NextReport::Park(reason) => {
                tracing::error!(%deployment, state, reason, "status not sent, given up");
                Ok((self.store.park(message, &reason).await?, "parked"))
            }
        }
    }
}
