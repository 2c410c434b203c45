//! Interpretation of the positional arguments, and the origin of the prompt.

use std::{
    ffi::{OsStr, OsString},
    io::Read,
    path::{Path, PathBuf},
};

use crate::error::CliError;

/// Maximum size of a prompt from standard input; a longer one is rejected.
const MAX_PROMPT_BYTES: u64 = 8 << 20;

/// The meaning of the positional arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PositionalArgs {
    /// The configuration; `None` is the demo.
    pub(super) config: Option<PathBuf>,
    /// The prompt; `None` if none was given.
    pub(super) prompt: Option<String>,
}

impl PositionalArgs {
    /// Separates configuration and prompt. `usual` is the configuration unless one is named.
    pub(super) fn split_args(
        first: Option<&OsStr>,
        second: Option<&OsStr>,
        usual: Option<OsString>,
    ) -> Result<Self, CliError> {
        let usual = || usual.filter(|path| !path.is_empty()).map(PathBuf::from);
        let (config, prompt) = match (first, second) {
            (Some(prompt), Some(config)) if !is_config(prompt) && is_config(config) => {
                return Err(CliError::new("the configuration comes before the prompt")
                    .hint(format!("run `pegboard agent {} PROMPT`", Path::new(config).display())));
            }
            (Some(config), Some(prompt)) => (Some(PathBuf::from(config)), Some(prompt)),
            (Some(word), None) if is_config(word) => (Some(PathBuf::from(word)), None),
            (prompt, _) => (usual(), prompt),
        };
        Ok(Self { config, prompt: prompt.map(text_of).transpose()? })
    }

    /// Rejects words after the prompt.
    pub(super) fn reject_extra_words(words: &[OsString]) -> Result<(), CliError> {
        let Some(word) = words.first() else { return Ok(()) };
        Err(CliError::new(format!("unexpected argument `{}` after CONFIG and PROMPT", word.display()))
            .hint("put a prompt of several words in quotes: `pegboard agent 'talk about files'`"))
    }

    /// Returns the arguments if a flag selects the configuration: only a prompt is left.
    pub(super) fn only_prompt(
        first: Option<&OsStr>,
        second: Option<&OsStr>,
        config: Option<PathBuf>,
    ) -> Result<Self, CliError> {
        if second.is_some() {
            return Err(CliError::new("with `--config` or `--demo` there is one argument, the prompt")
                .hint("put a prompt of several words in quotes"));
        }
        Ok(Self { config, prompt: first.map(text_of).transpose()? })
    }
}

fn text_of(prompt: &OsStr) -> Result<String, CliError> {
    prompt.to_str().map(str::to_owned).ok_or_else(|| CliError::new("the prompt is not UTF-8"))
}

fn is_config(word: &OsStr) -> bool {
    let path = Path::new(word);
    path.is_file() || is_named_like_config(path)
}

/// Returns whether a path looks like a configuration, even if the file does not exist.
pub(super) fn is_named_like_config(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json" || end == "jsonc")
}

/// Reads the prompt from standard input.
pub(super) fn read_prompt(input: impl Read) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| CliError::new("cannot read standard input").because(error))?;
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(CliError::new(format!("the prompt on standard input is larger than {MAX_PROMPT_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| CliError::new("the prompt on standard input is not UTF-8"))?;
    check_prompt(text.trim_end().to_owned())
}

/// Checks that a prompt is not empty.
pub(super) fn check_prompt(prompt: String) -> Result<String, CliError> {
    if prompt.trim().is_empty() {
        return Err(CliError::new("the prompt is empty").hint("pass it as an argument in quotes, or on standard input"));
    }
    Ok(prompt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_leaves_only_the_prompt() {
        let split_args = |words: &[&str], config: Option<&str>| {
            let word = |at: usize| words.get(at).map(OsStr::new);
            PositionalArgs::only_prompt(word(0), word(1), config.map(PathBuf::from))
        };
        let words = split_args(&["x.json"], Some("own.json")).expect("a prompt");
        assert_eq!(words, PositionalArgs { config: Some("own.json".into()), prompt: Some("x.json".to_owned()) });
        assert_eq!(split_args(&[], None).expect("no words"), PositionalArgs { config: None, prompt: None });
        assert!(split_args(&["x.json", "hello"], None).is_err());
    }

    #[test]
    fn words_in_a_wrong_order_or_number_get_advice() {
        let check = |result: Result<(), CliError>, expected: &[&str]| {
            let text = result.expect_err("an error").in_one_line();
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        };
        let swapped = PositionalArgs::split_args(Some("talk about files".as_ref()), Some("cfg.json".as_ref()), None);
        let text = swapped.as_ref().expect_err("an error").in_one_line();
        assert!(!text.contains("quotes"), "{text}");
        check(swapped.map(|_| ()), &["comes before the prompt", "`pegboard agent cfg.json PROMPT`"]);
        check(PositionalArgs::reject_extra_words(&["files".into()]), &["unexpected argument `files`", "in quotes"]);
        assert!(PositionalArgs::reject_extra_words(&[]).is_ok());
    }

    #[test]
    fn words_are_told_apart() {
        let check = |words: &[&str], usual: Option<&str>, config: Option<&str>, prompt: Option<&str>| {
            let word = |at: usize| words.get(at).map(OsStr::new);
            let sorted = PositionalArgs::split_args(word(0), word(1), usual.map(OsString::from)).expect("words");
            let expected = PositionalArgs { config: config.map(PathBuf::from), prompt: prompt.map(str::to_owned) };
            assert_eq!(sorted, expected, "{words:?}");
        };
        check(&[], None, None, None);
        check(&["hello there"], None, None, Some("hello there"));
        check(&["-"], None, None, Some("-"));
        check(&["missing.json"], None, Some("missing.json"), None);
        check(&["missing.jsonc"], None, Some("missing.jsonc"), None);
        // An existing file of any name.
        check(&["Cargo.toml"], None, Some("Cargo.toml"), None);
        // A folder is none.
        check(&["src"], None, None, Some("src"));
        check(&["a", "b"], None, Some("a"), Some("b"));
        check(&["hello"], Some("usual"), Some("usual"), Some("hello"));
        check(&["a.json"], Some("usual"), Some("a.json"), None);
        check(&["a", "b"], Some("usual"), Some("a"), Some("b"));
        check(&[], Some("usual"), Some("usual"), None);
        check(&[], Some(""), None, None);
    }

    #[test]
    fn prompts_are_read_within_bounds() {
        let read = |bytes: &[u8]| read_prompt(bytes).map_err(|error| error.to_string());
        assert_eq!(read(b"what is\nthis?\n"), Ok("what is\nthis?".to_owned()));
        assert_eq!(read(b" \n"), Err("the prompt is empty".to_owned()));
        assert_eq!(read(b"\xff"), Err("the prompt on standard input is not UTF-8".to_owned()));
        assert!(read(&vec![b'a'; MAX_PROMPT_BYTES as usize + 1]).is_err());
    }
}
