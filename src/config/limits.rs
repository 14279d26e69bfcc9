//! Limits on work, time, memory and connections.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::resolver::Resolver;

/// The shortest timeout of lookups: two tries with a pause between them must fit in.
const SHORTEST_LOOKUP: Duration = Duration::from_millis(500);

/// The longest timeout of lookups: a worker that waits for longer is lost for other work.
const LONGEST_LOOKUP: Duration = Duration::from_mins(1);

/// The default rate of requests: twenty a second, more than any caller needs who waits for the answers.
const REQUESTS_PER_MINUTE: u32 = 1200;

/// Limits.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    /// The number of deployments that are processed at once. Most of the time they wait, for the code host or for a
    /// push: this also limits how many go into one push. Default: 128.
    #[schemars(range(min = 1, max = 256))]
    workers: Option<u32>,
    /// The time without a sign of life after which another worker takes a deployment over: `30s`.
    lease: Option<String>,
    /// The longest time for all lookups of a deployment: `10s`.
    lookups: Option<String>,
    /// The largest body of a webhook in bytes. Default: 1048576; GitHub sends at most 26214400.
    #[schemars(range(min = 1024, max = 26_214_400))]
    body: Option<u32>,
    /// The longest time for the body of a webhook to arrive: `7s`. A body slower than 16 KiB a second gets less.
    body_timeout: Option<String>,
    /// The longest time for the head of a request to arrive: `10s`.
    header_timeout: Option<String>,
    /// The longest silence of a connection between two requests: `90s`. Longer than proxies keep theirs.
    idle_timeout: Option<String>,
    /// The longest time in which a client reads nothing of its answer: `10s`.
    write_timeout: Option<String>,
    /// The number of open connections. Default: 2048, or fewer if the limit of open files requires it.
    #[schemars(range(min = 16, max = 65_536))]
    connections: Option<u32>,
    /// The number of open connections of one client address; in IPv6, of one network of 64 bits. Those of
    /// `server.trusted_proxies` are not counted. Default: half of `connections`.
    #[schemars(range(min = 8, max = 65_536))]
    connections_per_address: Option<u32>,
    /// The number of requests to the API and the pages that a caller may make in a minute. Default: 1200.
    #[schemars(range(min = 1, max = 1_000_000))]
    requests_per_minute: Option<u32>,
}

/// Limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// The number of deployments that are processed at once.
    pub workers: usize,
    /// The time without a sign of life after which another worker takes a deployment over.
    pub lease: Duration,
    /// The longest time for all lookups of a deployment.
    pub lookups: Duration,
    /// The largest body of a webhook in bytes.
    pub body: usize,
    /// The longest time for a webhook's body to arrive.
    pub body_timeout: Duration,
    /// The longest time for the head of a request to arrive.
    pub header_timeout: Duration,
    /// The longest silence of a connection between two requests.
    pub idle_timeout: Duration,
    /// The longest time in which a client reads nothing of its answer.
    pub write_timeout: Duration,
    /// The number of open connections.
    pub connections: usize,
    /// The number of open connections of one client address.
    pub connections_per_address: usize,
    /// The number of requests that a caller may make in a minute.
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
            let message = "the timeout of lookups must be between half a second and a minute";
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

    /// Reads a timeout of clients.
    fn patience(&mut self, path: &str, text: Option<String>, default: u64) -> Duration {
        let patience = self.duration(path, text, default);
        if !(Duration::from_millis(100)..=Duration::from_mins(5)).contains(&patience) {
            let message = "the timeout must be between 100 ms and five minutes";
            self.report.error(path, message, &format!("write `{default}s`"));
        }
        patience
    }
}
