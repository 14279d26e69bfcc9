//! The audit log and what was answered, in the store.

use crate::app::backend::Backend;
use crate::model::audit::{Found, Search};
use crate::server::ports::{self, Fault};
use crate::store::{AnswerTurn, Answered, Begun, Repeatable};

impl ports::AuditLog for Backend {
    async fn audited(&self, search: &Search) -> Result<Found, Fault> {
        self.store.audited(search).await.map_err(Fault::new)
    }
}

impl ports::Answers for Backend {
    async fn begin(&self, request: &Repeatable) -> Result<Begun, Fault> {
        self.store.begin_answer(request, self.world.clock.now()).await.map_err(Fault::new)
    }

    async fn keep(
        &self,
        request: &Repeatable,
        turn: AnswerTurn,
        answer: &Answered,
    ) -> Result<(), Fault> {
        self.store.keep_answer(request, turn, answer).await.map_err(Fault::new)
    }

    async fn forget(&self, request: &Repeatable, turn: AnswerTurn) -> Result<(), Fault> {
        self.store.forget_answer(request, turn).await.map_err(Fault::new)
    }
}
