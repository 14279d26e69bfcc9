//! The loops over a real database, a world in memory and a clock moved by hand.

use std::time::Duration;

use the_deployer::clock::Clock;
use the_deployer::controller::inbox::Received;
use the_deployer::controller::job::Did;
use the_deployer::controller::metrics::Metrics;
use the_deployer::controller::{Controller, Settings};
use the_deployer::model::deployment::{Deployment, State};
use the_deployer::model::event::Event;
use the_deployer::model::id::DeployId;

use crate::harness::database::{Database, run_on_both};
use crate::harness::requests::{at, delivery, request};
use crate::harness::world::World;

/// One process, and what it works with.
pub(crate) struct Service {
    pub(crate) world: World,
    pub(crate) clock: Clock,
    pub(crate) db: Database,
    pub(crate) controller: Controller<World>,
}

/// Runs the test on each database; at its end nothing may be left to do.
pub(crate) async fn run_test(test: impl AsyncFn(&Service)) {
    run_on_both(async |db| {
        let service = Service::new(db);
        test(&service).await;
        service.settle().await;
        let depth = service.db.store.depth().await.unwrap();
        assert_eq!((depth.queued, depth.running), (0, 0), "deployments are left");
        assert_eq!((depth.unsent, depth.parked), (0, 0), "statuses are left");
    })
    .await;
}

impl Service {
    pub(crate) fn new(db: Database) -> Self {
        let (world, clock) = (World::default(), Clock::manual(at(0)));
        let controller = process(&db, &clock, &world, Settings::default());
        Self { world, clock, db, controller }
    }

    /// Another process on the same database and in the same world.
    pub(crate) fn another(&self, settings: Settings) -> Controller<World> {
        process(&self.db, &self.clock, &self.world, settings)
    }

    /// The forge asks for its deployment `n` of a lane.
    pub(crate) async fn ask(&self, lane: &str, n: i64) -> DeployId {
        let event = Event::Deployment(request(lane, "prod", n));
        let received = self.controller.inbox().receive(&delivery(n), &event).await.unwrap();
        let Received::New(id) = received else { panic!("{n} was asked for before") };
        id
    }

    /// One attempt at whatever is next.
    pub(crate) async fn step(&self) -> Option<Did> {
        self.controller.step().await.unwrap()
    }

    /// Everything that can be done now is done.
    pub(crate) async fn settle(&self) {
        while self.step().await.is_some() {}
        while self.controller.send().await.unwrap() > 0 {}
    }

    pub(crate) fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) async fn deployment(&self, id: &DeployId) -> Deployment {
        self.db.store.deployment(id).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, id: &DeployId) -> State {
        self.deployment(id).await.state
    }
}

fn process(db: &Database, clock: &Clock, world: &World, settings: Settings) -> Controller<World> {
    let metrics = Metrics::unregistered();
    Controller::new(db.store.clone(), clock.clone(), world.clone(), settings, metrics)
}
