//! Comparing values of the context.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::{Op, RuleView};

/// The context's value of a key: as it stands, or else by following its dots into nested objects.
pub(super) fn find<'a>(view: &'a impl RuleView, key: &str) -> Option<&'a Value> {
    if let Some(value) = view.context(key) {
        return Some(value);
    }
    let (mut first, mut rest) = key.split_once('.')?;
    let mut within = view.context(first)?;
    loop {
        let object = within.as_object()?;
        if let Some(value) = object.get(rest) {
            return Some(value);
        }
        (first, rest) = rest.split_once('.')?;
        within = object.get(first)?;
    }
}

impl Op {
    /// Whether the context's value, if it is there, compares like this with the given one.
    pub(super) fn holds(self, found: Option<&Value>, given: &Value) -> bool {
        let ordered =
            |fits: fn(Ordering) -> bool| found.and_then(|found| order(found, given)).is_some_and(fits);
        match self {
            Self::Eq => found.is_some_and(|found| same(found, given)),
            Self::Ne => !found.is_some_and(|found| same(found, given)),
            Self::Gt => ordered(Ordering::is_gt),
            Self::Ge => ordered(Ordering::is_ge),
            Self::Lt => ordered(Ordering::is_lt),
            Self::Le => ordered(Ordering::is_le),
            Self::Contains => found.is_some_and(|found| contains(found, given)),
            Self::NotContains => !found.is_some_and(|found| contains(found, given)),
            Self::In => found.is_some_and(|found| given.is_array() && contains(given, found)),
            Self::Matches => match (found, given) {
                (Some(Value::String(text)), Value::String(pattern)) => fits(text, pattern),
                _ => false,
            },
            Self::Exists => found.is_some(),
            Self::NotExists => found.is_none(),
        }
    }
}

/// Numbers with numbers and strings with strings; nothing else has an order.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// By size: whole numbers exactly, and anything with a fraction as a float.
fn order_numbers(a: &Number, b: &Number) -> Option<Ordering> {
    let whole = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Whether two values are the same, with numbers compared by size at every depth.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Whether a string has a part, an array an element, or an object a key.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::String(whole), Value::String(part)) => whole.contains(part.as_str()),
        (Value::Array(whole), part) => whole.iter().any(|element| same(element, part)),
        (Value::Object(whole), Value::String(key)) => whole.contains_key(key),
        _ => false,
    }
}

/// One element of a pattern.
#[derive(Clone, Copy)]
enum Glob {
    Any,
    One,
    Exactly(char),
}

/// Whether a text fits a pattern as a whole. The cost is at most the product of their lengths.
fn fits(text: &str, pattern: &str) -> bool {
    let mut globs = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        globs.push(match letter {
            '*' => Glob::Any,
            '?' => Glob::One,
            '\\' => Glob::Exactly(letters.next().unwrap_or('\\')),
            letter => Glob::Exactly(letter),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut glob) = (0, 0);
    // Where to go on when a guess about the last `*` was too short.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match globs.get(glob) {
            Some(Glob::Any) => {
                star = Some((glob, at));
                glob += 1;
            }
            Some(Glob::One) => (at, glob) = (at + 1, glob + 1),
            Some(Glob::Exactly(letter)) if *letter == text[at] => (at, glob) = (at + 1, glob + 1),
            _ => match star {
                Some((starred, from)) => {
                    star = Some((starred, from + 1));
                    (at, glob) = (from + 1, starred + 1);
                }
                None => return false,
            },
        }
    }
    globs[glob..].iter().all(|glob| matches!(glob, Glob::Any))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pattern_fits_a_text_as_a_whole() {
        for (text, pattern) in [
            ("", ""),
            ("", "*"),
            ("abc", "abc"),
            ("abc", "a*"),
            ("abc", "*c"),
            ("abc", "a?c"),
            ("abc", "***"),
            ("aXbXc", "a*b*c"),
            ("a*c", r"a\*c"),
            ("größe", "gr??e"),
            ("a\\", "a\\"),
        ] {
            assert!(fits(text, pattern), "{text:?} fits {pattern:?}");
        }
        for (text, pattern) in [
            ("abc", ""),
            ("abc", "ab"),
            ("abc", "bc"),
            ("abc", "a?"),
            ("abc", r"a\*c"),
            ("", "?"),
            ("ab", "*a"),
        ] {
            assert!(!fits(text, pattern), "{text:?} does not fit {pattern:?}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_is_answered_at_once() {
        // Trying every way to share the text out among the stars would take longer than the universe has.
        let text = "a".repeat(2_000);
        assert!(!fits(&text, &("*a".repeat(50) + "b")));
    }

    #[test]
    fn numbers_are_compared_by_size_at_every_depth() {
        assert!(same(&json!({"a": [1, 2.0]}), &json!({"a": [1.0, 2]})));
        assert!(!same(&json!(u64::MAX), &json!(u64::MAX - 1)));
        assert_eq!(order(&json!(-1), &json!(u64::MAX)), Some(Ordering::Less));
        assert_eq!(order(&json!(1.5), &json!(1)), Some(Ordering::Greater));
    }
}
