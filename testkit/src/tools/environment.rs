//! A tool that reports what an untrusted server can learn from environments.

use std::{collections::BTreeMap, fs};

use serde_json::json;

use super::{Tool, no_arguments, text_result};
use crate::call::{Call, Outcome};

pub(super) const TOOL: Tool = Tool {
    name: "environment",
    description: "Returns the variables of the server, of its parent and of its grandparent, as far as it can read them",
    input: no_arguments,
    run: environment,
};

type Variables = BTreeMap<String, String>;

fn environment(_: &Call) -> Outcome {
    let text = |bytes: std::ffi::OsString| bytes.to_string_lossy().into_owned();
    let own: Variables = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let parent = parent_of("self");
    let grandparent = parent.as_deref().and_then(parent_of);
    let read = |pid: Option<String>| pid.and_then(|pid| environment_of(&pid));
    let mut result = text_result("see the structured content");
    result["structuredContent"] = json!({"own": own, "parent": read(parent), "grandparent": read(grandparent)});
    Ok(result)
}

/// The process that has started another one.
fn parent_of(pid: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|pid| pid.trim().to_owned())
}

/// The variables that a process was started with, if this one may read them.
fn environment_of(pid: &str) -> Option<Variables> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
