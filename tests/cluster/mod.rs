//! Tests when a deployment is finished in a cluster: recorded watches, hand-made objects, and the messages.

mod canaries;
mod experiments; // the four of the document on canaries
mod causes;
mod fixed;
mod index;
mod kinds;
mod log_tail; // the end of a container's log
mod named;
mod odd;
mod pauses; // time in which nothing is looked at
mod property;
mod recorded;
mod relay; // from an agent to the service
mod relay_logs; // the ends of logs that an agent reports
mod sight;
mod sync;
mod world;
