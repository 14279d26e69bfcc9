//! Measures the floor of every writer: the server's own time for one `POST git-receive-pack` of a pack with exactly the
//! new objects. The pack is made before the clock runs.

use std::path::Path;
use std::time::{Duration, Instant};

use git2::{Oid, Repository};
use reqwest::Client;
use tokio::runtime::Runtime;

use crate::host::{Host, TOKEN};
use crate::shape::Deployment;
use crate::ways::{REPOSITORY, Way, objects};

const REFERENCE: &str = "refs/heads/floor";

pub struct Floor {
    repository: Repository,
    tip: Oid,
    address: String,
    client: Client,
    runtime: Runtime,
}

impl Floor {
    pub fn ready(host: &Host, folder: &Path) -> Self {
        let (repository, tip) = objects::clone(host, folder, "floor");
        Self {
            repository,
            tip,
            address: format!("{}/git-receive-pack", host.url(REPOSITORY)),
            client: Client::new(),
            runtime: Runtime::new().expect("threads"),
        }
    }

    fn request(&self, commit: Oid) -> Vec<u8> {
        let command = format!("{} {commit} {REFERENCE}\0 report-status", self.tip);
        let mut body = format!("{:04x}{command}0000", command.len() + 4).into_bytes();
        let mut pack = self.repository.packbuilder().expect("a pack");
        for object in objects::new_objects(&self.repository, self.tip, commit) {
            pack.insert_object(object, None).expect("an object");
        }
        let mut bytes = git2::Buf::new();
        pack.write_buf(&mut bytes).expect("the pack's bytes");
        body.extend_from_slice(&bytes);
        body
    }

    fn post(&self, body: Vec<u8>) -> String {
        let request = self
            .client
            .post(&self.address)
            .basic_auth("x-access-token", Some(TOKEN))
            .header("content-type", "application/x-git-receive-pack-request")
            .body(body);
        self.runtime.block_on(async {
            let answer = request.send().await.expect("an answer");
            assert!(answer.status().is_success(), "the host answers {}", answer.status());
            String::from_utf8_lossy(&answer.bytes().await.expect("a report")).into_owned()
        })
    }
}

impl Way for Floor {
    fn write(&mut self, deployment: &Deployment) -> Duration {
        let commit = objects::commit(&self.repository, self.tip, deployment);
        let body = self.request(commit);
        let begun = Instant::now();
        let report = self.post(body);
        let took = begun.elapsed();
        let done = report.contains("unpack ok") && report.contains(&format!("ok {REFERENCE}"));
        assert!(done, "the host refuses the pack: {report}");
        self.tip = commit;
        took
    }
}
