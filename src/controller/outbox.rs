//! People and programs are told what the store has for them: in order per deployment and sink,
//! deployments side by side, each family of sinks at its own pace.

use futures::{StreamExt as _, stream};

use crate::controller::Parts;
use crate::controller::outcome;
use crate::controller::outside::Outside;
use crate::model::notice::Family;
use crate::store::{Answer, Held, Message, StoreError};

/// How many messages are taken at once; they must all be sent within a lease.
const TAKEN: u32 = 32;

/// How many are on their way at once: forges limit how many requests one may have open.
const AT_ONCE: usize = 8;

impl<O: Outside> Parts<O> {
    /// Sends what may be sent now, to everybody; how many that were.
    pub(super) async fn send_some(&self) -> Result<usize, StoreError> {
        let mut sent = 0;
        for family in self.store.audience().families() {
            sent += self.send_to(&family).await?;
        }
        Ok(sent)
    }

    /// Sends what may be sent now to one family; how many that were.
    pub(super) async fn send_to(&self, family: &Family) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let messages = self.store.take_messages(family, now, self.settings.lease, TAKEN).await?;
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
        let answer = match self.outside.tell(&message, self.clock.now()).await {
            Ok(delivered) => outcome::delivered(delivered),
            Err(trouble) => {
                let (patience, now) = (&self.settings.report_patience, self.clock.now());
                let reason = trouble.problem.message.clone();
                let answer = outcome::not_delivered(trouble, message.attempts, patience, now);
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
                Answer::Sent { .. } => "sent",
                Answer::Skipped(_) => "skipped",
                Answer::Again { .. } => "put_off",
                Answer::Parked(_) => "parked",
            });
            if held == Held::Lost {
                let Message { deployment, sink, seq, .. } = message;
                tracing::warn!(%deployment, %sink, seq, "another sender took over");
            }
        }
        Ok(())
    }
}

fn log(message: &Message, answer: &Answer, reason: &str) {
    let Message { deployment, sink, status, .. } = message;
    let state = status.state.as_str();
    match answer {
        Answer::Sent { .. } | Answer::Skipped(_) => {}
        Answer::Again { at, .. } => {
            tracing::warn!(%deployment, %sink, state, reason, %at, "not told, tried again");
        }
        Answer::Parked(_) => {
            tracing::error!(%deployment, %sink, state, reason, "not told, given up");
        }
    }
}
