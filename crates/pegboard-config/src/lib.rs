//! Configuration files in JSON with comments.
//!
//! A [`document::Document`] knows the line of every value. A [`keys::Section`] is a table of keys: it
//! reads an object and reports all problems at once, and the JSON Schema ([`schema`]) and the
//! reference page ([`markdown`]) are made from the same table. [`variables`] substitutes
//! `${NAME}` and `${file:PATH}`. Which sections exist is decided by the crates that use this one.

pub mod document;
pub mod env_file;
pub mod keys;
pub mod markdown;
mod problems;
pub mod schema;
mod secret_file;
mod values;
pub mod variables;
pub mod web;
