//! What is kept between runs: folders of files that only their owner can read and that were
//! written here.

pub(crate) mod folder;
pub(crate) mod key;
pub(crate) mod sealed;

pub(crate) use self::{folder::Folder, key::Key, sealed::Seal};
