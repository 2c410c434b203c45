//! What it costs to put outputs aside and to read them:
//! `cargo bench --package pegboard-agent --bench outputs`.

use std::path::PathBuf;

use divan::Bencher;
use pegboard_agent::outputs::{OutputSettings, Outputs};
use pegboard_discovery::HostTool;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The size of the outputs.
const BYTES: usize = 50_000_000;

/// How much more memory putting an output aside may take than the output itself.
#[cfg(target_os = "linux")]
const MAX_EXTRA_KB: usize = 8_000;

fn main() {
    #[cfg(target_os = "linux")]
    putting_aside_takes_no_memory();
    divan::main();
}

#[cfg(target_os = "linux")]
fn putting_aside_takes_no_memory() {
    let status = |key: &str| -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    let place = Place::new("memory");
    for text in [json_output(), log_output()] {
        // Forgets the highest of before.
        std::fs::write("/proc/self/clear_refs", "5").expect("written");
        let before = status("VmRSS:");
        place.put(text);
        let extra = status("VmHWM:").saturating_sub(before);
        assert!(extra < MAX_EXTRA_KB, "{extra} kB more than the output itself");
    }
}

/// A conversation with a folder that goes with it.
struct Place {
    folder: PathBuf,
    outputs: Outputs,
    runtime: Runtime,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pegboard-bench-outputs-{}-{name}", std::process::id()));
        let outputs = Outputs::new(OutputSettings::new(&folder), "bench", None).expect("outputs");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { folder, outputs, runtime }
    }

    fn put(&self, text: String) -> String {
        let offloaded = self.runtime.block_on(self.outputs.store("list", text)).expect("an output");
        offloaded.path.to_string_lossy().into_owned()
    }

    fn answer(&self, tool: HostTool, arguments: &Value) -> String {
        self.runtime.block_on(self.outputs.call_tool(tool, arguments)).expect("an answer")
    }

    fn search(&self, file: &str, pattern: &str) -> String {
        let arguments = json!({"filename": file, "operation": "search", "pattern": pattern});
        self.answer(HostTool::SearchLargeOutput, &arguments)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn json_output() -> String {
    let mut text = String::with_capacity(BYTES + 300);
    text.push('[');
    for at in 0.. {
        if text.len() > BYTES {
            break;
        }
        text.push_str(&format!(
            "{{\"id\":{at},\"name\":\"item number {at}\",\"state\":\"open\",\"labels\":[\"bug\",\"p1\"],\
             \"url\":\"https://example.org/items/{at}\",\"body\":\"some text about the item, täglich neu\"}},"
        ));
    }
    text.push_str("{\"id\":\"needle\"}]");
    text
}

fn log_output() -> String {
    let mut text = String::with_capacity(BYTES + 300);
    for at in 0.. {
        if text.len() > BYTES {
            break;
        }
        text.push_str(&format!("2026-01-02T03:04:05Z INFO request {at} to /items took 12 ms\n"));
    }
    text.push_str("the needle\n");
    text
}

#[divan::bench(sample_count = 10)]
fn put_50_mb_of_json(bencher: Bencher<'_, '_>) {
    let place = Place::new("put_json");
    bencher.with_inputs(json_output).bench_local_values(|text| place.put(text));
}

#[divan::bench(sample_count = 10)]
fn put_50_mb_of_text(bencher: Bencher<'_, '_>) {
    let place = Place::new("put_text");
    bencher.with_inputs(log_output).bench_local_values(|text| place.put(text));
}

#[divan::bench]
fn decide_whether_50_mb_are_large(bencher: Bencher<'_, '_>) {
    let place = Place::new("decide");
    let text = json_output();
    bencher.bench_local(|| place.outputs.is_large(divan::black_box(&text)));
}

#[divan::bench(sample_count = 20)]
fn read_near_the_end_of_50_mb(bencher: Bencher<'_, '_>) {
    let place = Place::new("read");
    let text = json_output();
    let start = text.chars().count() - 5_000;
    let file = place.put(text);
    let arguments = json!({"filename": file, "start": start, "end": start + 4_000});
    bencher.bench_local(|| place.answer(HostTool::ReadLargeOutput, &arguments));
}

#[divan::bench(sample_count = 10, args = ["needle", "n[a-e]{3}le\\b", "\\w+ needle"])]
fn search_50_mb_of_lines(bencher: Bencher<'_, '_>, pattern: &str) {
    let place = Place::new("search_lines");
    let file = place.put(log_output());
    bencher.bench_local(|| {
        let found = place.search(&file, pattern);
        assert!(found.contains("the needle"), "{found}");
        found
    });
}

#[divan::bench(sample_count = 10, args = ["needle", "\"id\":\"n[a-e]{3}le\"", "item.{1,40}needle|needle"])]
fn search_50_mb_in_one_line(bencher: Bencher<'_, '_>, pattern: &str) {
    let place = Place::new("search_line");
    let file = place.put(json_output());
    bencher.bench_local(|| {
        let found = place.search(&file, pattern);
        assert!(found.contains("needle"), "{found}");
        found
    });
}
