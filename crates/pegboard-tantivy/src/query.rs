//! From the text of a query to something Tantivy can run.

use tantivy::{
    query::{EmptyQuery, Occur, Query, QueryParser},
    query_grammar::{Delimiter, UserInputAst, UserInputLeaf, UserInputLiteral, parse_query},
};

/// Deeper queries are not looked into: the parser recurses once for each parenthesis and
/// each `NOT`.
const MAX_NESTING: usize = 64;

/// Terms that all `word*` of a query may stand for together.
const MAX_PREFIX_TERMS: usize = 1024;

/// A query, and the pieces of it that can be matched by themselves.
pub(crate) struct Parsed {
    pub(crate) query: Box<dyn Query>,
    pub(crate) pieces: Vec<Piece>,
    /// Whether the text did not parse and is searched for as a phrase.
    pub(crate) is_phrase: bool,
}

/// A word or phrase of a query that can raise a tool's score.
pub(crate) struct Piece {
    pub(crate) field: Option<String>,
    pub(crate) text: String,
    pub(crate) query: Box<dyn Query>,
}

/// Gives the indexed terms that begin with a prefix, at most as many as asked for.
pub(crate) trait Prefixes {
    fn expand(&self, field: Option<&str>, prefix: &str, most: usize) -> Vec<String>;
}

/// Parses `text`. What is not a valid query is searched for as a phrase, and what is not
/// a valid phrase either finds nothing.
pub(crate) fn parse(text: &str, parser: &QueryParser, prefixes: &impl Prefixes) -> Parsed {
    let mut left = MAX_PREFIX_TERMS;
    if nesting(text) <= MAX_NESTING
        && let Ok(ast) = parse_query(text)
        && let Ok(parsed) = build(ast, parser, prefixes, &mut left)
    {
        return Parsed { is_phrase: false, ..parsed };
    }
    // A query with quotes of its own is no phrase either, and finds nothing.
    let phrase = parse_query(&format!("\"{text}\"")).map_err(|_| ());
    phrase.and_then(|ast| build(ast, parser, prefixes, &mut left)).map_or_else(
        |()| Parsed { query: Box::new(EmptyQuery), pieces: Vec::new(), is_phrase: true },
        |parsed| Parsed { is_phrase: true, ..parsed },
    )
}

/// The deepest parentheses plus the longest row of `NOT`s.
fn nesting(text: &str) -> usize {
    let mut depth: usize = 0;
    let mut deepest = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let rows = words.chunk_by(|a, b| *a == "NOT" && *b == "NOT");
    deepest + rows.map(<[&str]>::len).max().unwrap_or(0)
}

fn build(ast: UserInputAst, parser: &QueryParser, prefixes: &impl Prefixes, left: &mut usize) -> Result<Parsed, ()> {
    let mut leaves = Vec::new();
    let ast = expand(ast, prefixes, left, true, &mut leaves);
    let query = parser.build_query_from_user_input_ast(ast).map_err(|_| ())?;
    let mut pieces = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        let query = parser.build_query_from_user_input_ast(leaf.ast).map_err(|_| ())?;
        pieces.push(Piece { field: leaf.field, text: leaf.text, query });
    }
    Ok(Parsed { query, pieces, is_phrase: false })
}

/// A leaf as the user wrote it, and what it became.
struct Leaf {
    field: Option<String>,
    text: String,
    ast: UserInputAst,
}

/// Turns every bare `word*`, whose star the parser would drop, into the words that begin
/// so, and collects the leaves that are not negated.
fn expand(
    ast: UserInputAst,
    prefixes: &impl Prefixes,
    left: &mut usize,
    counts: bool,
    leaves: &mut Vec<Leaf>,
) -> UserInputAst {
    match ast {
        UserInputAst::Clause(children) => UserInputAst::Clause(
            children
                .into_iter()
                .map(|(occur, child)| {
                    let counts = counts && occur != Some(Occur::MustNot);
                    (occur, expand(child, prefixes, left, counts, leaves))
                })
                .collect(),
        ),
        UserInputAst::Boost(inner, boost) => {
            let first = leaves.len();
            let inner = expand(*inner, prefixes, left, counts, leaves);
            for leaf in &mut leaves[first..] {
                let ast = std::mem::replace(&mut leaf.ast, UserInputAst::Clause(Vec::new()));
                leaf.ast = UserInputAst::Boost(Box::new(ast), boost);
            }
            UserInputAst::Boost(Box::new(inner), boost)
        }
        UserInputAst::Leaf(leaf) => {
            let UserInputLeaf::Literal(written) = *leaf else { return UserInputAst::Leaf(leaf) };
            let (field, text) = (written.field_name.clone(), written.phrase.clone());
            let ast = expand_literal(written, prefixes, left);
            if counts {
                leaves.push(Leaf { field, text, ast: ast.clone() });
            }
            ast
        }
    }
}

fn expand_literal(written: UserInputLiteral, prefixes: &impl Prefixes, left: &mut usize) -> UserInputAst {
    let stem = written.phrase.trim_end_matches('*');
    if written.delimiter != Delimiter::None || stem.len() == written.phrase.len() || stem.is_empty() {
        return UserInputAst::Leaf(Box::new(UserInputLeaf::Literal(written)));
    }
    let field = written.field_name;
    let words: Vec<&str> = stem.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    if words.len() != 1 {
        return literal(field, words.join(" "), Delimiter::DoubleQuotes, true);
    }
    let terms = prefixes.expand(field.as_deref(), &words[0].to_lowercase(), *left);
    *left -= terms.len();
    match terms.len() {
        0 => literal(field, words[0].to_owned(), Delimiter::None, false),
        _ => {
            let term = |term| (None, literal(field.clone(), term, Delimiter::DoubleQuotes, false));
            UserInputAst::Clause(terms.into_iter().map(term).collect())
        }
    }
}

fn literal(field_name: Option<String>, phrase: String, delimiter: Delimiter, prefix: bool) -> UserInputAst {
    let literal = UserInputLiteral { field_name, phrase, delimiter, slop: 0, prefix };
    UserInputAst::Leaf(Box::new(UserInputLeaf::Literal(literal)))
}
