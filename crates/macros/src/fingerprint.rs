//! A stable hash of a function's tokens.
//!
//! Two texts that mean the same to the compiler hash the same: doc comments, lint attributes, trailing commas
//! and the invisible groups that `macro_rules!` leaves behind are not seen. Nothing depends on spans, on
//! spacing, or on the version of the compiler.

use hmac_sha256::Hash;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Attributes that say nothing about what a function does.
const SILENT: [&str; 8] = ["doc", "allow", "expect", "warn", "deny", "forbid", "must_use", "inline"];

/// The fingerprint of these tokens: sixteen hexadecimal digits.
pub(crate) fn of(tokens: TokenStream) -> String {
    let mut hash = Hash::new();
    walk(tokens, Trailing::Keep, &mut hash);
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a comma at the end of a group means something.
#[derive(Clone, Copy, PartialEq)]
enum Trailing {
    Keep,
    Drop,
}

fn walk(tokens: TokenStream, trailing: Trailing, hash: &mut Hash) {
    let mut tokens = flatten(tokens);
    strip_silent_attributes(&mut tokens);
    if trailing == Trailing::Drop && is_comma(tokens.last()) {
        tokens.pop();
    }
    for at in 0..tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let (open, close) = marks(group.delimiter());
                piece(hash, open);
                walk(group.stream(), trailing_comma(&tokens[..at], group), hash);
                piece(hash, close);
            }
            TokenTree::Ident(ident) => piece(hash, &format!("i{ident}")),
            TokenTree::Punct(punct) => piece(hash, &format!("p{}", punct.as_char())),
            TokenTree::Literal(literal) => piece(hash, &format!("l{literal}")),
        }
    }
}

/// Length first, so that no two lists of pieces run together.
fn piece(hash: &mut Hash, piece: &str) {
    hash.update((piece.len() as u64).to_le_bytes());
    hash.update(piece.as_bytes());
}

/// Opens the groups that the author cannot see.
fn flatten(tokens: TokenStream) -> Vec<TokenTree> {
    let mut flat = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                flat.extend(flatten(group.stream()))
            }
            token => flat.push(token),
        }
    }
    flat
}

fn strip_silent_attributes(tokens: &mut Vec<TokenTree>) {
    let mut at = 0;
    while at < tokens.len() {
        let bang = usize::from(is_punct(tokens.get(at + 1), '!'));
        if is_punct(tokens.get(at), '#') && is_silent(tokens.get(at + 1 + bang)) {
            tokens.drain(at..at + 2 + bang);
        } else {
            at += 1;
        }
    }
}

fn is_silent(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = token else { return false };
    let name = group.stream().into_iter().next().map(|name| name.to_string());
    group.delimiter() == Delimiter::Bracket && name.is_some_and(|name| SILENT.contains(&name.as_str()))
}

/// `(a,)` is a tuple and `(a)` is not, so there a comma counts. In a call, a list or a block it does not.
fn trailing_comma(before: &[TokenTree], group: &Group) -> Trailing {
    let callee = match before.last() {
        Some(TokenTree::Ident(word)) => !is_keyword(&word.to_string()),
        Some(TokenTree::Punct(punct)) => matches!(punct.as_char(), '>' | '?' | '!'),
        Some(TokenTree::Group(group)) => group.delimiter() != Delimiter::Brace,
        _ => false,
    };
    let commas = flatten(group.stream()).iter().filter(|token| is_comma(Some(token))).count();
    if group.delimiter() == Delimiter::Parenthesis && !callee && commas == 1 {
        Trailing::Keep
    } else {
        Trailing::Drop
    }
}

fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "return" | "break" | "in" | "match" | "if" | "while" | "else" | "let" | "mut" | "ref" | "move" | "as"
    )
}

fn is_comma(token: Option<&TokenTree>) -> bool {
    is_punct(token, ',')
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn marks(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("o(", "c)"),
        Delimiter::Brace => ("o{", "c}"),
        Delimiter::Bracket => ("o[", "c]"),
        Delimiter::None => ("o", "c"),
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Group;
    use quote::quote;

    use super::*;

    const CODE: &str = r#"async fn clean(extract: &[User]) -> Result<Vec<User>> {
        let limit = 1.5e3 - 'a' as u8 as f64;
        Ok(extract.iter().filter(|u| u.age > limit && u.ok).cloned().collect())
    }"#;

    fn hash(code: &str) -> String {
        of(code.parse().unwrap())
    }

    #[test]
    fn the_hash_of_a_given_function_never_changes() {
        assert_eq!(hash(CODE), "5588a990f3e4a6ea");
        assert_eq!(hash(""), "e3b0c44298fc1c14");
    }

    #[test]
    fn comments_spacing_lints_and_trailing_commas_are_not_seen() {
        let same = r#"
            /// Drops those who are too young.
            #[allow(clippy::all)]
            async fn clean(extract: &[User],) -> Result<Vec<User,>> {
                // A comment.
                let limit = 1.5e3 - 'a' as u8 as f64;
                Ok(
                    extract.iter().filter(|u| u . age > limit && u.ok,).cloned().collect(),
                )
            }"#;
        // A comma before `>` is not at the end of a group, so it is put back.
        assert_eq!(hash(&same.replace("User,>", "User>")), hash(CODE));
    }

    #[test]
    fn groups_that_the_author_cannot_see_are_not_seen() {
        let inner = quote! { a + b };
        let hidden = TokenTree::Group(Group::new(Delimiter::None, inner.clone()));
        assert_eq!(of(quote! { { #hidden } }), of(quote! { { #inner } }));
    }

    #[test]
    fn a_change_of_code_is_seen() {
        for (from, to) in
            [("1.5e3", "1.5e4"), (">", "<"), ("u.ok", "u.no"), ("clean", "clear"), ("&[User]", "(&User)")]
        {
            assert_ne!(hash(&CODE.replacen(from, to, 1)), hash(CODE), "{from} → {to}");
        }
        assert_ne!(hash("{ let a = (1,); }"), hash("{ let a = (1); }"));
        assert_ne!(hash("{ return (1,) }"), hash("{ return (1) }"));
        assert_eq!(hash("{ f(1,) }"), hash("{ f(1) }"));
        assert_ne!(hash("ab c"), hash("a bc"));
    }
}
