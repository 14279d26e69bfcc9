//! The forge is told what the store has for it: in order per deployment, deployments side by
//! side.

use futures::{StreamExt as _, stream};

use crate::controller::Parts;
use crate::controller::outcome;
use crate::controller::outside::Outside;
use crate::store::{Answer, Held, Message, StoreError};

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
        let told = stream::iter(messages.into_iter().map(|message| self.tell(message)));
        // What has been told is recorded at once, and together what was told together.
        let mut told = told.buffer_unordered(AT_ONCE).ready_chunks(AT_ONCE);
        while let Some(answers) = told.next().await {
            self.record_answers(&answers).await?;
        }
        Ok(taken)
    }

    async fn tell(&self, message: Message) -> (Message, Answer) {
        let Message { deployment, repository, forge_id, status, .. } = &message;
        let told = self.outside.report(deployment, repository, *forge_id, status);
        let answer = match told.await {
            Ok(()) => Answer::Sent,
            Err(problem) => {
                let (patience, now) = (&self.settings.report_patience, self.clock.now());
                let reason = problem.message.clone();
                let answer = outcome::after_report(problem, message.attempts, patience, now);
                log(&message, &answer, &reason);
                answer
            }
        };
        (message, answer)
    }

    async fn record_answers(&self, answers: &[(Message, Answer)]) -> Result<(), StoreError> {
        let held = self.store.answered(answers, self.clock.now()).await?;
        for ((message, answer), held) in answers.iter().zip(held) {
            self.metrics.report(match answer {
                Answer::Sent => "sent",
                Answer::Again(_) => "put_off",
                Answer::Parked(_) => "parked",
            });
            if held == Held::Lost {
                let deployment = &message.deployment;
                tracing::warn!(%deployment, seq = message.seq, "another sender took over");
            }
        }
        Ok(())
    }
}

fn log(message: &Message, answer: &Answer, reason: &str) {
    let (deployment, state) = (&message.deployment, message.status.state.as_str());
    match answer {
        Answer::Sent => {}
        Answer::Again(at) => {
            tracing::warn!(%deployment, state, reason, %at, "status not sent, tried again");
        }
        Answer::Parked(_) => {
            tracing::error!(%deployment, state, reason, "status not sent, given up");
        }
    }
}
