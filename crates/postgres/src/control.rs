//! Statements that a task must not send in its transaction.

use std::borrow::Cow;

use windlass_store::{Comments, words};

/// The statement, or one that fails and says why, in place of one that would end the transaction or begin another.
///
/// The server takes one statement at a time from a task, and lets no function end the transaction that it is called in:
/// so the first words tell.
pub(crate) fn refused(sql: &str) -> Cow<'_, str> {
    let Some(word) = control(sql) else { return Cow::Borrowed(sql) };
    Cow::Owned(format!(
        "DO $$ BEGIN RAISE EXCEPTION 'a task cannot send {word}: its transaction is committed by Windlass together with \
         the record of the step when the body returns Ok, and rolled back when it returns Err' USING ERRCODE = 'WL005'; \
         END $$"
    ))
}

/// The word by which a statement ends or begins a transaction.
fn control(sql: &str) -> Option<String> {
    let mut words = words(sql, Comments::Nest).map(str::to_uppercase);
    let first = words.next()?;
    let is_control = match first.as_str() {
        "COMMIT" | "END" | "ABORT" | "BEGIN" | "START" => true,
        "ROLLBACK" => !words.take(2).any(|word| word == "TO"),
        "PREPARE" => words.next().is_some_and(|word| word == "TRANSACTION"),
        _ => false,
    };
    is_control.then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_transaction_is_refused_and_savepoints_are_not() {
        for sql in [
            "commit",
            " ;END",
            "/* x */ Abort",
            "ROLLBACK",
            "rollback work",
            "BEGIN",
            "start transaction",
            "PREPARE TRANSACTION 'x'",
            "COMMIT AND CHAIN",
            "/* /* */ */ COMMIT",
        ] {
            assert!(refused(sql).starts_with("DO "), "{sql}");
        }
        for sql in [
            "SELECT 1",
            "SAVEPOINT a",
            "ROLLBACK TO a",
            "rollback work to savepoint a",
            "RELEASE a",
            "PREPARE x AS SELECT 1",
            "(SELECT 1)",
            "",
        ] {
            assert!(!refused(sql).starts_with("DO "), "{sql}");
        }
    }
}
