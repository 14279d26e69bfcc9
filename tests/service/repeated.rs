//! Acts with an `Idempotency-Key`, end to end: an act whose answer cannot be kept is not done, and one whose
//! process was killed is done once, however often it is asked for.

use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::harness::database;
use crate::harness::events::Event;
use crate::harness::postgres;
use crate::harness::process::{Home, Process};

const APP: &str = "/apps/prod-cluster-1/devx/shop";

/// A service with `shop` deployed as `v1` to `v3`, on one of the databases.
struct Shop {
    home: Home,
    database: database::Url,
    process: Process,
}

/// What was answered: the status, whether it is a replay, and the body.
type Answer = (u16, bool, Json);

impl Shop {
    async fn sqlite() -> Self {
        let home = Home::embedded();
        let url = database::Url::of(format!("sqlite:{}", home.state("state.db").display()));
        Self::deployed(home, url).await
    }

    /// `None` where PostgreSQL is not installed, which is said.
    async fn postgres() -> Option<Self> {
        let url = postgres::fresh_database().await?;
        let home = Home::configured(&format!("storage: {{url: \"{url}\"}}\n"));
        Some(Self::deployed(home, database::Url::of(url)).await)
    }

    async fn deployed(home: Home, database: database::Url) -> Self {
        let process = home.start().await;
        let shop = Self { home, database, process };
        for n in 1..=3 {
            let id = Event::of_app(&shop.home, n, "shop").accepted(&shop.process).await;
            assert_eq!(shop.process.ended(&id).await["state"], "succeeded");
        }
        shop
    }

    async fn execute(&self, sql: &str) {
        let url = self.database.for_driver();
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
        pool.close().await;
    }

    /// From now on no answer can be kept.
    async fn jam(&self) {
        self.execute(if self.database.is_sqlite() {
            "CREATE TRIGGER jam BEFORE UPDATE OF status ON answers \
             BEGIN SELECT RAISE(ABORT, 'no room'); END"
        } else {
            "CREATE OR REPLACE FUNCTION jam() RETURNS trigger AS \
             $$ BEGIN RAISE EXCEPTION 'no room'; END $$ LANGUAGE plpgsql; \
             CREATE TRIGGER jam BEFORE UPDATE OF status ON answers \
             FOR EACH ROW EXECUTE FUNCTION jam()"
        })
        .await;
    }

    async fn unjam(&self) {
        let on = if self.database.is_sqlite() { "" } else { " ON answers" };
        self.execute(&format!("DROP TRIGGER jam{on}")).await;
    }

    /// SIGKILL, and a start after it; killed again the moment that it says the word, if there is one.
    async fn killed_and_started(self, word: Option<&str>) -> Self {
        let Self { home, database, process } = self;
        process.kill();
        let process = match word {
            Some(word) => home.start_doomed(word).await,
            None => home.start().await,
        };
        Self { home, database, process }
    }

    /// How often an act was done.
    async fn done(&self, act: &str) -> usize {
        let log = self.process.json(&format!("/api/v1/audit?act={act}")).await;
        log["entries"].as_array().unwrap().len()
    }
}

async fn ask(process: &Process, path: &str, key: &str, body: &Json) -> Option<Answer> {
    let request = process.request(Method::POST, &format!("/api/v1{path}"));
    let sent = request.header("idempotency-key", key).json(body).send().await.ok()?;
    let replayed = sent.headers().contains_key("idempotent-replayed");
    Some((sent.status().as_u16(), replayed, sent.json().await.ok()?))
}

/// One act on the shop, in the words of the audit log.
fn act(name: &str, lock: &str) -> (String, Json) {
    let why = json!({"reason": "x"});
    match name {
        "lock" => ("/locks".to_owned(), json!({"scope": {"owner": "a@b.c"}, "reason": "x"})),
        "unlock" => (format!("/locks/{lock}/remove"), why),
        "deploy" => {
            let what = json!({
                "repository": "example/shop", "ref": "main", "tag": "v4", "target": "prod-cluster-1",
            });
            ("/deployments".to_owned(), what)
        }
        other => (format!("{APP}/{other}"), why),
    }
}

/// Each act in an order in which each can be done. A cancellation, which needs a deployment that waits, is
/// tried on the store.
const ACTS: [&str; 7] = ["lock", "unlock", "hold", "release", "rollback", "deploy", "remove"];

async fn at_rest(shop: &Shop) {
    for one in shop.process.deployments().await {
        if one["app"] == "devx/shop" || one["tag"] == "v4" {
            shop.process.ended(one["id"].as_str().unwrap()).await;
        }
    }
}

async fn nothing_is_done_without_its_answer(mut shop: Shop) {
    let mut lock = String::new();
    for name in ACTS {
        let (path, body) = act(name, &lock);
        let commits = shop.home.manifests().commits();
        shop.jam().await;
        let (status, _, said) = ask(&shop.process, &path, name, &body).await.unwrap();
        assert_eq!(status, 503, "{name}: {said}");
        // A removal is recorded before it is done; nothing else is anything yet.
        let begun = usize::from(name == "remove");
        assert_eq!(shop.done(name).await, begun, "{name} was done without its answer");
        assert_eq!(shop.home.manifests().commits(), commits + begun, "{name}");
        shop.unjam().await;
        shop = shop.killed_and_started(None).await;
        let (status, replayed, said) = ask(&shop.process, &path, name, &body).await.unwrap();
        assert!((200..300).contains(&status) && !replayed, "{name}: {status} {said}");
        let again = ask(&shop.process, &path, name, &body).await.unwrap();
        assert_eq!(again, (status, true, said.clone()), "{name}");
        assert_eq!(shop.done(name).await, 1, "{name} was done twice");
        lock = said["id"].as_str().map_or(lock, str::to_owned);
        at_rest(&shop).await;
        if name == "remove" {
            assert_eq!(said["outcome"], "removed", "{said}");
            assert_eq!(shop.home.manifests().commits(), commits + 1);
        }
    }
}

#[tokio::test]
async fn nothing_is_done_without_its_answer_on_sqlite() {
    nothing_is_done_without_its_answer(Shop::sqlite().await).await;
}

#[tokio::test]
async fn nothing_is_done_without_its_answer_on_postgres() {
    if let Some(shop) = Shop::postgres().await {
        nothing_is_done_without_its_answer(shop).await;
    }
}

#[tokio::test]
async fn killed_when_it_has_acted_a_repeat_finds_the_answer() {
    let words = [
        ("lock", "lock placed"),
        ("hold", "hold placed"),
        ("rollback", "rollback accepted"),
        ("deploy", "deployment accepted"),
        ("remove", "removal pushed"),
    ];
    let mut shop = Shop::sqlite().await;
    for (name, word) in words {
        let commits = shop.home.manifests().commits();
        shop = shop.killed_and_started(Some(&format!("\"{word}"))).await;
        let (path, body) = act(name, "");
        // It may have been faster than its killer.
        let first = ask(&shop.process, &path, name, &body).await;
        shop = shop.killed_and_started(None).await;
        let (status, _, said) = ask(&shop.process, &path, name, &body).await.unwrap();
        assert!((200..300).contains(&status), "{name}: {status} {said}");
        if let Some((_, _, first)) = first {
            assert_eq!(said, first, "{name}");
        }
        assert_eq!(shop.done(name).await, 1, "{name}");
        at_rest(&shop).await;
        if name == "remove" {
            assert_eq!(said["outcome"], "removed", "{said}");
            assert_eq!(shop.home.manifests().commits(), commits + 1);
        }
    }
}
