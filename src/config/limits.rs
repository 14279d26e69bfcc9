//! Bounds.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::resolver::Resolver;

/// Two tries with a pause between them must fit in.
const SHORTEST_LOOKUP: Duration = Duration::from_millis(500);

/// A worker that waits for longer is one less.
const LONGEST_LOOKUP: Duration = Duration::from_mins(1);

/// Twenty a second: more than anybody asks who waits for the answers.
const REQUESTS_PER_MINUTE: u32 = 1200;

/// Bounds.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    /// How many deployments are worked on at once. Most of the time they wait, for the code host
    /// and for the push they go along with: this also bounds how many go in one push. Default: 128.
    #[schemars(range(min = 1, max = 256))]
    workers: Option<u32>,
    /// After how long without a sign of life a worker's deployment is taken over: `30s`.
    lease: Option<String>,
    /// How long a deployment waits for everything that is looked up for it: `10s`.
    lookups: Option<String>,
    /// The largest body of a webhook in bytes. Default: 1048576; GitHub sends at most 26214400.
    #[schemars(range(min = 1024, max = 26_214_400))]
    body: Option<u32>,
    /// How long the body of a webhook may take to arrive: `7s`. One that comes slower than 16 KiB a
    /// second is not waited for so long.
    body_timeout: Option<String>,
    /// How long the head of a request may take to arrive: `10s`.
    header_timeout: Option<String>,
    /// How long a connection may be silent between two requests: `90s`. Longer than proxies keep theirs.
    idle_timeout: Option<String>,
    /// How long a client may take nothing of its answer: `10s`.
    write_timeout: Option<String>,
    /// How many connections are open at once. Default: 2048, and fewer where the limit on open
    /// files asks for it.
    #[schemars(range(min = 16, max = 65_536))]
    connections: Option<u32>,
    /// How many of them one client address has; of IPv6, one network of 64 bits. Those of
    /// `server.trusted_proxies` are not counted. Default: half of `connections`.
    #[schemars(range(min = 8, max = 65_536))]
    connections_per_address: Option<u32>,
    /// How many requests to the API and the pages a caller may make in a minute. Default: 1200.
    #[schemars(range(min = 1, max = 1_000_000))]
    requests_per_minute: Option<u32>,
}

/// Bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// How many deployments are worked on at once.
    pub workers: usize,
    /// After how long without a sign of life a worker's deployment is taken over.
    pub lease: Duration,
    /// How long a deployment waits for everything that is looked up for it.
    pub lookups: Duration,
    /// The largest body of a webhook in bytes.
    pub body: usize,
    /// How long a webhook's body may take to arrive.
    pub body_timeout: Duration,
    /// How long the head of a request may.
    pub header_timeout: Duration,
    /// How long a connection may be silent between two requests.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Duration,
    /// How many connections are open at once.
    pub connections: usize,
    /// How many of them one client address has.
    pub connections_per_address: usize,
    /// How many requests a caller may make in a minute.
    pub requests_per_minute: u32,
}

impl Resolver<'_> {
    pub(super) fn limits(&mut self, limits: Limits) -> LimitSettings {
        let Limits {
            workers,
            lease,
            lookups,
            body,
            body_timeout,
            header_timeout,
            idle_timeout,
            write_timeout,
            connections,
            connections_per_address,
            requests_per_minute,
        } = limits;
        let connections = connections.unwrap_or(2048);
        let lease = self.duration("limits.lease", lease, 30);
        let lookups = self.duration("limits.lookups", lookups, 10);
        if !(SHORTEST_LOOKUP..=LONGEST_LOOKUP).contains(&lookups) {
            let message = "the timeout of lookups must be between a second and a minute";
            self.report.error("limits.lookups", message, "write `10s`");
        }
        if lease < Duration::from_secs(1) {
            self.report.error(
                "limits.lease",
                "a lease this short ends before it is renewed",
                "write `30s`",
            );
        }
        LimitSettings {
            workers: workers.unwrap_or(128) as usize,
            lease,
            lookups,
            body: body.unwrap_or(1024 * 1024) as usize,
            body_timeout: self.patience("limits.body_timeout", body_timeout, 7),
            header_timeout: self.patience("limits.header_timeout", header_timeout, 10),
            idle_timeout: self.patience("limits.idle_timeout", idle_timeout, 90),
            write_timeout: self.patience("limits.write_timeout", write_timeout, 10),
            connections: connections as usize,
            connections_per_address: connections_per_address.unwrap_or(connections / 2) as usize,
            requests_per_minute: requests_per_minute.unwrap_or(REQUESTS_PER_MINUTE),
        }
    }

    /// Reads how long a client is waited for.
    fn patience(&mut self, path: &str, text: Option<String>, default: u64) -> Duration {
        let patience = self.duration(path, text, default);
        if !(Duration::from_millis(100)..=Duration::from_mins(5)).contains(&patience) {
            let message = "the timeout must be between 100 ms and five minutes";
            self.report.error(path, message, &format!("write `{default}s`"));
        }
        patience
    }
}
