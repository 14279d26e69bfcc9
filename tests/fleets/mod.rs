//! Tests of fleets: one deployment over several clusters, in the whole service.

mod world; // the service with a fleet of three clusters
mod deploying; // one push for all clusters, or none
mod back; // rollbacks of a fleet, and clusters that join and leave
mod stops; // locks, holds, removals and deployments of single clusters
mod plans; // what each cluster would get
mod rollouts; // a fleet as the target of a rollout
mod progress; // the clusters of a fleet, each watched
mod pages; // what its pages show, and those of its clusters
mod canary_news; // what Slack reads of its canaries
