//! The loops, told by the whole program: real database, real git, GitHub's stand-in, a clock moved by hand.

mod acts; // what people do in these stories
mod crashes; // a worker dies, another finishes, nothing is doubled
mod deployments; // how a deployment ends
mod logs; // what an operator reads
mod loops; // what wakes them, how they end, leases
mod previews; // pull requests are previewed
mod reports; // the forge and others are told
mod stopped; // a person stops what is under way
mod sweeps; // events that were lost are found
