//! `bart deploy` and `bart rollout`, against the real service.

mod github; // where deployments are GitHub's
mod daily; // init, doctor, promote, holds
mod local; // where the service has the repositories
mod rollouts; // bart rollout
mod traffic; // bart traffic
mod canary; // the steps and times of a canary
mod hand_edits; // bart import-edit
mod several_apps; // several apps in one repository
