//! People and programs are told, over real HTTP.

mod events; // programs: signed events of every change
mod schema; // what CDEvents must look like
