//! The loops: real database, world in memory, clock moved by hand.

mod crashes; // a worker dies, another finishes, nothing is doubled
mod deployments; // how a deployment ends
mod logs; // what an operator reads
mod loops; // workers side by side, shutdown
mod previews; // pull requests are previewed
mod reports; // the forge is told
mod stopped; // a person stops what is under way
mod sweeps; // events that were lost are found
