//! The newest builds of a repository, asked of a registry with everything that registries have.

use std::time::Duration;

use serde_json::json;
use the_deployer::lookups::LookupLimits;
use the_deployer::lookups::registry::BuildsRange;
use the_deployer::lookups::registry::ImageBuilds;

use super::registry::{client, client_of, image, login, patient_client};
use crate::harness::floods::Flood;
use crate::harness::registry::{Entry, PASSWORD, Registry, Trouble};
use crate::harness::requests::at;

const PATIENCE: Duration = Duration::from_secs(30);

/// Three builds, whose order by time is not the one of their names.
fn built(registry: &Registry) {
    let mut world = registry.lock();
    world.build("a/b:1.9", "2026-11-20T10:00:00Z", "649008fb");
    world.build("a/b:1.10", "2026-11-21T10:00:00Z", "00ff00ff");
    world.build("a/b:main", "2026-11-22T10:00:00Z", "no commit at all");
}

async fn builds(registry: &Registry, with_login: bool, most: usize) -> ImageBuilds {
    let client = client(registry, with_login.then(|| login(PASSWORD)));
    client
        .builds(&image(registry, "a/b:any"), BuildsRange::first(most), PATIENCE, at(0))
        .await
        .unwrap()
}

fn tags(builds: &ImageBuilds) -> Vec<&str> {
    builds.builds.iter().map(|build| build.tag.as_str()).collect()
}

#[tokio::test]
async fn builds_come_newest_first_however_one_comes_in() {
    for (entry, with_login) in [
        (Entry::Open, false),
        (Entry::TokenForAll, false),
        (Entry::Token, true),
        (Entry::Basic, true),
    ] {
        let registry = Registry::start(entry, &[]).await;
        built(&registry);
        let found = builds(&registry, with_login, 10).await;
        assert_eq!(tags(&found), ["main", "1.10", "1.9"], "{entry:?}");
        assert_eq!((found.tags, found.complete), (3, true), "{entry:?}");
        let commits: Vec<_> = found.builds.iter().map(|build| build.commit.as_deref()).collect();
        assert_eq!(commits, [None, Some("00ff00ff"), Some("649008fb")], "{entry:?}");
        assert!(found.builds[0].digest.as_ref().unwrap().starts_with("sha256:"));
        if entry == Entry::Basic {
            let unproven = registry.proofs().iter().filter(|proof| proof.is_none()).count();
            assert_eq!(unproven, 1, "how one comes in is remembered");
        }
    }
}

#[tokio::test]
async fn tags_come_in_pages_and_only_the_likely_ones_are_looked_at() {
    let registry = Registry::start(Entry::Open, &[]).await;
    {
        let mut world = registry.lock();
        world.page = 70;
        for n in 0..200 {
            let created = format!("2026-01-01T{:02}:{:02}:00Z", n / 60, n % 60);
            world.build(&format!("a/b:1.{n}"), &created, "649008fb");
        }
    }
    let found = builds(&registry, false, 3).await;
    assert_eq!(tags(&found), ["1.199", "1.198", "1.197"]);
    assert_eq!((found.tags, found.complete), (200, false));
    let count = |part: &str| registry.asked().iter().filter(|asked| asked.contains(part)).count();
    assert_eq!(count("/tags/list"), 3);
    assert_eq!(count("/manifests/1."), 60, "and no more");
}

#[tokio::test]
async fn the_newest_is_found_where_tags_say_nothing_of_their_age() {
    let registry = Registry::start(Entry::Open, &[]).await;
    {
        let mut world = registry.lock();
        world.page = 1000;
        for n in 0..200_u32 {
            // As commits' ids are: no order of names says anything of time.
            let tag = format!("sha-{:08x}", n.wrapping_mul(0x9e37_79b1));
            let minutes = if n == 3 { 600 } else { n };
            let created = format!("2026-01-01T{:02}:{:02}:00Z", minutes / 60, minutes % 60);
            world.build(&format!("a/b:{tag}"), &created, "649008fb");
        }
    }
    let found = builds(&registry, false, 3).await;
    assert_eq!(tags(&found)[0], format!("sha-{:08x}", 3_u32.wrapping_mul(0x9e37_79b1)));
    assert_eq!((found.tags, found.complete), (200, true));
}

#[tokio::test]
async fn a_list_without_an_end_is_left() {
    let registry = Registry::start(Entry::Open, &[]).await;
    registry.lock().page = 1;
    for n in 0..40 {
        registry.lock().build(&format!("a/b:1.{n}"), "2026-11-20T10:00:00Z", "649008fb");
    }
    let found = builds(&registry, false, 5).await;
    assert_eq!((found.tags, found.complete), (20, false), "twenty pages");
    assert_eq!(
        found.notes,
        ["the registry's list of tags is longer than what is read of it, 20 pages"]
    );
}

#[tokio::test]
async fn where_the_list_has_times_no_more_is_looked_at_than_is_shown() {
    let registry = Registry::start(Entry::Open, &[]).await;
    {
        let mut world = registry.lock();
        for n in 0..100_i64 {
            world.build(&format!("a/b:{n}"), "1970-01-01T00:00:00Z", "649008fb");
            world.times.insert(n.to_string(), 1_700_000_000_000 - n * 1000);
        }
    }
    let found = builds(&registry, false, 2).await;
    assert_eq!(tags(&found), ["0", "1"]);
    assert_eq!(found.builds[0].created.unwrap().as_millisecond(), 1_700_000_000_000);
    let looked = registry.asked().iter().filter(|asked| asked.contains("/manifests/")).count();
    assert_eq!(looked, 4, "two tags, and the platform of each");
}

#[tokio::test]
async fn what_is_no_image_is_left_out_and_what_cannot_be_read_is_told_without_its_time() {
    let registry = Registry::start(Entry::Open, &[]).await;
    built(&registry);
    {
        let mut world = registry.lock();
        let chart = json!({"config": {"mediaType": "application/vnd.cncf.helm.config.v1+json",
            "digest": format!("sha256:{}", "a".repeat(64))}});
        world.built.insert("a/b:chart".to_owned(), chart);
        let lost = json!({"config": {"mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": format!("sha256:{}", "b".repeat(64))}});
        world.built.insert("a/b:lost".to_owned(), lost);
    }
    let found = builds(&registry, false, 10).await;
    assert_eq!(tags(&found), ["main", "1.10", "1.9", "lost"]);
    assert_eq!(found.builds[3].created, None);
}

#[tokio::test]
async fn blobs_are_fetched_where_they_are_kept_and_our_login_stays_behind() {
    let store = Registry::start(Entry::Open, &[]).await;
    let registry = Registry::start(Entry::Basic, &[]).await;
    built(&registry);
    store.lock().objects = registry.lock().objects.clone();
    // The same machine under another name: for the client another host.
    let elsewhere = store.host().replace("127.0.0.1", "localhost");
    registry.lock().store = Some(format!("http://{elsewhere}"));
    let client = client_of(&registry, Some(login(PASSWORD)), &[&elsewhere]);
    let found = client
        .builds(&image(&registry, "a/b:any"), BuildsRange::first(10), PATIENCE, at(0))
        .await
        .unwrap();
    assert_eq!(tags(&found), ["main", "1.10", "1.9"]);
    assert_eq!(store.asked().len(), 3);
    assert!(store.proofs().iter().all(Option::is_none), "{:?}", store.proofs());
}

#[tokio::test]
async fn a_registry_that_does_not_list_says_why() {
    let registry = Registry::start(Entry::Token, &[]).await;
    let without = client(&registry, None);
    let asked =
        without.builds(&image(&registry, "a/b:1"), BuildsRange::first(5), PATIENCE, at(0)).await;
    let said = asked.unwrap_err().to_string();
    assert!(said.contains("add a login under `registries`"), "{said}");
    registry.lock().trouble = Some(Trouble::Silent);
    let patience = Duration::from_millis(400);
    let asked =
        without.builds(&image(&registry, "a/b:1"), BuildsRange::first(5), patience, at(0)).await;
    let said = asked.unwrap_err().to_string();
    assert!(said.contains("did not list its tags within 200ms"), "{said}");
}

/// What a hostile registry's list costs in memory is measured of the program itself: `tests/service/floods.rs`.
#[tokio::test]
async fn of_a_flood_so_much_is_read_and_it_is_said() {
    for (flood, tags, note) in [
        (Flood::Page, 20_000, "longer than what is read of it, 20000 tags"),
        (Flood::LongTags, 0, "read of it, 8 MiB of a page and 16 MiB in all"),
        (Flood::Times, 0, "read of it, 8 MiB of a page and 16 MiB in all"),
    ] {
        let registry = Registry::start(Entry::Open, &[]).await;
        registry.lock().flood = Some(flood);
        let patience = LookupLimits { one_try: Duration::from_secs(30), at_once: 4 };
        let client = patient_client(&registry, patience);
        let found = client
            .builds(&image(&registry, "a/b:any"), BuildsRange::first(5), PATIENCE, at(0))
            .await
            .unwrap();
        assert_eq!((found.tags, found.complete), (tags, false), "{flood:?}");
        assert!(found.notes[0].contains(note), "{flood:?}: {:?}", found.notes);
        let pages = registry.asked().iter().filter(|asked| asked.contains("/tags/list")).count();
        assert_eq!(pages, 1, "{flood:?}");
    }
    for flood in [Flood::Bomb, Flood::Depth] {
        let registry = Registry::start(Entry::Open, &[]).await;
        registry.lock().flood = Some(flood);
        let patience = LookupLimits { one_try: Duration::from_secs(30), at_once: 4 };
        let client = patient_client(&registry, patience);
        let said = client
            .builds(&image(&registry, "a/b:any"), BuildsRange::first(5), PATIENCE, at(0))
            .await;
        let said = said.unwrap_err().to_string();
        assert!(said.contains("does not list tags as registries do"), "{flood:?}: {said}");
    }
}

#[tokio::test]
async fn a_few_lists_are_made_at_once_and_others_are_sent_away_in_time() {
    let registry = Registry::start(Entry::Open, &[]).await;
    registry.lock().flood = Some(Flood::Drip);
    let patience = LookupLimits { one_try: Duration::from_secs(30), at_once: 64 };
    let client = patient_client(&registry, patience);
    let image = image(&registry, "a/b:any");
    let asking = (0..12)
        .map(|_| client.builds(&image, BuildsRange::first(5), Duration::from_secs(4), at(0)));
    let answers = futures::future::join_all(asking).await;
    let said: Vec<String> = answers.into_iter().map(|one| one.unwrap_err().to_string()).collect();
    let turned_away = said.iter().filter(|said| said.contains("try again")).count();
    assert_eq!(turned_away, 8, "{said:?}");
    assert!(registry.asked().len() <= 4, "{:?}", registry.asked());
}

/// A registry with so many builds whose tags are commits' ids: nothing but a look at them says their order.
async fn with_commits(many: u32) -> Registry {
    let registry = Registry::start(Entry::Open, &[]).await;
    let mut world = registry.lock();
    for n in 0..many {
        let tag = format!("sha-{:08x}", n.wrapping_mul(0x9e37_79b1));
        let created = format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + n / 1440, n / 60 % 24, n % 60);
        world.build(&format!("a/b:{tag}"), &created, "649008fb");
    }
    drop(world);
    registry
}

#[tokio::test]
async fn no_page_looks_at_more_tags_than_the_most_however_far_it_lies() {
    let registry = with_commits(700).await;
    let client = client(&registry, None);
    let image = image(&registry, "a/b:any");
    let range = BuildsRange { skip: 600, limit: 50 };
    let found = client.builds(&image, range, PATIENCE, at(0)).await.unwrap();
    let looked = registry.asked().iter().filter(|asked| asked.contains("/manifests/sha-")).count();
    assert_eq!(looked, 300);
    assert_eq!((tags(&found), found.complete, found.next), (vec![], false, Some(600)));
    assert!(found.notes[0].starts_with("there may be older builds"), "{:?}", found.notes);
}

#[tokio::test]
async fn pages_go_on_in_the_order_of_the_first_whatever_is_pushed_meanwhile() {
    let registry = with_commits(100).await;
    let client = client(&registry, None);
    let image = image(&registry, "a/b:any");
    let page = async |skip| {
        let range = BuildsRange { skip, limit: 40 };
        client.builds(&image, range, PATIENCE, at(0)).await.unwrap()
    };
    let first = page(0).await;
    registry.lock().build("a/b:sha-ffffffff", "2026-12-01T00:00:00Z", "649008fb");
    let (second, third) = (page(40).await, page(80).await);
    let mut all: Vec<&str> = [&first, &second, &third].into_iter().flat_map(tags).collect();
    all.retain(|tag| *tag != "sha-ffffffff");
    assert_eq!(all.len(), 100);
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), 100, "each once");
    assert_eq!((first.next, second.next, third.next.is_none()), (Some(40), Some(80), true));
    assert_eq!(tags(&page(0).await)[0], "sha-ffffffff", "the first page begins anew");
}

#[tokio::test]
async fn every_tag_is_on_some_page_however_many_there_are() {
    for versions in [false, true] {
        let registry = if versions { with_versions(400).await } else { with_commits(400).await };
        let client = client(&registry, None);
        let image = image(&registry, "a/b:any");
        let (mut all, mut next, mut before) = (Vec::new(), Some(0), 0);
        while let Some(skip) = next {
            let range = BuildsRange { skip, limit: 100 };
            let page = client.builds(&image, range, PATIENCE, at(0)).await.unwrap();
            all.extend(tags(&page).into_iter().map(str::to_owned));
            let is_tag = |asked: &&String| {
                asked.contains("/manifests/") && !asked.contains("/manifests/sha256:")
            };
            let looked = registry.asked().iter().filter(is_tag).count();
            assert!(looked - before <= 300, "{looked} after {before}");
            (next, before) = (page.next, looked);
        }
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (400, 400), "each once");
    }
}

/// A registry with so many versions.
async fn with_versions(many: u32) -> Registry {
    let registry = Registry::start(Entry::Open, &[]).await;
    let mut world = registry.lock();
    for n in 0..many {
        let created = format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + n / 1440, n / 60 % 24, n % 60);
        world.build(&format!("a/b:1.{n}.0"), &created, "649008fb");
    }
    drop(world);
    registry
}
