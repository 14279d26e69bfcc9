//! LINT: what the text of a template reads, held against what there is to read.

mod components; // what components are given
mod expressions; // what a tag's expression stands for
pub(crate) mod reads; // what a template reads
pub(crate) mod shape; // what there is to read
pub(crate) mod undefined; // what is read and is not there
