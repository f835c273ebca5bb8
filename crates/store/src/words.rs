//! The words of an SQL statement.

/// How a database reads comments.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// `/* /* */ */` is one comment.
    Nest,
    /// A comment ends at the first `*/`.
    DoNotNest,
}

/// The words that a statement begins with, without comments and the semicolons before it. Enough to tell what kind of
/// statement it is.
#[doc(hidden)]
pub fn words(sql: &str, comments: Comments) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        rest = skip(rest, comments);
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// What comes after spaces, semicolons and comments.
fn skip(mut sql: &str, comments: Comments) -> &str {
    loop {
        sql = sql.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        if let Some(comment) = sql.strip_prefix("--") {
            sql = comment.find(['\n', '\r']).map_or("", |end| &comment[end..]);
        } else if let Some(comment) = sql.strip_prefix("/*") {
            sql = after_comment(comment, comments);
        } else {
            return sql;
        }
    }
}

/// What comes after a comment whose beginning was taken off.
fn after_comment(mut comment: &str, comments: Comments) -> &str {
    let mut depth = 1;
    while depth > 0 {
        let Some(end) = comment.find("*/") else { return "" };
        match comment.find("/*").filter(|begin| *begin < end && comments == Comments::Nest) {
            Some(begin) => {
                depth += 1;
                comment = &comment[begin + 2..];
            }
            None => {
                depth -= 1;
                comment = &comment[end + 2..];
            }
        }
    }
    comment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_behind_spaces_semicolons_and_comments() {
        for comments in [Comments::Nest, Comments::DoNotNest] {
            let all = |sql| words(sql, comments).collect::<Vec<_>>();
            assert_eq!(all("COMMIT"), ["COMMIT"]);
            assert_eq!(all(" ;\n-- now\r /* and */ rollback/**/to a"), ["rollback", "to", "a"]);
            assert_eq!(all("-- nothing else"), [""; 0]);
            assert_eq!(all("INSERT INTO t VALUES ('COMMIT')"), ["INSERT", "INTO", "t", "VALUES"]);
        }
    }

    #[test]
    fn a_comment_within_a_comment_is_read_as_the_database_reads_it() {
        let first = |sql, comments| words(sql, comments).next();
        assert_eq!(first("/* a /* b */ c */ COMMIT", Comments::Nest), Some("COMMIT"));
        assert_eq!(first("/* a /* b */ COMMIT", Comments::Nest), None);
        assert_eq!(first("/* a /* b */ COMMIT", Comments::DoNotNest), Some("COMMIT"));
    }
}
