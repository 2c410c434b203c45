//! Tests from the outside: the binary, and the rankers through their public interface. One test
//! binary, so that it links once. Many tests start shell scripts, so all need Unix.

#![cfg(unix)]

mod agent;
mod binary;
mod cache;
mod cases;
mod clients;
mod difflib;
mod doctor;
mod embeddings;
mod fuzz;
mod gateway;
mod guide;
mod harness;
mod lint;
mod login;
mod proxy;
mod quality;
mod reference;
mod regressions;
mod screens;
mod sessions;
mod usage;
