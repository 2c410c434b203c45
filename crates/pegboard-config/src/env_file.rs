//! Environment files with `NAME=value` lines (`envFile`).

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Maximum number of bytes of a file.
const MAX_BYTES: u64 = 1 << 20;

/// The error of reading an environment file. It does not show the content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvFileError {
    /// The file cannot be read.
    #[error("names a file that cannot be read: {}", .0.kind())]
    Read(#[from] io::Error),
    /// The file is not a regular file, too large, or not UTF-8.
    #[error("names something that is not a file, is larger than 1 MiB, or is not UTF-8")]
    NoText,
    /// A line, counted from 1, is not `NAME=value`.
    #[error("names a file whose line {0} is not `NAME=value`")]
    Line(usize),
}

/// Returns the variables of the file at `path`, in their order.
///
/// # Errors
/// When the file cannot be read or has a line that is not `NAME=value`.
pub fn read(path: &Path) -> Result<Vec<(String, String)>, EnvFileError> {
    // Reading from a pipe or a terminal could block for ever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(EnvFileError::NoText);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(EnvFileError::NoText);
    }
    parse(&String::from_utf8(bytes).map_err(|_| EnvFileError::NoText)?)
}

/// Returns the variables in `text`, in their order.
///
/// # Errors
/// When a line is not `NAME=value`.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(EnvFileError::Line(at + 1))?;
        let name = name.trim();
        // No process can have a variable with a null byte in it.
        if name.is_empty() || name.contains(char::is_whitespace) || line.contains('\0') {
            return Err(EnvFileError::Line(at + 1));
        }
        let value = parse_value(value.trim()).ok_or(EnvFileError::Line(at + 1))?;
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

/// Returns a value without its quotes; `None` if a quote is not closed.
fn parse_value(value: &str) -> Option<String> {
    if let Some(quoted) = value.strip_prefix('\'') {
        return quoted.split_once('\'').map(|(value, _)| value.to_owned());
    }
    if let Some(quoted) = value.strip_prefix('"') {
        return unescape(quoted);
    }
    // A `#` begins a comment only after a space; passwords may contain it.
    let end = value.find(" #").unwrap_or(value.len());
    Some(value.get(..end)?.trim_end().to_owned())
}

/// Returns the text up to the next double quote, with escapes resolved.
fn unescape(quoted: &str) -> Option<String> {
    let mut value = String::new();
    let mut letters = quoted.chars();
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => match letters.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other @ ('"' | '\\' | '$') => value.push(other),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_variables() {
        let check = |line: &str, expected: &str| {
            let found = match parse(line) {
                Ok(variables) => variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<String>(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{line}");
        };
        check("", "");
        check("# note\n\n", "");
        check("A=1", "A=1");
        check("export A = b c # note", "A=b c");
        check("A=p#ss", "A=p#ss");
        check("A=", "A=");
        check(r#"A="b \"c\" \n# d" # note"#, "A=b \"c\" \n# d");
        check(r"A='b\n'", r"A=b\n");
        check("A=1\nsecret", "names a file whose line 2 is not `NAME=value`");
        check("A=\"open", "names a file whose line 1 is not `NAME=value`");
        check("A=\"b\0\"", "names a file whose line 1 is not `NAME=value`");
        check("A B=1", "names a file whose line 1 is not `NAME=value`");
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        assert!(matches!(read(Path::new("/")), Err(EnvFileError::NoText)));
        assert!(matches!(read(Path::new("/no/such/file")), Err(EnvFileError::Read(_))));
    }

    proptest! {
        #[test]
        fn any_text_is_variables_or_a_line(text in "([A-Z=\"'\\\\#$ né]|\n){0,40}") {
            let _ = parse(&text);
        }
    }
}
