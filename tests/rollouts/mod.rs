//! Tests rollouts: the whole program on a clock that the test moves, over several targets, on both databases.

pub(crate) mod world; // the service, its targets, and what people do to rollouts
mod forward; // one target after the other, gates, and what people do
mod shifts; // weights in steps
mod back; // the way back, byte for byte
mod meetings; // locks, people, other rollouts, and targets that vanish
mod crashes; // the process dies, and two replicas race
mod triggers; // a deployment of GitHub starts one
mod commit_status; // what the commit of the release shows, and GitHub's deployments
mod events; // what programs are told
mod slack_thread; // what the team's channel reads
mod approvals; // people approve in Slack
