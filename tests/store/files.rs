//! Tests what is particular to a file, and to a URL.

use std::os::unix::fs::PermissionsExt as _;

use secrecy::SecretString;
use the_deployer::model::deployment::State;
use the_deployer::store::{Ailment, Store, StoreError};

use crate::harness::database::run_on_both;
use crate::harness::folder;
use crate::harness::postgres::PASSWORD;
use crate::harness::requests::{delivery, id, request};
use crate::store::{accept, claim};

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(&SecretString::from(url)).await
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart() {
    run_on_both(async |db| {
        let first = accept(&db.store, "web", 1).await;
        let _claim = claim(&db.store, 2).await;
        db.store.close().await;
        let again = db.reopened().await;
        let stored = again.deployment(&first).await.unwrap().unwrap();
        assert_eq!(stored.state, State::Running);
        assert_eq!(claim(&again, 99).await.unwrap().deployment.id, first);
    })
    .await;
}

#[tokio::test]
async fn two_processes_share_one_database() {
    run_on_both(async |db| {
        let other = db.reopened().await;
        for n in (0..20).step_by(2) {
            tokio::join!(accept(&db.store, "web", n), accept(&other, "api", n + 1));
        }
        let mut claims = [claim(&db.store, 99).await, claim(&other, 99).await]
            .map(|claim| claim.unwrap().deployment.request.forge_id);
        claims.sort_unstable();
        assert_eq!(claims, [18, 19]);
    })
    .await;
}

#[tokio::test]
async fn the_file_and_its_folder_are_made_and_private() {
    let folder = folder::temporary();
    let path = folder.path().join("a b/ü?#%/deployer.db");
    assert!(open(&format!("sqlite:{}", path.display())).await.is_err(), "`?` begins options");
    let path = folder.path().join("a b/ü#%/deployer.db");
    let store = open(&format!("sqlite:{}", path.display())).await.unwrap();
    accept(&store, "web", 1).await;
    let mut files = 0;
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        files += 1;
    }
    assert!(files >= 2, "the database and its journal");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let error = open("sqlite:/dev/null/x/deployer.db").await.unwrap_err().to_string();
    assert!(error.contains("/dev/null/x/deployer.db"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = folder::temporary();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "not a database, but long enough to be read as one".repeat(100)).unwrap();
    let error = open(&format!("sqlite:{}", path.display())).await.unwrap_err().to_string();
    assert!(error.contains("notes.txt"), "{error}");
    assert!(
        error.contains("the-deployer restore") && error.contains("the-deployer rebuild"),
        "{error}"
    );
}

#[tokio::test]
async fn a_damaged_database_names_the_ways_out() {
    let folder = folder::temporary();
    let path = folder.path().join("deployer.db");
    let url = format!("sqlite:{}", path.display());
    let store = open(&url).await.unwrap();
    for n in 0..40 {
        accept(&store, "web", n).await;
    }
    store.close().await;
    let mut bytes = std::fs::read(&path).unwrap();
    // The first page stays: it is still a database, with tables.
    for byte in bytes.iter_mut().skip(2 * 4096) {
        *byte = 0xa5;
    }
    std::fs::write(&path, bytes).unwrap();
    let error = match open(&url).await {
        Ok(store) => store.depth().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.ailment(), Ailment::Damaged, "{error}");
    let error = error.to_string();
    assert!(
        error.contains("the-deployer restore") && error.contains("the-deployer rebuild"),
        "{error}"
    );
}

#[tokio::test]
async fn a_password_appears_in_no_error() {
    for url in [
        "postgres://deployer:s3cret@127.0.0.1:1/deployer?password=s3cret",
        "postgres://deployer:s3cret@127.0.0.1:notaport/deployer",
        "postgres://deployer:s3cret@[::1/deployer",
        "mysql://deployer:s3cret@db/deployer",
        "deployer:s3cret@db/deployer",
        "s3cret",
    ] {
        let error = open(url).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[tokio::test]
async fn a_store_does_not_show_its_password() {
    run_on_both(async |db| assert!(!format!("{:?}", db.store).contains(PASSWORD))).await;
}

#[tokio::test]
async fn a_url_of_nothing_we_know_says_what_to_write() {
    for url in ["sqlite:", "sqlite::memory:", "mysql://db/deployer", "deployer.db"] {
        let error = open(url).await.unwrap_err().to_string();
        assert!(error.contains("sqlite:PATH"), "{error}");
    }
}

#[tokio::test]
async fn the_database_answers_until_it_is_closed() {
    run_on_both(async |db| {
        let now = crate::harness::requests::at(0);
        db.store.ready("replica", now).await.unwrap();
        db.store.close().await;
        assert!(db.store.ready("replica", now).await.is_err());
        let asked = request("web", "prod", 1);
        assert!(db.store.accept(&delivery(1), &asked, &id(1), now).await.is_err());
    })
    .await;
}
