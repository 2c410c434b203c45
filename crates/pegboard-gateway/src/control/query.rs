//! The query part of a URL.

/// Returns the pairs of a query, decoded.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (&str, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key, percent_decode(&value.replace('+', " ")))
    })
}

/// Encodes a text for a path or a query: `a b` as `a%20b`.
pub(super) fn percent_encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Decodes a percent-encoded text: `%41` as `A`.
pub(super) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code =
            code.and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths() {
        for name in ["git-hub_1.x", "my server&é", "100%"] {
            assert_eq!(percent_decode(&percent_encode(name)), name);
        }
        assert_eq!(percent_encode("my server&é"), "my%20server%26%C3%A9");
    }

    #[test]
    fn pairs_of_a_query() {
        let check = |query: &str, expected: &[(&str, &str)]| {
            let found: Vec<(&str, String)> = pairs(query).collect();
            let expected: Vec<(&str, String)> =
                expected.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
            assert_eq!(found, expected, "{query}");
        };
        check("", &[]);
        check("q=a+b%26c&limit=5&&flag", &[("q", "a b&c"), ("limit", "5"), ("flag", "")]);
    }
}
