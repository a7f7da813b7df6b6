//! Python's JSON: like JSON, but with `NaN`, `Infinity` and `-Infinity`.

use serde_json::Value;

/// The key of the object that stands for a number JSON does not have.
const NONFINITE: &str = "$float";

const TOKENS: [(&str, &str); 3] =
    [("-Infinity", r#"{"$float":"-inf"}"#), ("Infinity", r#"{"$float":"inf"}"#), ("NaN", r#"{"$float":"nan"}"#)];

/// Parses the JSON that Python's `json.dumps` writes. A number that is not
/// finite becomes an object that [`nonfinite`] recognises.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&strict(text))
}

/// The number, where `value` is one that [`parse`] had to wrap.
pub(super) fn nonfinite(value: &Value) -> Option<f64> {
    let object = value.as_object().filter(|o| o.len() == 1)?;
    object.get(NONFINITE)?.as_str()?.parse().ok()
}

/// `text` with Python's three extra tokens, outside strings, replaced.
fn strict(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        if !in_string && let Some((token, object)) = TOKENS.iter().find(|(t, _)| rest.starts_with(t)) {
            out.push_str(object);
            rest = &rest[token.len()..];
            continue;
        }
        // In a string, a backslash takes the next character with it.
        let escaped = in_string && c == '\\';
        let taken = c.len_utf8() + if escaped { next_len(&rest[1..]) } else { 0 };
        in_string ^= c == '"';
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

fn next_len(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonfinite_numbers() {
        let v = parse(r#"[-Infinity, Infinity, NaN, "NaN \"Infinity é\\", 1.5]"#).unwrap();
        assert_eq!(nonfinite(&v[0]), Some(f64::NEG_INFINITY));
        assert_eq!(nonfinite(&v[1]), Some(f64::INFINITY));
        assert!(nonfinite(&v[2]).unwrap().is_nan());
        assert_eq!(v[3], r#"NaN "Infinity é\"#);
        assert_eq!(nonfinite(&v[4]), None);
    }

    #[test]
    fn bad_text_is_an_error() {
        for text in ["", "[", "nan", "\"\\", "[1 NaN]", "Infinityy", "\u{1F600}"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
