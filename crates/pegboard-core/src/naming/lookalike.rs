//! Similar names of different servers, which people or models could confuse.

use std::collections::{BTreeMap, HashSet};

use super::{composed, edit_distance, fnv1a, fold, fold_char};

/// Minimum length of names that are searched for slips: shorter names often differ by one letter.
const LONG: usize = 10;

/// Maximum number of names that are searched for slips of one letter.
const MAX_COMPARED: usize = 50_000;

/// Maximum number of names with the same slip that are compared with each other.
const MAX_CROWD: usize = 16;

/// How two names are similar; the most dangerous kind first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// They are written with other letters that look alike, as the Cyrillic `а` does.
    Confusable,
    /// They differ by one letter.
    Slip,
    /// They differ by case, by `-`, `_` and the like, or by accents.
    Spelling,
    /// They are the same.
    Same,
}

impl Likeness {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Confusable, Self::Slip, Self::Spelling, Self::Same];

    /// The name that people and programs use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Spelling => "spelling",
            Self::Confusable => "confusable",
            Self::Slip => "slip",
        }
    }
}

/// Two positions in a list of names, and how the names are similar.
type Pair = (usize, usize, Likeness);

/// Pairs of similar names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimilarNames {
    /// Pairs by their positions; the most dangerous kind first.
    pub pairs: Vec<(usize, usize, Likeness)>,
    counts: [usize; Likeness::ALL.len()],
}

impl SimilarNames {
    /// Returns the number of pairs of a kind, with those beyond the limit.
    pub fn count(&self, likeness: Likeness) -> usize {
        self.counts[likeness as usize]
    }

    fn add(&mut self, pair: Pair, most: usize) {
        let count = &mut self.counts[pair.2 as usize];
        *count += 1;
        if *count <= most {
            self.pairs.push(pair);
        }
    }
}

/// Returns the pairs of similar names of different servers; at most `most` of each kind, so that
/// names which several servers share do not hide those that imitate others. `names` are pairs of
/// server and name. A name that several servers have is paired with the first.
///
/// ```
/// use pegboard_core::naming::{Likeness, lookalikes};
///
/// let names = [("bank", "send_money"), ("evil", "send_mоney"), ("evil", "other")];
/// assert_eq!(lookalikes(&names, 10).pairs, [(0, 1, Likeness::Confusable)]);
/// ```
pub fn lookalikes(names: &[(&str, &str)], most: usize) -> SimilarNames {
    // By what they look like, so that most names are never compared with each other.
    let groups = groups_of(names);
    let mut found = SimilarNames::default();
    for (_, members) in groups.iter().filter(|(skeleton, members)| members.len() > 1 && !skeleton.is_empty()) {
        pair_up(names, members, most, &mut found);
    }
    find_slips(names, &groups, most, &mut found);
    found.pairs.sort_unstable_by_key(|(first, second, likeness)| (*likeness, *first, *second));
    found
}

/// Groups the positions of names by their skeletons.
fn groups_of(names: &[(&str, &str)]) -> Vec<(String, Vec<usize>)> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, (_, name)) in names.iter().enumerate() {
        groups.entry(skeleton(name)).or_default().push(at);
    }
    groups.into_iter().collect()
}

/// Pairs the first member with those of other servers.
fn pair_up(names: &[(&str, &str)], members: &[usize], most: usize, found: &mut SimilarNames) {
    let first = members[0];
    for other in members[1..].iter().copied().filter(|other| names[*other].0 != names[first].0) {
        found.add((first, other, likeness(names[first].1, names[other].1)), most);
    }
}

fn likeness(one: &str, other: &str) -> Likeness {
    match (one == other, fold(one) == fold(other)) {
        (true, _) => Likeness::Same,
        (_, true) => Likeness::Spelling,
        _ => Likeness::Confusable,
    }
}

/// Names that differ by one letter: those that are the same once one is taken out of either.
fn find_slips(names: &[(&str, &str)], groups: &[(String, Vec<usize>)], most: usize, found: &mut SimilarNames) {
    let mut seen: HashSet<(u32, u32)> = HashSet::new();
    for crowd in crowds(groups) {
        for (n, one) in crowd.iter().enumerate() {
            for other in &crowd[n + 1..] {
                if seen.insert((*one, *other)) {
                    for pair in slips(names, &groups[*one as usize], &groups[*other as usize]) {
                        found.add(pair, most);
                    }
                }
            }
        }
    }
}

/// Groups the positions of names that are equal once one letter is removed from either: only
/// members of one group are compared with each other.
fn crowds(groups: &[(String, Vec<usize>)]) -> Vec<Vec<u32>> {
    if groups.len() > MAX_COMPARED {
        return Vec::new();
    }
    let mut variants: Vec<(u64, u32)> = Vec::new();
    for (at, (skeleton, _)) in groups.iter().enumerate().filter(|(_, (skeleton, _))| skeleton.len() >= LONG) {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        variants.push((fnv1a(skeleton.bytes(), 0), at));
        for (place, c) in skeleton.char_indices() {
            let rest = skeleton[..place].bytes().chain(skeleton[place + c.len_utf8()..].bytes());
            variants.push((fnv1a(rest, 0), at));
        }
    }
    variants.sort_unstable();
    variants.dedup();
    let crowds = variants.chunk_by(|one, other| one.0 == other.0).filter(|crowd| crowd.len() > 1);
    crowds.map(|crowd| crowd.iter().take(MAX_CROWD).map(|(_, at)| *at).collect()).collect()
}

/// Pairs the first name of either group with all names of the other one: a further server may
/// imitate a name that two honest ones have.
fn slips(
    names: &[(&str, &str)],
    (one, ones): &(String, Vec<usize>),
    (other, others): &(String, Vec<usize>),
) -> Vec<Pair> {
    let (true, [first_one, rest @ ..], [first_other, ..]) =
        (edit_distance(one, other, 1).is_some(), &ones[..], &others[..])
    else {
        return Vec::new();
    };
    let pairs = others.iter().map(|other| (first_one, other)).chain(rest.iter().map(|one| (one, first_other)));
    // What is numbered is meant to differ by its number.
    let words = |at: usize| fold(names[at].1).replace(|c: char| c.is_ascii_digit(), "");
    let pairs = pairs.filter(|(one, other)| names[**one].0 != names[**other].0 && words(**one) != words(**other));
    pairs.map(|(one, other)| (*one.min(other), *one.max(other), Likeness::Slip)).collect()
}

/// Returns what a name looks like: without case, separators and accents, and with Latin letters in
/// place of similar ones.
fn skeleton(name: &str) -> String {
    let mut skeleton = String::with_capacity(name.len());
    for c in composed(name).chars() {
        fold_char(latin(c), &mut |c| {
            let c = latin(c);
            if c.is_alphanumeric() {
                skeleton.push(c);
            }
        });
    }
    skeleton
}

/// Returns the Latin letter that a letter looks like.
fn latin(c: char) -> char {
    match c {
        'а' | 'ɑ' | 'α' | 'А' | 'Α' => 'a',
        'Ь' | 'ь' | 'В' | 'Β' | 'ƅ' => 'b',
        'с' | 'ϲ' | 'С' | 'Ϲ' | 'ᴄ' => 'c',
        'ԁ' | 'ɗ' => 'd',
        'е' | 'ҽ' | 'Е' | 'Ε' | '℮' | 'є' => 'e',
        'ƒ' | 'ſ' => 'f',
        'ɡ' | 'ց' => 'g',
        'һ' | 'հ' | 'Н' | 'Η' | 'ћ' => 'h',
        'і' | 'ı' | 'ι' | 'І' | 'Ι' | 'ɩ' | 'ӏ' => 'i',
        'ј' | 'ϳ' | 'Ј' => 'j',
        'к' | 'κ' | 'К' | 'Κ' => 'k',
        'ⅼ' | 'ǀ' | '1' | 'ŀ' => 'l',
        'м' | 'М' | 'Μ' => 'm',
        'ո' | 'п' | 'Ν' => 'n',
        'о' | 'ο' | 'О' | 'Ο' | 'օ' | '0' | 'σ' => 'o',
        'р' | 'ρ' | 'Р' | 'Ρ' => 'p',
        'ԛ' | 'զ' => 'q',
        'г' => 'r',
        'ѕ' | 'Ѕ' | 'ꜱ' => 's',
        'т' | 'τ' | 'Т' | 'Τ' => 't',
        'υ' | 'ս' | 'ʋ' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ω' | 'ա' | 'ѡ' => 'w',
        'х' | 'χ' | 'Х' | 'Χ' => 'x',
        'у' | 'γ' | 'У' | 'Υ' | 'ү' => 'y',
        'Ζ' | 'ᴢ' => 'z',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, expected: Option<Likeness>) {
        let found = lookalikes(&[("s", one), ("t", other)], 10);
        assert_eq!(found.pairs.first().map(|(_, _, likeness)| *likeness), expected, "{one} {other}");
    }

    #[test]
    fn pairs() {
        check("search", "search", Some(Likeness::Same));
        check("send_money", "Send-Money", Some(Likeness::Spelling));
        check("sendMoney", "send_money", Some(Likeness::Spelling));
        check("send_money", "send_mоney", Some(Likeness::Confusable));
        check("send_money", "ѕеnd_money", Some(Likeness::Confusable));
        check("send_money", "send_m0ney", Some(Likeness::Confusable));
        check("ｓｅｎｄ", "send", Some(Likeness::Spelling));
        check("transfer_money", "transfer_monney", Some(Likeness::Slip));
        check("transfer_money", "transfre_money", Some(Likeness::Slip));
        check("transfer_money", "tranzfer_money", Some(Likeness::Slip));
        // Short names, numbers and two slips are not compared.
        check("list", "lost", None);
        check("transfer_money_1", "transfer_money_2", None);
        check("transfer_money", "tranzfre_money", None);
        check("お風呂沸かし", "エアコン操作", None);
        check("--", "__", None);
    }

    #[test]
    fn only_across_servers() {
        let names = [("s", "search"), ("s", "Search"), ("t", "search"), ("u", "search")];
        let found = lookalikes(&names, 1);
        assert_eq!((found.pairs, found.counts), (vec![(0, 2, Likeness::Same)], [0, 0, 0, 2]));
        assert_eq!(lookalikes(&names, 10).pairs, [(0, 2, Likeness::Same), (0, 3, Likeness::Same)]);
    }

    /// A server with many tools that is configured twice.
    #[test]
    fn shared_names_do_not_hide_similar_ones() {
        let shared: Vec<String> = (0..50).map(|n| format!("a{n}_shared")).collect();
        let mut names: Vec<(&str, &str)> =
            ["s", "t"].iter().flat_map(|server| shared.iter().map(|name| (*server, name.as_str()))).collect();
        names.extend([
            ("s", "transfer_money"),
            ("u", "transfer_mоney"),
            ("u", "transfer_monney"),
            ("u", "Transfer-Money"),
        ]);
        let found = lookalikes(&names, 10);
        let kinds: Vec<Likeness> = found.pairs.iter().map(|(_, _, likeness)| *likeness).collect();
        assert_eq!(kinds[..4], [Likeness::Confusable, Likeness::Slip, Likeness::Spelling, Likeness::Same]);
        assert_eq!((kinds.len(), found.counts), (13, [1, 1, 1, 50]));
    }

    #[test]
    fn a_slip_of_a_shared_name_is_paired_with_each_server() {
        let names = [("s", "update_label"), ("t", "update_labels"), ("u", "update_labels"), ("u", "update_label")];
        let slips: Vec<Pair> =
            lookalikes(&names, 10).pairs.into_iter().filter(|(_, _, likeness)| *likeness == Likeness::Slip).collect();
        assert_eq!(slips, [(0, 1, Likeness::Slip), (0, 2, Likeness::Slip), (1, 3, Likeness::Slip)]);
    }

    /// Ten thousand names, all with many near ones. Each is compared with a few: all with each
    /// other would be fifty million comparisons.
    #[test]
    fn many_names_are_compared_with_few() {
        let names: Vec<(String, String)> = (0..10_000)
            .map(|n| (format!("server{}", n % 50), format!("list_all_{:x}_of_{}", n / 3, ["users", "rows"][n % 2])))
            .collect();
        let names: Vec<(&str, &str)> = names.iter().map(|(server, name)| (server.as_str(), name.as_str())).collect();
        let found = lookalikes(&names, 100);
        let listed = Likeness::ALL.iter().map(|likeness| found.count(*likeness).min(100)).sum::<usize>();
        assert_eq!(found.pairs.len(), listed);
        let groups = groups_of(&names);
        let comparisons: usize = crowds(&groups).iter().map(|crowd| crowd.len() * (crowd.len() - 1) / 2).sum();
        assert!(comparisons < 100 * groups.len(), "{comparisons} for {}", groups.len());
    }

    proptest! {
        #[test]
        fn any_names_are_looked_at(names in prop::collection::vec(("[a-c]", ".{0,16}"), 0..12)) {
            let names: Vec<(&str, &str)> = names.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            for (one, other, likeness) in lookalikes(&names, 100).pairs {
                prop_assert!(names[one].0 != names[other].0);
                prop_assert_eq!(likeness == Likeness::Same, names[one].1 == names[other].1);
            }
        }
    }
}
