//! The scripted provider over its socket, as clients meet it. That the official SDKs
//! understand it is for the tests of those who have them installed.

mod cache;
mod checks;
mod client;
mod content;
mod decode;
mod faults;
mod goals;
mod prefix;
mod program;
mod wires;
