//! The agent against a scripted provider that refuses what the real ones refuse, with servers
//! in this process. One test binary, so that it links once.

mod custom;
mod examples;
mod flow;
mod interruptions;
mod limits;
mod modes;
mod offloading;
mod people;
mod state;
mod support;
