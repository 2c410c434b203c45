//! Tasks of a real server, followed by a real client. Everything else about tasks is tested in
//! `pegboard-gateway`.

use std::{path::Path, process::Stdio};

use serde_json::json;
use tokio::process::Command;

use super::{
    Served,
    real::{peers, remote, skipped, tools},
};
use crate::harness::Folder;

/// Runs the client; what it prints.
async fn drive(python: &Path, url: &str, step: &[&str]) -> String {
    let output = Command::new(python)
        .arg(peers().join("clients/tasks_client.py"))
        .arg(url)
        .args(step)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("the script runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{step:?}: {told}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn a_real_task_survives_a_restart_of_the_gateway() {
    let Some(tools) = tools() else { return };
    let python = tools.join("python/bin/python");
    let has_tasks = Command::new(&python).args(["-c", "import fastmcp_tasks"]).stderr(Stdio::null()).status().await;
    if !has_tasks.is_ok_and(|status| status.success()) {
        return skipped();
    }
    let script = peers().join("tasks.py").to_str().expect("a path").to_owned();
    let server = remote(&python, |port| vec![script.clone(), port.to_string()], |_| Vec::new()).await;
    let folder = Folder::new("tasks-restart");
    let config = json!({
        "mcpServers": {"far": {"url": format!("http://127.0.0.1:{}/mcp", server.port)}},
        "pegboard": {"exposure": "never", "startupWait": 60}
    });
    let file = folder.file("pegboard.json", config.to_string()).path().join("pegboard.json");
    let state = folder.path().join("state");
    let start = async |name: &str| {
        let place = folder.path().join(name);
        std::fs::create_dir_all(&place).expect("a folder");
        Served::start_in(place, &file, &state).await
    };
    let first = start("first").await;
    assert_eq!(drive(&python, &first.url, &["whole"]).await, "whole took 0.1 s");
    let task = drive(&python, &first.url, &["begin"]).await;
    assert!(task.starts_with("task_"), "{task}");
    drop(first);
    let second = start("second").await;
    assert_eq!(drive(&python, &second.url, &["end", &task]).await, "completed restart took 2.0 s");
}
