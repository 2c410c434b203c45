//! Keywords for strings, arrays and objects.

use serde_json::{Map, Value};

use super::{
    Verdict::{self, Maybe, No, Yes},
    compare::{is_equal, of_another_kind, within},
    verdict::SchemaCheck,
};

/// Maximum number of bytes of a text that a pattern is matched against.
const MAX_MATCHED: usize = 16 << 10;

/// Maximum number of items that are checked for duplicates.
const MAX_UNIQUE: usize = 200;

impl SchemaCheck<'_> {
    pub(super) fn text_keyword(&mut self, key: &str, rule: &Value, text: &str) -> Verdict {
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

    /// Checks whether a pattern matches a text.
    pub(super) fn matches(&mut self, pattern: &str, text: &str) -> Verdict {
        if text.len() > MAX_MATCHED || !self.take(1 + text.len() / 64) {
            return Maybe;
        }
        self.schema.pattern(pattern).map(|pattern| pattern.is_match(text)).into()
    }

    pub(super) fn array_keyword(
        &mut self,
        key: &str,
        rule: &Value,
        rules: &Map<String, Value>,
        items: &[Value],
    ) -> Verdict {
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

    /// Checks the first items against a list of schemas.
    fn each_of(&mut self, rules: &Value, items: &[Value]) -> Verdict {
        let Value::Array(rules) = rules else { return Maybe };
        let pairs = rules.iter().zip(items);
        pairs.fold(Yes, |verdict, (rule, item)| if verdict == No { No } else { verdict.and(self.check(rule, item)) })
    }

    /// Checks all values against one schema.
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

    pub(super) fn object_keyword(
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

    /// Checks whether a property is covered by no other keyword.
    pub(super) fn is_further(&mut self, name: &str, rules: &Map<String, Value>) -> Verdict {
        if rules.get("properties").and_then(Value::as_object).is_some_and(|known| known.contains_key(name)) {
            return No;
        }
        let patterns = rules.get("patternProperties").and_then(Value::as_object);
        let patterns = patterns.into_iter().flat_map(|patterns| patterns.keys());
        patterns.fold(No, |verdict, pattern| verdict.or(self.matches(pattern, name))).not()
    }
}
