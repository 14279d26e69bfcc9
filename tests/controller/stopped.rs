//! A person stops what is under way: by a lock, or by cancelling it.

use the_deployer::controller::job::Did;
use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::event::DeploymentRequest;
use the_deployer::model::id::DeployId;
use the_deployer::model::lock::{Lock, LockId, LockScope};
use the_deployer::model::rollback::{Rollback, TreeId, provisional_number};
use the_deployer::store::{Cancelled, Locked, NewRollback, RollbackTurn};

use crate::harness::requests::{entry, id, request};
use crate::harness::service::{Service, run_test};
use crate::harness::world::Point;

/// A step that is held up at that point, while something happens.
async fn meanwhile(service: &Service, point: Point, what: impl AsyncFnOnce()) -> Option<Did> {
    service.world.hold_at(point);
    let worker = service.controller.clone();
    let step = tokio::spawn(async move { worker.step().await.unwrap() });
    service.world.reached().await;
    what().await;
    service.world.go_on();
    step.await.unwrap()
}

/// Ada locks the target.
async fn lock(service: &Service, id: &LockId) {
    let now = service.clock.now();
    let lock = Lock {
        scope: LockScope::Target("prod".parse().unwrap()),
        reason: "an incident".to_owned(),
        by: "ada".to_owned(),
        since: now,
        until: None,
    };
    let entry = entry("lock", 1_000, "ada", "an incident", now);
    let placed = service.db.store.add_lock(id, &lock, &entry).await.unwrap();
    assert_eq!(placed, Locked::Yes);
}

#[tokio::test]
async fn a_lock_that_is_placed_while_it_is_planned_keeps_it_back() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        let now = service.clock.now();
        let lock_id = LockId::parse("0000000a").unwrap();
        let did = meanwhile(service, Point::Plan, async || {
            lock(service, &lock_id).await;
        });
        assert_eq!(did.await, Some(Did::PutOff));
        assert_eq!(service.world.pushes(), [0; 0], "nothing is pushed over a lock");
        let waits = service.deployment(&id).await;
        assert_eq!(waits.state, State::Queued);
        assert!(
            waits.summary.contains("ada locked it while it was planned: an incident"),
            "{}",
            waits.summary
        );
        let entry = entry("unlock", 1_001, "ada", "it is over", now);
        let _gone = service.db.store.remove_lock(&lock_id, &entry).await.unwrap();
        service.wait(60);
        assert_eq!(service.step().await, Some(Did::Succeeded));
        assert_eq!(service.world.pushes(), [1]);
    })
    .await;
}

#[tokio::test]
async fn one_that_is_cancelled_while_it_is_planned_is_not_pushed() {
    run_test(async |service| {
        for (n, point) in [(1, Point::Fetch), (2, Point::Plan)] {
            let id = service.ask("web", n).await;
            let did = meanwhile(service, point, async || {
                let entry = entry("cancel", 1_000 + n, "ada", "the wrong tag", service.clock.now());
                let cancelled = service.db.store.cancel(&id, &entry).await.unwrap();
                assert!(matches!(cancelled, Cancelled::Yes(_)), "{cancelled:?}");
            });
            assert_eq!(did.await, Some(Did::Lost), "{point:?}");
            assert_eq!(service.state(&id).await, State::Cancelled);
            service.settle().await;
            let told = [ForgeState::Queued, ForgeState::InProgress, ForgeState::Inactive];
            assert_eq!(service.world.told(n), told);
        }
        assert_eq!(service.world.pushes(), [0; 0]);
        service.ask("web", 3).await;
        assert_eq!(service.step().await, Some(Did::Succeeded), "the next has its turn");
    })
    .await;
}

#[tokio::test]
async fn one_that_is_being_pushed_is_not_cancelled() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        let did = meanwhile(service, Point::BeforeWrite, async || {
            let entry = entry("cancel", 1_000, "ada", "too late", service.clock.now());
            let cancelled = service.db.store.cancel(&id, &entry).await.unwrap();
            assert_eq!(cancelled, Cancelled::Pushing);
        });
        assert_eq!(did.await, Some(Did::Succeeded));
        assert_eq!((service.world.pushes(), service.state(&id).await), (vec![1], State::Succeeded));
    })
    .await;
}

/// A rollback of `acme/web` to what deployment `to` deployed waits.
async fn waiting_rollback(service: &Service, n: i64, to: &DeployId) -> DeployId {
    let app = service.deployment(to).await.app.unwrap();
    let (id, asked) = (id(n), request("web", "prod", 1));
    let rollback = Rollback {
        with_data: false,
        with_fewer_pods: false,
        to: to.clone(),
        from: None,
        away: None,
        tree: TreeId("ab".repeat(20)),
        reason: "broken".to_owned(),
        hold: true,
    };
    let new = NewRollback {
        request: DeploymentRequest { forge_id: provisional_number(&id), ..asked },
        id: id.clone(),
        app,
        rollback,
        template: None,
        contact: None,
        address: None,
    };
    let entry = entry("rollback", n, "ada", "broken", service.clock.now());
    let turn = service.controller.inbox().roll_back(&new, (&entry, None)).await.unwrap();
    assert_eq!(turn, RollbackTurn::Yes);
    id
}

#[tokio::test]
async fn a_rollback_that_waits_is_kept_back_by_a_lock_with_its_words() {
    run_test(async |service| {
        let first = service.ask("web", 1).await;
        service.settle().await;
        let back = waiting_rollback(service, 0xff_0000, &first).await;
        lock(service, &LockId::parse("0000000a").unwrap()).await;
        assert_eq!(service.step().await, Some(Did::Failed));
        let ended = service.deployment(&back).await;
        assert_eq!(ended.state, State::Failed);
        assert!(
            ended.summary.contains("everything on prod is locked by ada: an incident"),
            "{}",
            ended.summary
        );
        assert_eq!(service.db.store.holds(None).await.unwrap(), [], "nothing was rolled back");
    })
    .await;
}

#[tokio::test]
async fn a_rollback_that_is_cancelled_takes_no_hold() {
    run_test(async |service| {
        let first = service.ask("web", 1).await;
        service.settle().await;
        let back = waiting_rollback(service, 0xff_0000, &first).await;
        let entry = entry("cancel", 1_000, "ada", "not needed", service.clock.now());
        let cancelled = service.db.store.cancel(&back, &entry).await.unwrap();
        assert!(matches!(cancelled, Cancelled::Yes(_)), "{cancelled:?}");
        assert_eq!(service.step().await, None);
        assert_eq!(service.state(&back).await, State::Cancelled);
        assert_eq!(service.db.store.holds(None).await.unwrap(), []);
        assert_eq!(service.world.pushes(), [1]);
    })
    .await;
}
