//! Histories that have been through something, with a scripted provider that refuses what the
//! real ones refuse: none of them may end a conversation for good.

mod any;
mod each;
mod support;
