//! Rules on descriptions.

use pegboard_core::{Tool, naming, text::excerpt};

use super::{
    LintPass, list_names,
    report::Finding,
    rule::{Rule, Severity},
    words::{Words, is_placeholder, lead},
};

/// Length in bytes up to which a description need not describe its output.
const SHORT: usize = 400;

pub(super) fn check(pass: &LintPass<'_>, findings: &mut Vec<Finding>) {
    for (at, tool) in pass.tools.iter().enumerate() {
        let rules = if tool.description().trim().is_empty() || is_placeholder(tool.description()) {
            [undescribed(pass, at, tool), None, None]
        } else {
            [check_repetition(pass, at, tool), check_meaning(pass, at, tool), long(pass, at, tool)]
        };
        findings.extend(rules.into_iter().flatten());
    }
    check_outputs(pass, findings);
}

fn undescribed(pass: &LintPass<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let suggestion = format!("say what it does, to what, and what it returns: “{} …. Returns …”", beginning(tool));
    let message = match tool.description().trim() {
        "" => "it has no description".to_owned(),
        text => format!("its description is only a placeholder: “{text}”"),
    };
    Some(pass.finding(Rule::NoDescription, at, message, suggestion))
}

/// Finds a description that repeats the name.
fn check_repetition(pass: &LintPass<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let description = naming::fold(tool.description());
    if description != naming::fold(tool.name()) {
        return None;
    }
    let suggestion = format!("say more than the name: “{} …. Returns …”", beginning(tool));
    let finding = pass.finding(Rule::NoDescription, at, "its description only repeats its name".to_owned(), suggestion);
    let severity = pass.milder_severity(Rule::NoDescription, Severity::Warning);
    Some(Finding { severity, ..finding })
}

/// Returns the words of a name as the start of a sentence.
fn beginning(tool: &Tool) -> String {
    let words = Words::of(tool.name()).join(" ");
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Checks whether name and description contain an action and its object. At most one finding:
/// without both, a text says nothing.
fn check_meaning(pass: &LintPass<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    if !pass.words.is_english(tool.description()) {
        return None;
    }
    let mut said = Words::of(tool.name());
    tool.title().iter().for_each(|title| said.extend(Words::of(title)));
    said.extend(Words::of(tool.description()));
    let words = &pass.words;
    if said.iter().all(|word| words.is_generic(word)) {
        let message = "name and description could belong to any tool: all their words are generic".to_owned();
        let server = tool.server_name().map_or(String::new(), |server| format!(" (of `{server}`)"));
        let suggestion = format!("name what it acts on{server}, in the words that users would search for");
        return Some(pass.finding(Rule::NoDomain, at, message, suggestion));
    }
    let has_action = said.iter().any(|word| words.is_action(word)) || begins_with_verb(tool.description());
    if has_action {
        return check_vague(pass, at, tool);
    }
    let name = Words::of(tool.name()).join(" ");
    let suggestion = format!("begin the description with a verb: what is done with “{name}” (get, list, send, …)?");
    Some(pass.finding(Rule::NoAction, at, "neither name nor description says what it does".to_owned(), suggestion))
}

/// Finds a description without meaning if the name has one: models and searches read both.
fn check_vague(pass: &LintPass<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let (words, said) = (&pass.words, Words::of(tool.description()));
    let is_vague = said.iter().any(|word| words.is_vague(word));
    if is_vague && said.iter().all(|word| words.is_generic(word) || words.is_vague(word) || word == "about") {
        let message = "its description could belong to any tool: it names neither an object nor a domain".to_owned();
        let suggestion = "name what it acts on and its domain, in the words that users would search for".to_owned();
        let finding = pass.finding(Rule::NoDomain, at, message, suggestion);
        return Some(Finding { severity: pass.milder_severity(Rule::NoDomain, Severity::Note), ..finding });
    }
    let has_action = said.iter().any(|word| words.is_action(word)) || begins_with_verb(tool.description());
    if !has_action && is_vague {
        let message = "its description does not say what it does".to_owned();
        let suggestion = format!("begin it with a verb: “{} …”", beginning(tool));
        let finding = pass.finding(Rule::NoAction, at, message, suggestion);
        return Some(Finding { severity: pass.milder_severity(Rule::NoAction, Severity::Note), ..finding });
    }
    None
}

/// Returns whether a text begins with a verb form, like `Frobnicates the …`.
fn begins_with_verb(text: &str) -> bool {
    let words = Words::of(text);
    let determiners = ["a", "an", "the", "all", "any", "your", "one", "this", "each", "every", "with", "into", "it"];
    let is_verb = |word: &String| word.len() > 3 && !word.ends_with("ion") && !word.ends_with("ment");
    matches!(words.as_slice(), [first, second, ..] if is_verb(first) && determiners.contains(&second.as_str()))
}

/// Returns whether a tool creates something without describing its output.
fn creates_without_output(pass: &LintPass<'_>, tool: &Tool) -> bool {
    let (words, description) = (&pass.words, tool.description());
    let is_judged = description.len() <= SHORT && words.is_english(description) && !is_placeholder(description);
    if tool.output_schema().is_some() || !is_judged {
        return false;
    }
    let mut beginning = Words::of(tool.name());
    beginning.extend(Words::of(lead(description)));
    let first = beginning.iter().find(|word| words.is_action(word));
    let says = Words::of(description).iter().any(|word| words.is_output(word));
    !says && first.is_some_and(|word| words.is_making(word))
}

/// Creates one finding for each server, since its author writes all descriptions alike.
fn check_outputs(pass: &LintPass<'_>, findings: &mut Vec<Finding>) {
    let silent: Vec<usize> = (0..pass.tools.len()).filter(|at| creates_without_output(pass, pass.tools[*at])).collect();
    let server = |at: &usize| pass.tools[*at].server_name();
    for members in silent.chunk_by(|one, other| server(one) == server(other)) {
        let names = list_names(members.iter().map(|at| pass.tools[*at].name()));
        let message = match members.len() {
            1 => "it creates something, but its return value is not described".to_owned(),
            count => format!("{count} tools create something, but their return values are not described: {names}"),
        };
        let suggestion = "add “Returns …” (an id, a link, the full object), which a model needs for its next step; \
                          or declare an `outputSchema`";
        findings.push(pass.group(Rule::NoOutput, members, message, suggestion.to_owned()));
    }
}

fn long(pass: &LintPass<'_>, at: usize, tool: &Tool) -> Option<Finding> {
    let limit = pass.thresholds.description_tokens;
    let tokens = (pass.count_tokens)(tool.description());
    if tokens <= limit {
        return None;
    }
    let message = format!("its description costs about {tokens} tokens, over the limit of {limit}");
    let suggestion = match longest_part(pass, tool.description()) {
        Some((start, cost)) => format!(
            "the part that begins with “{start}” costs about {cost}: move details of a call into the descriptions of \
             parameters, manuals into a resource or prompt"
        ),
        None => "keep what helps to choose the tool; move manuals into a resource or prompt".to_owned(),
    };
    Some(pass.finding(Rule::LongDescription, at, message, suggestion))
}

/// Returns the start and the size of the longest paragraph after the first one.
fn longest_part(pass: &LintPass<'_>, text: &str) -> Option<(String, usize)> {
    let parts = text.split("\n\n").skip(1).map(|part| (part, (pass.count_tokens)(part)));
    // The first of equals.
    let (part, cost) = parts.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    let line = part.trim().lines().next().unwrap_or_default();
    let start = excerpt(line.trim_matches(|c: char| !c.is_alphanumeric()), 40);
    (!start.is_empty()).then(|| (start.into_owned(), cost))
}
