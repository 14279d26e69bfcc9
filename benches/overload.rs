//! Signed webhooks while somebody without the secret attacks: how long until their 202, and how much
//! memory the service ever had.
//!
//! `cargo bench --profile fast --bench overload`. Each attack meets a service of its own, which
//! is asked the same before the attack; the ratio of both is printed. All of it stays on this machine.

#![allow(
    missing_docs,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark measures real time, and may fail loudly"
)]

#[path = "../tests/harness/attack.rs"]
mod attack;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::attack::{Attack, peak_memory, signed_webhooks};

const WEBHOOKS: usize = 400;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    println!("{:<16} {:>9} {:>9} {:>7} {:>9}", "", "p50", "p99", "times", "peak MiB");
    for attack in Attack::ALL {
        let folder =
            std::env::temp_dir().join(format!("the-deployer-overload-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        runtime.block_on(measure(attack, &folder));
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}

async fn measure(attack: Attack, folder: &Path) {
    let service = Service::start(folder);
    let quiet = service.webhooks(1).await;
    let calm = peak_memory(&service.child.id().to_string());
    let attacking = attack.begin(service.address).await;
    let busy = service.webhooks(WEBHOOKS + 1).await;
    drop(attacking);
    let peak = peak_memory(&service.child.id().to_string());
    line("without", &quiet, 1.0, calm);
    let times = percentile(&busy, 99).as_secs_f64() / percentile(&quiet, 99).as_secs_f64();
    line(&format!("{attack:?}"), &busy, times, peak);
}

fn line(name: &str, took: &[Duration], times: f64, peak: u64) {
    let millis = |percent| percentile(took, percent).as_secs_f64() * 1000.0;
    println!(
        "{name:<16} {:>6.1} ms {:>6.1} ms {times:>7.1} {:>9.1}",
        millis(50),
        millis(99),
        peak as f64 / 1024.0 / 1024.0
    );
}

fn percentile(took: &[Duration], percent: usize) -> Duration {
    let mut took = took.to_vec();
    took.sort_unstable();
    took[(took.len() * percent / 100).min(took.len() - 1)]
}

/// The real program, with the limits that it has by default.
struct Service {
    child: Child,
    address: SocketAddr,
    secret: String,
}

impl Service {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_the-deployer"))
            .args(["serve", "--log-format", "json"])
            .current_dir(folder)
            .env("THE_DEPLOYER_SERVER_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the service starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its log")).lines();
        let listening = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "listening").then(|| line["address"].as_str()?.parse().ok())?
        });
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let secret = std::fs::read_to_string(folder.join(".the-deployer/webhook-secret"));
        Self {
            child,
            address: listening.expect("it listens"),
            secret: secret.expect("its secret").trim_end().to_owned(),
        }
    }

    async fn webhooks(&self, first: usize) -> Vec<Duration> {
        let took = signed_webhooks(self.address, &self.secret, WEBHOOKS, first).await;
        took.unwrap_or_else(|wrong| panic!("{wrong}"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
