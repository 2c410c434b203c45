//! Names that providers accept, for the items of several servers, and the mapping back.

use std::collections::HashMap;

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::composed;

/// The naming scheme for the items of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// The text between the name of the server and that of the item.
    pub separator: String,
    /// Whether names start with the name of the server.
    pub is_prefixed: bool,
    /// Maximum number of characters; the strictest provider accepts 64.
    pub limit: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { separator: "___".to_owned(), is_prefixed: true, limit: 64 }
    }
}

/// When names start with the name of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefixes {
    /// When more than one server is enabled.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never, except where several servers that a caller sees have an item of the same name.
    Never,
}

impl Prefixes {
    /// Returns whether names are prefixed if so many servers are enabled.
    pub fn applies_to(self, servers: usize) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => servers > 1,
        }
    }
}

/// Number of hexadecimal digits that make equal names unique.
const DIGITS: usize = 8;

/// Minimum number of characters that are left of a server's name when it and a long item name share
/// the limit.
const SERVER_KEEPS: usize = 24;

/// The names under which items are shown, and the items behind them.
///
/// A name that providers accept is never changed. In other names, unsupported characters are
/// replaced (`.` becomes `_`, `ñ` becomes `n`); long ones are truncated, and a hash of the item is
/// appended where the replacement loses letters or would make two names equal. A name depends
/// mainly on its own item, and is stable across restarts.
///
/// ```
/// use pegboard_core::naming::{ShownNames, Style};
///
/// let items = [("github", "create_issue"), ("cloud", "dns.records.list")];
/// let names = ShownNames::new(&Style::default(), items);
/// assert_eq!(names.shown(0), Some("github___create_issue"));
/// assert_eq!(names.shown(1), Some("cloud___dns_records_list"));
/// assert_eq!(names.find("cloud___dns_records_list"), Some(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ShownNames {
    shown: Vec<Box<str>>,
    by_shown: HashMap<Box<str>, usize>,
}

impl ShownNames {
    /// Names for `items`, given as server and name, in their order.
    pub fn new<'a>(style: &Style, items: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let items: Vec<(&str, &str)> = items.into_iter().collect();
        let mut names = Self { shown: vec![Box::default(); items.len()], by_shown: HashMap::new() };
        // Names that need no repair go first, so that none of them is displaced by a repaired one.
        let (clean, repaired): (Vec<usize>, Vec<usize>) =
            (0..items.len()).partition(|at| style.is_accepted(items[*at]));
        for at in clean.into_iter().chain(repaired) {
            names.take(at, style.name(items[at].0, items[at].1), style, items[at]);
        }
        names
    }

    /// Gives item `at` the name `wanted`, or one with digits if that is taken.
    fn take(&mut self, at: usize, wanted: String, style: &Style, item: (&str, &str)) {
        let mut name = wanted;
        let mut round = 0;
        while self.by_shown.contains_key(name.as_str()) {
            name = style.name_with_digits(item, round);
            round += 1;
        }
        self.by_shown.insert(name.as_str().into(), at);
        self.shown[at] = name.into();
    }

    /// Returns the name of the item at this position.
    pub fn shown(&self, at: usize) -> Option<&str> {
        self.shown.get(at).map(|name| &**name)
    }

    /// Returns the position of the item that is shown under this name.
    pub fn find(&self, shown: &str) -> Option<usize> {
        self.by_shown.get(shown).copied()
    }

    /// All names, in the order of the items.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.shown.iter().map(|name| &**name)
    }
}

impl Style {
    /// Returns the name of an item, derived only from its server and its own name.
    ///
    /// ```
    /// use pegboard_core::naming::Style;
    ///
    /// assert_eq!(Style::default().name("cloud", "dns.records.list"), "cloud___dns_records_list");
    /// ```
    pub fn name(&self, server: &str, name: &str) -> String {
        let item = (server, name);
        if self.is_accepted(item) { self.plain_name(item) } else { self.repaired(item) }
    }

    /// Returns whether providers accept the plain name.
    fn is_accepted(&self, item: (&str, &str)) -> bool {
        let plain_name = self.plain_name(item);
        is_safe(&plain_name) && plain_name.len() <= self.limit
    }

    /// `server___name`, or the name alone.
    fn plain_name(&self, (server, name): (&str, &str)) -> String {
        if self.is_prefixed { format!("{server}{}{name}", self.separator) } else { name.to_owned() }
    }

    /// Returns the plain name with unsupported characters replaced; with a hash if that loses
    /// letters or is still too long.
    fn repaired(&self, item: (&str, &str)) -> String {
        let plain_name = self.plain_name(item);
        let repaired = to_provider_name(&plain_name);
        if loses_letters(&plain_name) || !has_letters(&to_provider_name(item.1)) || repaired.len() > self.limit {
            self.name_with_digits(item, 0)
        } else {
            repaired
        }
    }

    /// Returns the name, truncated to make room for a hash of the item.
    fn name_with_digits(&self, item: (&str, &str), round: u64) -> String {
        let (server, name) = (to_provider_name(item.0), readable_name(item.1));
        let room = self.limit.saturating_sub(DIGITS + 1);
        let hash = fnv1a(item.0.bytes().chain([0]).chain(item.1.bytes()), round);
        let digits = format!("{:08x}", (hash >> 32) ^ (hash & 0xFFFF_FFFF));
        let base = if self.is_prefixed {
            let left = room.saturating_sub(self.separator.len() + name.len());
            let server = cut(&server, left.max(SERVER_KEEPS.min(room / 2)));
            format!("{server}{}{name}", self.separator)
        } else {
            name
        };
        format!("{}_{digits}", cut(&base, room).trim_end_matches('_'))
    }
}

/// Returns whether every provider accepts the characters.
fn is_safe(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_safe_byte)
}

fn is_safe_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Replaces every character that a provider may reject: Latin letters with accents by their base
/// letters, all others by `_`.
///
/// ```
/// use pegboard_core::naming::to_provider_name;
///
/// assert_eq!(to_provider_name("añadir.nota"), "anadir_nota");
/// ```
pub fn to_provider_name(name: &str) -> String {
    let mut repaired = String::with_capacity(name.len());
    for c in composed(name).chars() {
        if u8::try_from(c).is_ok_and(is_safe_byte) {
            repaired.push(c);
        } else if !push_latin(c, &mut repaired) {
            repaired.push('_');
        }
    }
    repaired
}

/// Appends the ASCII letters of a Latin letter; `false` if `c` is not one.
fn push_latin(c: char, text: &mut String) -> bool {
    if let Some((_, letters)) = LATIN.iter().find(|(letter, _)| *letter == c) {
        text.push_str(letters);
        return true;
    }
    let mut parts = std::iter::once(c).nfkd();
    let base = parts.next().filter(char::is_ascii_alphanumeric);
    match base {
        Some(base) if parts.all(is_combining_mark) => {
            text.push(base);
            true
        }
        _ => false,
    }
}

/// Latin letters that are not a base letter with an accent.
const LATIN: [(char, &str); 18] = [
    ('ß', "ss"),
    ('ẞ', "SS"),
    ('æ', "ae"),
    ('Æ', "AE"),
    ('œ', "oe"),
    ('Œ', "OE"),
    ('ø', "o"),
    ('Ø', "O"),
    ('đ', "d"),
    ('Đ', "D"),
    ('ð', "d"),
    ('Ð', "D"),
    ('þ', "th"),
    ('Þ', "Th"),
    ('ł', "l"),
    ('Ł', "L"),
    ('ħ', "h"),
    ('ı', "i"),
];

/// Returns whether the repair replaces letters or digits of `name` by `_`.
fn loses_letters(name: &str) -> bool {
    let mut letters = String::new();
    composed(name).chars().any(|c| c.is_alphanumeric() && !c.is_ascii() && !push_latin(c, &mut letters))
}

fn has_letters(repaired: &str) -> bool {
    repaired.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the repaired name of an item; of a name that loses letters only the words that are left,
/// and `item` if there are none.
fn readable_name(name: &str) -> String {
    let repaired = to_provider_name(name);
    if !has_letters(&repaired) {
        return "item".to_owned();
    }
    if !loses_letters(name) {
        return repaired;
    }
    repaired.split('_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// The first `length` bytes of an ASCII text.
fn cut(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text)
}

/// Returns the FNV-1a hash of the bytes with a seed, the same on every machine and in every
/// release.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>, seed: u64) -> u64 {
    bytes
        .into_iter()
        .fold(0xCBF2_9CE4_8422_2325 ^ seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(items: &[(&str, &str)]) -> Vec<String> {
        ShownNames::new(&Style::default(), items.iter().copied()).iter().map(str::to_owned).collect()
    }

    #[test]
    fn what_providers_accept_stays() {
        assert_eq!(names(&[("github", "create_issue"), ("a", "b-C_9")]), ["github___create_issue", "a___b-C_9"]);
        let style = Style { is_prefixed: false, ..Style::default() };
        assert_eq!(ShownNames::new(&style, [("x", "read")]).shown(0), Some("read"));
    }

    #[test]
    fn a_clean_name_does_not_give_way_to_a_mended_one() {
        let shown = names(&[("s", "a.b"), ("s", "a_b")]);
        assert_eq!(shown[1], "s___a_b");
        assert!(shown[0].starts_with("s___a_b_"), "{shown:?}");
        assert_eq!(names(&[("s", "a.b")]), ["s___a_b"], "alone it needs no digits");
    }

    #[test]
    fn long_names_keep_server_and_tool_recognisable() {
        let long = "a_server_with_a_rather_long_name_indeed".repeat(2);
        let shown = names(&[(&long, "list_reference_stores_for_all_accounts_of_the_organisation")]);
        assert_eq!(shown[0].len(), 64);
        assert!(shown[0].starts_with("a_server_with_a_rather_l___list_reference"), "{shown:?}");
    }

    #[test]
    fn latin_letters_lose_their_accents_alone() {
        let check = |name: &str, expected: &str| assert_eq!(names(&[("crm", name)]), [format!("crm___{expected}")]);
        check("añadir_nota", "anadir_nota");
        check("an\u{303}adir_nota", "anadir_nota");
        check("Größe-ändern", "Grosse-andern");
        check("łączność.œuvre", "lacznosc_oeuvre");
        check("ｆｕｌｌ_ﬁt", "full_fit");
        let shown = names(&[("crm", "añadir"), ("crm", "anadir")]);
        assert_eq!(shown[1], "crm___anadir");
        assert!(shown[0].starts_with("crm___anadir_"), "{shown:?}");
    }

    #[test]
    fn letters_that_are_lost_leave_digits() {
        let check = |name: &str, expected: &str| {
            let shown = names(&[("home", name)]);
            assert_eq!(shown[0][..shown[0].len() - DIGITS], format!("home___{expected}_"));
        };
        check("エアコン操作", "item");
        check("エアコン_on_操作", "on");
        check("+", "item");
        check("открыть_door", "door");
        let shown = names(&[("home", "エアコン操作"), ("home", "お風呂沸かし")]);
        assert_ne!(shown[0], shown[1]);
    }

    proptest! {
        #[test]
        fn every_name_is_safe_short_unique_and_leads_back(
            items in prop::collection::vec((".{0,40}", ".{0,80}"), 0..20),
            is_prefixed: bool,
        ) {
            let style = Style { is_prefixed, ..Style::default() };
            let items: Vec<(&str, &str)> = items.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            let names = ShownNames::new(&style, items.iter().copied());
            for (at, name) in names.iter().enumerate() {
                prop_assert!(is_safe(name) && name.len() <= 64, "{name}");
                prop_assert_eq!(names.find(name), Some(at));
            }
        }

        #[test]
        fn names_do_not_depend_on_the_order(mut items in prop::collection::btree_set(("[a-z]{1,30}", "[a-zé.]{1,60}"), 1..12)) {
            let forward: Vec<(String, String)> = items.iter().cloned().collect();
            let name_of = |items: &[(String, String)]| -> std::collections::BTreeMap<(String, String), String> {
                let names = ShownNames::new(&Style::default(), items.iter().map(|(a, b)| (a.as_str(), b.as_str())));
                items.iter().cloned().zip(names.iter().map(str::to_owned)).collect()
            };
            let mut backward = forward.clone();
            backward.reverse();
            // Two repaired names that meet are told apart by who came first; all others agree.
            let (a, b) = (name_of(&forward), name_of(&backward));
            items.retain(|item| a[item] != b[item]);
            let repaired = |item: &(String, String)| to_provider_name(&Style::default().plain_name((&item.0, &item.1)));
            for item in &items {
                prop_assert!(forward.iter().filter(|other| repaired(other) == repaired(item)).count() > 1);
            }
        }
    }
}
