//! Following a schema through a value, with a budget.

use serde_json::{Map, Number, Value};

use super::{
    compare::{is_equal, is_multiple, is_type, order},
    schema::Schema,
};

/// Steps that one look may take; each keyword is one, and so are the members of an `enum`.
const STEPS: usize = 50_000;

/// How deep it may go. References that lead back to themselves end here.
const DEPTH: usize = 96;

/// Bytes of a text that a pattern is tried on.
const MAX_MATCHED: usize = 16 << 10;

/// Items among which equal ones are looked for.
const MAX_UNIQUE: usize = 200;

/// Whether a value fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The schema says something that is not understood here, or more than there is time for.
    Maybe,
}

use Verdict::{Maybe, No, Yes};

impl Verdict {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (No, _) | (_, No) => No,
            (Yes, Yes) => Yes,
            _ => Maybe,
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Yes, _) | (_, Yes) => Yes,
            (No, No) => No,
            _ => Maybe,
        }
    }

    fn not(self) -> Self {
        match self {
            Yes => No,
            No => Yes,
            Maybe => Maybe,
        }
    }
}

impl From<bool> for Verdict {
    fn from(fits: bool) -> Self {
        if fits { Yes } else { No }
    }
}

impl From<Option<bool>> for Verdict {
    fn from(fits: Option<bool>) -> Self {
        fits.map_or(Maybe, Self::from)
    }
}

impl Schema {
    /// Whether a value fits.
    pub fn verdict(&self, value: &Value) -> Verdict {
        Look::new(self).check(&self.root, value)
    }
}

/// One look at a value.
pub(super) struct Look<'a> {
    schema: &'a Schema,
    steps: usize,
    depth: usize,
}

impl<'a> Look<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        Self::with_steps(schema, STEPS)
    }

    /// A look that may take so many steps, in however many checks.
    pub(super) fn with_steps(schema: &'a Schema, steps: usize) -> Self {
        Self { schema, steps, depth: 0 }
    }

    /// Takes so many steps, if they are left.
    fn take(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_sub(steps);
        self.steps > 0
    }

    /// Whether `value` fits `rules`, a schema or a part of one.
    pub(super) fn check(&mut self, rules: &Value, value: &Value) -> Verdict {
        match rules {
            Value::Bool(fits) => (*fits).into(),
            Value::Object(rules) if self.depth < DEPTH => {
                self.depth += 1;
                let verdict = self.check_object(rules, value);
                self.depth -= 1;
                verdict
            }
            _ => Maybe,
        }
    }

    fn check_object(&mut self, rules: &Map<String, Value>, value: &Value) -> Verdict {
        if self.schema.is_old
            && let Some(reference) = rules.get("$ref")
        {
            return self.keyword("$ref", reference, rules, value);
        }
        // A keyword of OpenAPI, which some servers understand.
        if value.is_null() && rules.get("nullable") == Some(&Value::Bool(true)) {
            return Maybe;
        }
        let mut verdict = Yes;
        for (key, rule) in rules {
            if !self.take(1) {
                return Maybe;
            }
            verdict = verdict.and(self.keyword(key, rule, rules, value));
            if verdict == No {
                return No;
            }
        }
        verdict
    }

    /// Whether `value` fits what one keyword says; `rules` is where it stands.
    pub(super) fn keyword(&mut self, key: &str, rule: &Value, rules: &Map<String, Value>, value: &Value) -> Verdict {
        match key {
            "$ref" => match rule.as_str().and_then(|reference| self.schema.target(reference)) {
                Some(target) => self.check(target, value),
                None => Maybe,
            },
            "type" => match rule {
                Value::String(kind) => is_type(value, kind).into(),
                Value::Array(kinds) => self.any(kinds, |_, kind| match kind.as_str() {
                    Some(kind) => is_type(value, kind).into(),
                    None => Maybe,
                }),
                _ => Maybe,
            },
            "enum" => match rule {
                Value::Array(members) if self.take(members.len()) => {
                    members.iter().any(|member| is_equal(member, value)).into()
                }
                _ => Maybe,
            },
            "const" => is_equal(rule, value).into(),
            "allOf" => match rule {
                Value::Array(all) => all.iter().fold(Yes, |verdict, one| match verdict {
                    No => No,
                    verdict => verdict.and(self.check(one, value)),
                }),
                _ => Maybe,
            },
            "anyOf" => match rule {
                Value::Array(any) => self.any(any, |look, one| look.check(one, value)),
                _ => Maybe,
            },
            "oneOf" => match rule {
                Value::Array(forms) => self.one_of(forms, value),
                _ => Maybe,
            },
            "not" => self.check(rule, value).not(),
            "if" => {
                let consequence = |look: &mut Self, key| rules.get(key).map_or(Yes, |rule| look.check(rule, value));
                match self.check(rule, value) {
                    Yes => consequence(self, "then"),
                    No => consequence(self, "else"),
                    Maybe => {
                        let (then, otherwise) = (consequence(self, "then"), consequence(self, "else"));
                        if then == No && otherwise == No { No } else { Maybe }
                    }
                }
            }
            "dependentRequired" | "dependentSchemas" | "dependencies" => self.dependencies(rule, value),
            // What these say is said by another keyword, or is meant for people.
            "then" | "else" | "minContains" | "maxContains" | "title" | "description" | "default" | "examples"
            | "example" | "deprecated" | "readOnly" | "writeOnly" | "$comment" | "$schema" | "$id" | "id" | "$defs"
            | "definitions" | "$anchor" | "nullable" => Yes,
            _ => match value {
                Value::Number(number) => number_keyword(key, rule, rules, number),
                Value::String(text) => self.text_keyword(key, rule, text),
                Value::Array(items) => self.array_keyword(key, rule, rules, items),
                Value::Object(object) => self.object_keyword(key, rule, rules, object),
                Value::Null | Value::Bool(_) => of_another_kind(key),
            },
        }
    }

    /// Whether one of several fits.
    fn any(&mut self, forms: &[Value], mut check: impl FnMut(&mut Self, &Value) -> Verdict) -> Verdict {
        let mut verdict = No;
        for form in forms {
            if !self.take(1) {
                return Maybe;
            }
            verdict = verdict.or(check(self, form));
            if verdict == Yes {
                return Yes;
            }
        }
        verdict
    }

    fn one_of(&mut self, forms: &[Value], value: &Value) -> Verdict {
        let (mut fitting, mut unclear) = (0, false);
        for form in forms {
            match self.check(form, value) {
                Yes => fitting += 1,
                Maybe => unclear = true,
                No => {}
            }
            if fitting > 1 {
                return No;
            }
        }
        if unclear { Maybe } else { (fitting == 1).into() }
    }

    /// Whether what goes with a property is there, or fits.
    fn dependencies(&mut self, rules: &Value, value: &Value) -> Verdict {
        let Some(object) = value.as_object() else { return Yes };
        let Some(rules) = rules.as_object() else { return Maybe };
        let concerned = rules.iter().filter(|(name, _)| object.contains_key(*name));
        concerned.fold(Yes, |verdict, (_, rule)| match rule {
            Value::Array(names) => {
                let has = |name: &Value| name.as_str().is_none_or(|name| object.contains_key(name));
                verdict.and(names.iter().all(has).into())
            }
            rule => verdict.and(self.check(rule, value)),
        })
    }

    fn text_keyword(&mut self, key: &str, rule: &Value, text: &str) -> Verdict {
        match key {
            "minLength" | "maxLength" => {
                if !self.take(1 + text.len() / 256) {
                    return Maybe;
                }
                within(key == "minLength", rule, text.chars().count())
            }
            "pattern" => match rule.as_str() {
                Some(pattern) => self.matches(pattern, text),
                None => Maybe,
            },
            _ => of_another_kind(key),
        }
    }

    /// Whether a pattern is found in a text.
    pub(super) fn matches(&mut self, pattern: &str, text: &str) -> Verdict {
        if text.len() > MAX_MATCHED || !self.take(1 + text.len() / 64) {
            return Maybe;
        }
        self.schema.pattern(pattern).map(|pattern| pattern.is_match(text)).into()
    }

    fn array_keyword(&mut self, key: &str, rule: &Value, rules: &Map<String, Value>, items: &[Value]) -> Verdict {
        match key {
            "minItems" | "maxItems" => within(key == "minItems", rule, items.len()),
            "prefixItems" => self.each_of(rule, items),
            // Before 2020-12 a list of schemas here is what `prefixItems` is now.
            "items" if rule.is_array() => self.each_of(rule, items),
            "items" => {
                let before = rules.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                self.all(items.iter().skip(before), rule)
            }
            "additionalItems" => match rules.get("items") {
                Some(Value::Array(before)) => self.all(items.iter().skip(before.len()), rule),
                _ => Yes,
            },
            "contains" => self.contains(rule, rules, items),
            "uniqueItems" => match rule {
                Value::Bool(true) => self.is_unique(items),
                Value::Bool(false) => Yes,
                _ => Maybe,
            },
            _ => of_another_kind(key),
        }
    }

    /// Whether the first items fit a list of schemas.
    fn each_of(&mut self, rules: &Value, items: &[Value]) -> Verdict {
        let Value::Array(rules) = rules else { return Maybe };
        let pairs = rules.iter().zip(items);
        pairs.fold(Yes, |verdict, (rule, item)| if verdict == No { No } else { verdict.and(self.check(rule, item)) })
    }

    /// Whether all values fit one schema.
    fn all<'v>(&mut self, values: impl IntoIterator<Item = &'v Value>, rule: &Value) -> Verdict {
        let mut verdict = Yes;
        for value in values {
            if !self.take(1) {
                return verdict.and(Maybe);
            }
            verdict = verdict.and(self.check(rule, value));
            if verdict == No {
                return No;
            }
        }
        verdict
    }

    fn contains(&mut self, rule: &Value, rules: &Map<String, Value>, items: &[Value]) -> Verdict {
        let count = |key| rules.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let (least, most) = (count("minContains").unwrap_or(1), count("maxContains").unwrap_or(usize::MAX));
        let (mut fitting, mut unclear) = (0, 0);
        for item in items {
            if !self.take(1) {
                return Maybe;
            }
            match self.check(rule, item) {
                Yes => fitting += 1,
                Maybe => unclear += 1,
                No => {}
            }
        }
        if fitting > most || fitting + unclear < least {
            return No;
        }
        if unclear == 0 { Yes } else { Maybe }
    }

    fn is_unique(&mut self, items: &[Value]) -> Verdict {
        if items.len() > MAX_UNIQUE || !self.take(items.len() * items.len() / 8) {
            return Maybe;
        }
        let is_again = |(at, item): (usize, &Value)| items[..at].iter().any(|other| is_equal(other, item));
        (!items.iter().enumerate().any(is_again)).into()
    }

    fn object_keyword(
        &mut self,
        key: &str,
        rule: &Value,
        rules: &Map<String, Value>,
        object: &Map<String, Value>,
    ) -> Verdict {
        match (key, rule) {
            ("properties", Value::Object(properties)) => {
                // Whichever is shorter is gone through.
                let mut verdict = Yes;
                for (name, value) in object {
                    if !self.take(1) {
                        return verdict.and(Maybe);
                    }
                    if let Some(rule) = properties.get(name) {
                        verdict = verdict.and(self.check(rule, value));
                    }
                    if verdict == No {
                        return No;
                    }
                }
                verdict
            }
            ("patternProperties", Value::Object(patterns)) => {
                let mut verdict = Yes;
                for (pattern, rule) in patterns {
                    for (name, value) in object {
                        let concerns = self.matches(pattern, name);
                        let fits = if concerns == No { Yes } else { self.check(rule, value) };
                        verdict = verdict.and(if concerns == Maybe && fits == No { Maybe } else { fits });
                        if verdict == No || !self.take(1) {
                            return verdict.and(if verdict == No { No } else { Maybe });
                        }
                    }
                }
                verdict
            }
            ("additionalProperties", rule) => {
                let mut verdict = Yes;
                for (name, value) in object {
                    if !self.take(1) {
                        return verdict.and(Maybe);
                    }
                    let is_further = self.is_further(name, rules);
                    let fits = if is_further == No { Yes } else { self.check(rule, value) };
                    verdict = verdict.and(if is_further == Maybe && fits == No { Maybe } else { fits });
                    if verdict == No {
                        return No;
                    }
                }
                verdict
            }
            ("propertyNames", rule) => {
                let names: Vec<Value> = object.keys().map(|name| Value::String(name.clone())).collect();
                self.all(&names, rule)
            }
            // In old drafts a flag of the property.
            ("required", Value::Array(names)) => {
                let has = |name: &Value| name.as_str().is_none_or(|name| object.contains_key(name));
                if self.take(names.len()) { names.iter().all(has).into() } else { Maybe }
            }
            ("minProperties" | "maxProperties", rule) => within(key == "minProperties", rule, object.len()),
            _ => of_another_kind(key),
        }
    }

    /// Whether a property is one that nothing else speaks of.
    pub(super) fn is_further(&mut self, name: &str, rules: &Map<String, Value>) -> Verdict {
        if rules.get("properties").and_then(Value::as_object).is_some_and(|known| known.contains_key(name)) {
            return No;
        }
        let patterns = rules.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.into_iter().flat_map(|patterns| patterns.keys());
        patterns.fold(No, |verdict, pattern| verdict.or(self.matches(pattern, name))).not()
    }
}

/// A number is compared with what a keyword says.
fn number_keyword(key: &str, rule: &Value, rules: &Map<String, Value>, number: &Number) -> Verdict {
    // In draft 4 a flag beside the bound, which then is not itself allowed.
    let is_strict = |flag: &str| rules.get(flag) == Some(&Value::Bool(true));
    let Value::Number(bound) = rule else {
        return match (key, rule) {
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => Yes,
            _ => of_another_kind(key),
        };
    };
    let Some(order) = order(number, bound) else { return Maybe };
    match key {
        "minimum" => (order.is_gt() || order.is_eq() && !is_strict("exclusiveMinimum")).into(),
        "maximum" => (order.is_lt() || order.is_eq() && !is_strict("exclusiveMaximum")).into(),
        "exclusiveMinimum" => order.is_gt().into(),
        "exclusiveMaximum" => order.is_lt().into(),
        "multipleOf" => is_multiple(number, bound).into(),
        _ => of_another_kind(key),
    }
}

/// Whether a length keeps a bound, which may be written as `3.0`.
fn within(is_least: bool, bound: &Value, length: usize) -> Verdict {
    let Value::Number(bound) = bound else { return Maybe };
    match order(&Number::from(length), bound) {
        Some(order) if is_least => order.is_ge().into(),
        Some(order) => order.is_le().into(),
        None => Maybe,
    }
}

/// What a keyword says of values that it is not about, if it is one that we know.
fn of_another_kind(key: &str) -> Verdict {
    match key {
        "minimum"
        | "maximum"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | "multipleOf"
        | "minLength"
        | "maxLength"
        | "pattern"
        | "items"
        | "prefixItems"
        | "additionalItems"
        | "contains"
        | "minItems"
        | "maxItems"
        | "uniqueItems"
        | "properties"
        | "patternProperties"
        | "additionalProperties"
        | "propertyNames"
        | "required"
        | "minProperties"
        | "maxProperties" => Yes,
        _ => Maybe,
    }
}
