//! Tests that a watch takes the memory of a page, and no more.

use std::sync::mpsc;

use serde_json::{Value as Json, json};

use crate::harness::api_server::{ApiServer, deployment, pod};
use crate::harness::memory::{MIB, peak};
use crate::watch::watcher::Watcher;

/// A server in a thread of its own, whose memory does not count; it lives until the sender is dropped.
fn elsewhere(fill: impl FnOnce(&ApiServer) + Send + 'static) -> (String, mpsc::Sender<()>) {
    let (tell, told) = mpsc::channel();
    let (keep, kept) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ApiServer::start());
        runtime.block_on(async { server.install_custom_resources() });
        fill(&server);
        tell.send(server.url()).unwrap();
        let _dropped = kept.recv();
    });
    (told.recv().unwrap(), keep)
}

/// Watches until everything is listed, in one thread.
fn peak_of_a_list(address: &str) -> u64 {
    let ((), bytes) = peak(|| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let mut watcher = Watcher::at(address).forgetful().start();
            watcher.settles().await;
        });
    });
    bytes
}

/// As large as a real one.
fn large(mut object: Json) -> Json {
    object["metadata"]["managedFields"] = json!([{"fieldsV1": {"f:x": "y".repeat(4000)}}]);
    object["spec"] =
        json!({"containers": [{"name": "c", "env": [{"name": "A", "value": "b".repeat(3500)}]}]});
    object
}

#[test]
fn a_list_of_two_thousand_pods_takes_a_page_of_memory() {
    let (small, _server) = elsewhere(|_| {});
    let (address, _other) = elsewhere(|server| {
        server.edit(|world| {
            for n in 0..2000 {
                world.apply(large(pod("devx", &format!("p-{n}"))));
            }
        });
    });
    let (empty, full) = (peak_of_a_list(&small), peak_of_a_list(&address));
    assert!(
        full < empty + 3 * MIB,
        "{} KiB beyond {} KiB, of 16 MiB",
        (full - empty) / 1024,
        empty / 1024
    );
}

#[test]
fn objects_with_a_megabyte_of_annotations_are_listed_in_smaller_pages() {
    let (address, _server) = elsewhere(|server| {
        server.edit(|world| {
            for n in 0..40 {
                let mut object = deployment("devx", &format!("d-{n}"));
                object["metadata"]["annotations"] = json!({"note": "x".repeat(1024 * 1024)});
                world.apply(object);
            }
        });
    });
    let bytes = peak_of_a_list(&address);
    assert!(bytes < 48 * MIB, "{} MiB", bytes / MIB);
}
