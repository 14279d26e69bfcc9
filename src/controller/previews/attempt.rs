//! One claimed preview from the claim to its record.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::controller::outcome;
use crate::controller::previews::{Did, Parts};
use crate::deployments::outcome::{Problem, Remedy};
use crate::deployments::preview::{Glance, Place};
use crate::model::preview::Told;
use crate::pipeline::preview::text;
use crate::store::{Held, MOST_DEATHS, PreviewClaim, ShownCheck, StoreError};

/// Ends an attempt in its middle.
enum Stop {
    Lost,
    /// It could not be found out.
    Unknown(Problem),
    /// It could not be shown.
    Unshown(Problem),
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Parts {
    /// The attempt, with its lease kept.
    pub(super) async fn attended(&self, claim: &PreviewClaim) -> Result<Did, StoreError> {
        tokio::select! {
            biased;
            did = self.guarded(claim) => did,
            () = self.keep_lease(claim) => Ok(Did::Lost),
        }
    }

    /// The attempt, with an end even if it panics or never ends.
    async fn guarded(&self, claim: &PreviewClaim) -> Result<Did, StoreError> {
        if claim.deaths >= MOST_DEATHS {
            return self
                .end(claim, Did::Refused, "given up: the service died at each attempt")
                .await;
        }
        if claim.failures >= self.settings.patience.failures {
            return self.end(claim, Did::Refused, "given up: attempts failed or died").await;
        }
        let attempt = AssertUnwindSafe(Box::pin(self.attempt(claim))).catch_unwind();
        match tokio::time::timeout(self.settings.longest, attempt).await {
            Ok(Ok(did)) => did,
            Ok(Err(_panic)) => {
                self.end(claim, Did::Refused, "a fault in the-deployer itself; see its log").await
            }
            Err(_elapsed) => {
                let seconds = self.settings.longest.as_secs();
                let message = format!("it took longer than {seconds} s and was stopped");
                self.trouble(claim, &Problem { remedy: Remedy::Retry { after: None }, message })
                    .await
            }
        }
    }

    async fn attempt(&self, claim: &PreviewClaim) -> Result<Did, StoreError> {
        let mut shown = claim.shown.clone();
        match self.forward(claim, &mut shown).await {
            Ok(did) => {
                self.refused.store(false, Ordering::Relaxed);
                self.end(claim, did, did.as_str()).await
            }
            Err(Stop::Lost) => {
                tracing::info!("a newer head has come, this one is left");
                Ok(Did::Lost)
            }
            Err(Stop::Store(error)) => Err(error),
            Err(Stop::Unshown(problem)) => self.trouble(claim, &problem).await,
            Err(Stop::Unknown(problem)) => self.unknown(claim, &mut shown, &problem).await,
        }
    }

    /// The sentence: glance, look, show.
    async fn forward(
        &self,
        claim: &PreviewClaim,
        shown: &mut Option<ShownCheck>,
    ) -> Result<Did, Stop> {
        let request = &claim.request;
        let glance = self.deployments.glance_at_pull_request(request, shown.is_some()).await;
        let told = match glance.map_err(Stop::Unshown)? {
            Glance::Nothing(reason) => {
                tracing::info!(reason, "no preview");
                return Ok(Did::Nothing);
            }
            Glance::Say(told) => told,
            Glance::Look => self.look(claim, shown).await?,
        };
        self.show(claim, shown, &told).await
    }

    /// Looks closer; who waits for longer than a moment sees that it is under way.
    async fn look(
        &self,
        claim: &PreviewClaim,
        shown: &mut Option<ShownCheck>,
    ) -> Result<Told, Stop> {
        let mut looking = Box::pin(self.deployments.preview_pull_request(&claim.request));
        let told = match tokio::time::timeout(self.settings.moment, &mut looking).await {
            Ok(told) => told,
            Err(_elapsed) => {
                self.show(claim, shown, &text::under_way()).await?;
                looking.await
            }
        };
        told.map_err(Stop::Unknown)
    }

    async fn show(
        &self,
        claim: &PreviewClaim,
        shown: &mut Option<ShownCheck>,
        told: &Told,
    ) -> Result<Did, Stop> {
        let digest = digest(told);
        let here = shown.as_ref().filter(|shown| shown.head == claim.request.head);
        if here.is_some_and(|here| here.digest == digest) {
            return Ok(Did::Same);
        }
        let place = match here {
            Some(here) => Place::At(here.check),
            // An earlier attempt, also one before the newest event, may have made one.
            None if claim.attempts > 1 || claim.turn > 1 => Place::Unsure,
            None => Place::New,
        };
        let lease = self.settings.lease;
        if self.store.extend_preview(claim, self.clock.now(), lease).await? == Held::Lost {
            return Err(Stop::Lost);
        }
        self.written_at.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        let check = self
            .deployments
            .show_preview(&claim.request, told, place)
            .await
            .map_err(Stop::Unshown)?;
        let there = ShownCheck { head: claim.request.head.clone(), check, digest };
        self.store.preview_shown(claim, &there).await?;
        *shown = Some(there);
        Ok(Did::Shown)
    }

    /// What could not be found out is tried again; when it is given up, the check run says so: one
    /// that hangs would hold up the pull request.
    async fn unknown(
        &self,
        claim: &PreviewClaim,
        shown: &mut Option<ShownCheck>,
        problem: &Problem,
    ) -> Result<Did, StoreError> {
        if self.again(claim, problem).is_some() {
            return self.trouble(claim, problem).await;
        }
        let told = text::not_known(&problem.message);
        match self.show(claim, shown, &told).await {
            Ok(_) => self.end(claim, Did::Refused, &problem.message).await,
            Err(Stop::Lost) => Ok(Did::Lost),
            Err(Stop::Store(error)) => Err(error),
            Err(Stop::Unknown(problem) | Stop::Unshown(problem)) => {
                self.trouble(claim, &problem).await
            }
        }
    }

    fn again(&self, claim: &PreviewClaim, problem: &Problem) -> Option<Timestamp> {
        let (patience, now) = (&self.settings.patience, self.clock.now());
        outcome::preview_again(problem, claim.received_at, claim.failures, patience, now)
    }

    async fn trouble(&self, claim: &PreviewClaim, problem: &Problem) -> Result<Did, StoreError> {
        let reason = &problem.message;
        if let Some(at) = self.again(claim, problem) {
            tracing::warn!(%at, reason, "preview put off");
            let held = self.store.put_preview_off(claim, at, reason).await?;
            return Ok(if held == Held::Yes { Did::PutOff } else { Did::Lost });
        }
        // Once, until something works again: a permission that is missing is missing for all.
        if self.refused.swap(true, Ordering::Relaxed) {
            tracing::debug!(reason, "no preview, as before");
        } else {
            tracing::error!(reason, "no preview; further ones that fail are counted, not logged");
        }
        self.end(claim, Did::Refused, reason).await
    }

    async fn end(&self, claim: &PreviewClaim, did: Did, summary: &str) -> Result<Did, StoreError> {
        match self.store.end_preview(claim, self.clock.now(), summary).await? {
            Held::Yes => {
                tracing::info!(outcome = did.as_str(), "preview done");
                Ok(did)
            }
            Held::Lost => Ok(Did::Lost),
        }
    }

    /// Ends when the lease is lost.
    async fn keep_lease(&self, claim: &PreviewClaim) {
        let lease = self.settings.lease;
        loop {
            tokio::time::sleep(lease / 3).await;
            match self.store.extend_preview(claim, self.clock.now(), lease).await {
                Ok(Held::Yes) => {}
                Ok(Held::Lost) => return,
                Err(error) => tracing::warn!(%error, "the lease could not be extended"),
            }
        }
    }
}

/// Of everything that is said.
fn digest(told: &Told) -> String {
    hex::encode(Sha256::digest(format!("{told:?}")))
}
