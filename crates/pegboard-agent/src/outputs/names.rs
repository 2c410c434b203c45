//! The names of files and folders of outputs.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// Maximum length of a session's folder name. The limit of file systems is 255.
const MAX_SESSION_BYTES: usize = 200;

/// Maximum number of characters of a tool's name in the name of a file.
const MAX_TOOL_CHARS: usize = 50;

/// The prefix of file names.
const PREFIX: &str = "tool_";

/// The suffix of file names while the files are written.
const PART: &str = ".part";

/// The next file number; numbers are unique in this process.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// Returns the folder name of a session. Different sessions have different folders: characters that
/// are not allowed in a name are escaped, as in `a%2Fb`.
pub(super) fn session_folder(session: &str) -> Option<String> {
    let mut name = String::new();
    for byte in session.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
        if name.len() > MAX_SESSION_BYTES {
            return None;
        }
    }
    (!name.is_empty()).then_some(name)
}

/// Returns the maximum length of a session's identifier, for messages.
pub(super) const fn max_session_bytes() -> usize {
    MAX_SESSION_BYTES
}

/// Returns a file name that is unique in this process.
pub(super) fn file_name(now: SystemTime, tool: &str, is_json: bool) -> String {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let extension = if is_json { "json" } else { "txt" };
    let mut tool: String = tool.chars().take(MAX_TOOL_CHARS).map(|c| if is_safe(c) { c } else { '_' }).collect();
    if tool.is_empty() {
        tool.push_str("output");
    }
    format!("{PREFIX}{}_{number}_{tool}.{extension}", timestamp(now))
}

/// Returns the name of a file while it is written.
pub(super) fn part_of(name: &str) -> String {
    format!(".{name}{PART}")
}

/// Returns whether this is the name of an output: `tool_<date>_<time>_<number>_<tool>.<json or
/// txt>`.
pub(super) fn is_output(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let Some(rest) = rest.strip_suffix(".json").or_else(|| rest.strip_suffix(".txt")) else { return false };
    let mut parts = rest.splitn(4, '_');
    let mut next_is = |fits: &dyn Fn(&str) -> bool| parts.next().is_some_and(fits);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    next_is(&|date| date.len() == 8 && digits(date))
        && next_is(&|time| time.len() == 6 && digits(time))
        && next_is(&|number| number.len() <= 20 && digits(number))
        && next_is(&|tool| (1..=MAX_TOOL_CHARS).contains(&tool.len()) && tool.chars().all(is_safe))
}

/// Returns whether this is the name of an output, finished or not.
pub(super) fn is_ours(name: &str) -> bool {
    let part = name.strip_prefix('.').and_then(|name| name.strip_suffix(PART));
    is_output(part.unwrap_or(name))
}

/// Returns the file name in the session's folder that a model names: by its bare name, with the
/// session's folder before it, or by its full path.
pub(super) fn resolve<'a>(given: &'a str, root: &Path, session: &str) -> Option<&'a str> {
    let given = given.trim();
    let bare = match given.rsplit_once(['/', std::path::MAIN_SEPARATOR]) {
        None => given,
        Some((folder, name)) if folder == session || Path::new(folder) == root.join(session) => name,
        Some(_) => return None,
    };
    is_output(bare).then_some(bare)
}

fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Formats a time as `YYYYMMDD_HHMMSS` in UTC.
fn timestamp(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil_from_days(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!("{year:04}{month:02}{day:02}_{:02}{:02}{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Returns the date so many days after 1970-01-01. Years are counted from March, so that a leap day
/// comes last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // Days since the first of March of the year 0.
    let days = days + 719_468;
    let (era, of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |seconds: u64, expected: &str| {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected, "{seconds}");
        };
        check(0, "19700101_000000");
        check(951_782_399, "20000228_235959");
        check(951_782_400, "20000229_000000");
        check(951_868_800, "20000301_000000");
        check(1_709_251_199, "20240229_235959");
        check(1_735_689_599, "20241231_235959");
        check(4_107_542_400, "21000301_000000");
        assert_eq!(timestamp(UNIX_EPOCH - Duration::from_secs(1)), "19700101_000000");
    }

    #[test]
    fn names_are_ours_and_never_the_same() {
        let mut seen = HashSet::new();
        for tool in ["list_issues", "", "a/b", "../../etc/passwd", "näme", &"x".repeat(90), "a b\0c\n", "-", "a.b"] {
            for is_json in [true, false] {
                let name = file_name(UNIX_EPOCH, tool, is_json);
                assert!(is_output(&name) && is_ours(&name) && is_ours(&part_of(&name)), "{name}");
                assert!(!is_output(&part_of(&name)));
                assert!(seen.insert(name));
            }
        }
        let name = file_name(UNIX_EPOCH, "github___list issues", true);
        assert!(name.starts_with("tool_19700101_000000_") && name.ends_with("_github___list_issues.json"), "{name}");
    }

    #[test]
    fn sessions_have_folders_of_their_own() {
        let check = |session: &str, expected: Option<&str>| assert_eq!(session_folder(session).as_deref(), expected);
        check("chat-1_A", Some("chat-1_A"));
        check("a/b", Some("a%2Fb"));
        check("..", Some("%2E%2E"));
        check("a%2Fb", Some("a%252Fb"));
        check("ä", Some("%C3%A4"));
        check("", None);
        check(&"x".repeat(201), None);
        check(&"/".repeat(100), None);
    }
}
