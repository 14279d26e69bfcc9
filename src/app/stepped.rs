//! The program without its loops: it answers HTTP, and whatever the loops would do by themselves is
//! done when somebody says so, at a clock that somebody moves. What takes days is tried in a second.

use std::net::SocketAddr;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::home::DataDirLock;
use crate::app::wiring::Loops;
use crate::app::{App, StartError};
use crate::controller::sweep::SweepReport;
use crate::deployments::removal;
use crate::server;
use crate::store::{Store, StoreError};

/// An [`App`] that does nothing by itself but answer. Dropped, it ends as if it were killed: what
/// was under way stays as it is in the database.
#[must_use = "it ends when it is dropped"]
pub struct SteppedApp {
    loops: Loops,
    address: SocketAddr,
    serving: JoinHandle<()>,
    _home: DataDirLock,
}

impl App {
    /// Answers HTTP from now on, and does nothing else by itself.
    ///
    /// # Errors
    /// When the operating system does not say where it listens.
    pub fn stepped(self) -> Result<SteppedApp, StartError> {
        let address = self.address()?;
        let Self { loops, router, connections, listener, grace, home, .. } = self;
        let serving = tokio::spawn(async move {
            let stop = CancellationToken::new();
            let _ = server::serve::serve(listener, router, connections, stop, grace).await;
        });
        Ok(SteppedApp { loops, address, serving, _home: home })
    }
}

impl SteppedApp {
    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The database, to look into.
    pub fn store(&self) -> &Store {
        &self.loops.deployments.store
    }

    /// Does everything once that can be done now; how much that was. At 0 nothing can be done until
    /// the clock is moved, or something comes in.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn turn(&self) -> Result<usize, StoreError> {
        let mut done = removal::keep_records_once(&self.loops.deployments).await?;
        while self.step().await? {
            done += 1;
        }
        done += self.loops.outbox.send().await?;
        done += self.preview().await?;
        Ok(done)
    }

    /// Takes the next deployment, if one can be taken, as far as it goes; messages stay.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn step(&self) -> Result<bool, StoreError> {
        Ok(self.loops.controller.step().await?.is_some())
    }

    /// Makes the previews that can be made; how many attempts that were.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn preview(&self) -> Result<usize, StoreError> {
        let Some(previews) = &self.loops.previews else { return Ok(0) };
        let mut done = 0;
        previews.renew().await?;
        while previews.step().await?.is_some() {
            done += 1;
        }
        Ok(done)
    }

    /// Looks for lost events once, be it time or not: everything that would be looked for, and where
    /// hints lead. What each run did; none where nothing is looked for, or may be now.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn sweep(&self) -> Result<Vec<SweepReport>, StoreError> {
        let Some(sweeps) = &self.loops.sweeps else { return Ok(Vec::new()) };
        let mut reports = Vec::new();
        for kind in sweeps.kinds() {
            reports.extend(sweeps.sweep_now(*kind).await?);
        }
        Ok(reports)
    }

    /// Looks for lost events where hints lead, and nowhere else; what the run did.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn follow_hints(&self) -> Result<Option<SweepReport>, StoreError> {
        match &self.loops.sweeps {
            Some(sweeps) => sweeps.follow_hints().await,
            None => Ok(None),
        }
    }

    /// Returns when something that waits can be done, if something waits that time alone brings on.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        let Loops { outbox, previews, deployments, .. } = &self.loops;
        let preview = match previews {
            Some(previews) => previews.due().await?,
            None => None,
        };
        let stored = deployments.store.next_due(deployments.clock.now()).await?;
        Ok([outbox.due().await?, stored, preview].into_iter().flatten().min())
    }
}

impl Drop for SteppedApp {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
