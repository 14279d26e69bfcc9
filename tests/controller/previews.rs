//! The loop of previews: when it writes, what it tries again, and when it gives up. What pull requests are shown
//! is told in `scenarios::previews`.

use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use the_deployer::store::MAX_DEATHS;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::fault::Bug;
use crate::harness::github::{Fault, Repository};

const FILE: &str = ".weave.yaml";
const REPOSITORY: &str = "example/shop";

/// A repository whose pull requests bring a WAML, which is all that a preview needs.
fn shop(deployer: &Deployer) -> Repository<'_> {
    deployer.github.repository(REPOSITORY)
}

/// Opens a pull request whose WAML is new; its number and its head.
async fn opens(shop: &Repository<'_>, branch: &str) -> (i64, String) {
    let number = shop.opens_pull_request(branch, &[(FILE, &waml("shop"))]).await;
    (number, shop.tip(branch))
}

/// The one check run of a commit, and what is said in it.
fn check(shop: &Repository<'_>, head: &str) -> (Json, String) {
    let [run] = &shop.check_runs(head)[..] else { panic!("{:?}", shop.check_runs(head)) };
    (run.clone(), run["output"]["title"].as_str().unwrap().to_owned())
}

/// How often a check run was written.
fn writes(deployer: &Deployer) -> usize {
    deployer.github.count("POST check-runs") + deployer.github.count("PATCH check-runs")
}

/// Moves the clock to when the next preview can be made; how long that is.
async fn waits(deployer: &Deployer) -> SignedDuration {
    let now = deployer.clock.now();
    assert_eq!(deployer.stepped().preview().await.unwrap(), 0, "not before its time");
    let due = deployer.stepped().due().await.unwrap().expect("a preview waits");
    let wait = due.duration_since(now);
    deployer.clock.advance(wait.try_into().unwrap());
    wait
}

/// What became of a pull request's preview, in the database.
async fn summary(deployer: &Deployer, number: i64) -> String {
    let repository = REPOSITORY.parse().unwrap();
    let summary = deployer.stepped().store().preview_summary(&repository, number).await.unwrap();
    summary.expect("it is known")
}

async fn ends(deployer: &Deployer) {
    assert_eq!(deployer.stepped().preview().await.unwrap(), 0);
    assert_eq!(deployer.stepped().store().previews_waiting().await.unwrap(), 0);
    deployer.settled().await;
}

#[tokio::test]
async fn writes_are_spaced_so_that_deployments_can_be_told_too() {
    let deployer = Deployer::start_as_app().await;
    let shop = shop(&deployer);
    let (_, first) = opens(&shop, "first").await;
    let (_, second) = opens(&shop, "second").await;
    assert_eq!(deployer.stepped().preview().await.unwrap(), 1);
    assert_eq!(shop.check_runs(&first).len() + shop.check_runs(&second).len(), 1);
    assert_eq!(waits(&deployer).await, SignedDuration::from_secs(3));
    assert_eq!(deployer.stepped().preview().await.unwrap(), 1);
    assert_eq!(deployer.stepped().due().await.unwrap(), None);
    for head in [first, second] {
        assert_eq!(check(&shop, &head).1, "1 target is new");
    }
    ends(&deployer).await;
}

#[tokio::test]
async fn trouble_puts_it_off_and_it_is_shown_in_the_end() {
    let deployer = Deployer::start_as_app().await;
    let shop = shop(&deployer);
    let (number, head) = opens(&shop, "more").await;
    for trouble in ["GET pulls files", "GET contents", "POST check-runs"] {
        deployer.github.fails(1, trouble, Fault::BadGateway);
        assert_eq!(deployer.stepped().preview().await.unwrap(), 1, "{trouble}");
        assert_eq!(shop.check_runs(&head), Vec::<Json>::new(), "{trouble}");
        assert!(summary(&deployer, number).await.contains("502"), "{trouble}");
        let wait = waits(&deployer).await;
        assert!((1..60).contains(&wait.as_secs()), "{trouble}: {wait:#}");
    }
    assert_eq!(deployer.stepped().preview().await.unwrap(), 1);
    assert_eq!(check(&shop, &head).1, "1 target is new");
    ends(&deployer).await;
}

#[tokio::test]
async fn what_cannot_be_found_out_is_said_in_the_end() {
    let deployer = Deployer::start_as_app().await;
    let shop = shop(&deployer);
    let (number, head) = opens(&shop, "more").await;
    // Each look asks for the file and for the folder of several apps.
    deployer.github.fails(2 * 18, "GET contents", Fault::BadGateway);
    let time = deployer.settle().await;
    let hours = time.as_hours();
    assert!((0..2).contains(&hours) && time > SignedDuration::from_mins(30), "{time:#}");
    let (run, title) = check(&shop, &head);
    assert_eq!(title, "could not be previewed");
    assert_eq!((&run["status"], &run["conclusion"]), (&json!("completed"), &json!("neutral")));
    assert!(run["output"]["summary"].as_str().unwrap().contains("502"), "{run}");
    assert!(summary(&deployer, number).await.contains("502"));
    ends(&deployer).await;
}

/// A check run that says for ever that it is under way would hold up the pull request.
#[tokio::test]
async fn what_takes_longer_than_a_moment_is_under_way_until_its_end_is_said() {
    let deployer = Deployer::start_as_app().await;
    let shop = shop(&deployer);
    let (_, head) = opens(&shop, "more").await;
    deployer.github.fails(1, "GET contents", Fault::Held);
    deployer.github.fails(1, "GET contents", Fault::Unprocessable);
    let previewed = deployer.stepped().preview();
    let shown = async {
        deployer.github.asked(1, "POST check-runs").await;
        let shown = check(&shop, &head);
        deployer.github.lets_go();
        shown
    };
    let (attempts, (run, title)) = tokio::join!(previewed, shown);
    assert_eq!(attempts.unwrap(), 1);
    assert_eq!((title.as_str(), &run["status"]), ("in progress", &json!("in_progress")));
    let (end, title) = check(&shop, &head);
    assert_eq!((title.as_str(), &end["id"]), ("could not be previewed", &run["id"]));
    assert_eq!((&end["status"], &end["conclusion"]), (&json!("completed"), &json!("neutral")));
    assert_eq!(writes(&deployer), 2);
    deployer.settle().await;
    ends(&deployer).await;
}

#[tokio::test]
async fn the_same_is_not_written_twice() {
    let deployer = Deployer::start_as_app().await;
    let shop = shop(&deployer);
    let (number, head) = opens(&shop, "more").await;
    deployer.settle().await;
    let before = check(&shop, &head);
    assert_eq!(writes(&deployer), 1);
    // GitHub tells of it again, with a newer time: it may have another base.
    deployer.clock.advance(std::time::Duration::from_secs(9));
    shop.tells_of_pull_request(number, "reopened").await;
    assert_eq!(deployer.stepped().preview().await.unwrap(), 1, "it is looked at again");
    assert_eq!(summary(&deployer, number).await, "same");
    assert_eq!((writes(&deployer), check(&shop, &head)), (1, before));
    ends(&deployer).await;
}

#[tokio::test]
async fn a_panic_ends_one_preview_and_not_the_loop() {
    let deployer = Deployer::start_as_app().await;
    let shop = shop(&deployer);
    let other = shop.opens_pull_request("readme", &[("README.md", "hello")]).await;
    let (_, head) = opens(&shop, "more").await;
    let bug = Bug::at("preview not needed");
    assert_eq!(deployer.stepped().preview().await.unwrap(), 2);
    assert!(bug.happened());
    let why = "a fault in the-deployer itself; its log has the details";
    assert_eq!(summary(&deployer, other).await, why);
    assert_eq!(check(&shop, &head).1, "1 target is new");
    ends(&deployer).await;
}

#[tokio::test]
async fn who_dies_too_often_is_given_up() {
    let deployer = Deployer::start_as_app().await;
    let shop = shop(&deployer);
    let (number, head) = opens(&shop, "more").await;
    let lease = std::time::Duration::from_secs(1);
    for _ in 0..MAX_DEATHS {
        let store = deployer.stepped().store();
        let dead = store.claim_preview("dead", deployer.clock.now(), lease).await.unwrap();
        assert!(dead.is_some());
        deployer.clock.advance(lease);
    }
    assert_eq!(deployer.stepped().preview().await.unwrap(), 1);
    let why = "given up: the service died at each attempt";
    assert_eq!(summary(&deployer, number).await, why);
    assert_eq!(shop.check_runs(&head), Vec::<Json>::new());
    ends(&deployer).await;
}
