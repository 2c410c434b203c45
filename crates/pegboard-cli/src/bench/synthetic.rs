//! Synthetic catalogs of any size with the uneven word frequencies of real ones.

use pegboard_core::{Catalog, RawTool};
use serde_json::value::RawValue;

use super::random::Random;

/// Number of distinct words; the most frequent one is in most descriptions.
const WORDS: usize = 20_000;

/// Number of tools of one server.
const TOOLS_PER_SERVER: usize = 40;

const VERBS: [&str; 16] = [
    "get", "list", "create", "update", "delete", "search", "send", "read", "write", "query", "export", "import", "run",
    "stop", "share", "convert",
];

/// Returns a catalog of `size` tools with a name, a description of 12 to 25 words and 1 to 4
/// parameters.
pub(super) fn catalog(size: usize) -> Catalog {
    let mut random = Random::new(1);
    let words = Words::new();
    let tools = (0..size).map(|at| tool(at, &words, &mut random)).collect();
    Catalog::from_tools(tools).0
}

/// Returns the tool at `at`, in another version for each `round`.
pub(super) fn replacement(name: &str, server: Option<&str>, round: usize) -> RawTool {
    let mut random = Random::new(1000 + round as u64);
    let fresh = tool(0, &Words::new(), &mut random);
    RawTool { name: name.to_owned(), server: server.map(str::to_owned), ..fresh }
}

fn tool(at: usize, words: &Words, random: &mut Random) -> RawTool {
    let verb = VERBS[random.below(VERBS.len())];
    let name = format!("{verb}_{}_{}", words.pick(random), at);
    let length = 12 + random.below(14);
    let description: Vec<&str> = (0..length).map(|_| words.pick(random)).collect();
    let parameters: Vec<String> = (0..1 + random.below(4))
        .map(|_| {
            let (name, about) = (words.pick(random), [words.pick(random), words.pick(random), words.pick(random)]);
            format!(r#""{name}":{{"type":"string","description":"{}"}}"#, about.join(" "))
        })
        .collect();
    let schema = format!(r#"{{"type":"object","properties":{{{}}}}}"#, parameters.join(","));
    RawTool {
        name,
        description: description.join(" "),
        server: Some(format!("server{}", at / TOOLS_PER_SERVER)),
        input_schema: RawValue::from_string(schema).ok(),
        ..RawTool::default()
    }
}

/// Words drawn by Zipf's law.
struct Words {
    words: Vec<String>,
    /// The summed frequencies up to each word.
    sums: Vec<f64>,
}

impl Words {
    fn new() -> Self {
        const SYLLABLES: [&str; 24] = [
            "ba", "ko", "ri", "ten", "mar", "lo", "su", "vi", "dor", "ne", "pal", "ga", "hu", "zem", "ti", "cor", "fa",
            "wi", "lun", "je", "qua", "bro", "xi", "yo",
        ];
        let word = |mut at: usize| {
            let mut word = String::new();
            // Three syllables give more than enough different words.
            for _ in 0..3 {
                word.push_str(SYLLABLES[at % SYLLABLES.len()]);
                at /= SYLLABLES.len();
            }
            if at > 0 {
                word.push_str(SYLLABLES[at % SYLLABLES.len()]);
            }
            word
        };
        let mut sum = 0.0;
        let sums = (0..WORDS).map(|rank| {
            sum += 1.0 / (rank as f64 + 2.7);
            sum
        });
        Self { sums: sums.collect(), words: (0..WORDS).map(word).collect() }
    }

    fn pick(&self, random: &mut Random) -> &str {
        let total = self.sums.last().copied().unwrap_or(0.0);
        let at = self.sums.partition_point(|sum| *sum < random.share() * total);
        &self.words[at.min(WORDS - 1)]
    }
}
