//! How SQLite carries out the statements that runs depend on.

use rusqlite::{Connection, StatementStatus, types::Null};

use crate::{clock::Clock, open};

fn database() -> Connection {
    let setup = open::Setup { synchronous: crate::Synchronous::Full, max_pages: None, makes: true };
    open::open_memory(setup, &Clock::system()).unwrap()
}

/// The plan of a statement, one step a line.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let blanks = vec![Null; explain.parameter_count()];
    let steps = explain.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3)).unwrap();
    steps.collect::<Result<_, _>>().unwrap()
}

fn statements() -> Vec<&'static str> {
    let inserts = [&crate::run::ADD, &crate::ready::ADD, &crate::ended::ADD, &crate::step::ADD];
    let texts = inserts.iter().flat_map(|insert| [false, true].map(|is_whole| insert.texts(is_whole)));
    let inserts: Vec<_> = texts.flatten().map(String::as_str).collect();
    [
        &inserts,
        crate::name::STATEMENTS,
        crate::node::STATEMENTS,
        crate::definition::STATEMENTS,
        crate::run::STATEMENTS,
        crate::ready::STATEMENTS,
        crate::waiting::STATEMENTS,
        crate::holding::STATEMENTS,
        crate::ended::STATEMENTS,
        crate::step::STATEMENTS,
        crate::inbox::STATEMENTS,
        crate::saved::STATEMENTS,
        crate::spread::STATEMENTS,
        crate::key::STATEMENTS,
        crate::find::STATEMENTS,
        crate::figures::STATEMENTS,
        crate::log_line::STATEMENTS,
        crate::claim::STATEMENTS,
        crate::discard::STATEMENTS,
        crate::remains::STATEMENTS,
        crate::cell::STATEMENTS,
        crate::queue::STATEMENTS,
        crate::lanes::STATEMENTS,
        crate::task_turn::STATEMENTS,
    ]
    .concat()
}

#[test]
fn no_statement_is_prepared_again_when_its_values_change() {
    let conn = database();
    let mut again = Vec::new();
    for sql in statements() {
        let mut statement = conn.prepare(sql).unwrap();
        for value in [1_i64, 2, 3] {
            let values = vec![value; statement.parameter_count()];
            // Whether the values fit the table is of no interest here.
            drop(
                statement
                    .query(rusqlite::params_from_iter(values))
                    .and_then(|mut rows| rows.next().map(|_| ())),
            );
        }
        if statement.get_status(StatementStatus::RePrepare) > 0 {
            again.push(sql);
        }
    }
    assert_eq!(again, Vec::<&str>::new());
}

#[test]
fn no_statement_reads_a_table_from_end_to_end_or_sorts() {
    let conn = database();
    let mut seen = 0;
    for sql in statements() {
        for step in plan(&conn, sql) {
            seen += 1;
            // There are as few nodes as processes; everything else is found by its key.
            let is_by_key = step.starts_with("SEARCH")
                || step == "SCAN n"
                || step.starts_with("SCAN n USING")
                || step.contains("SCALAR SUBQUERY")
                || step.starts_with("LIST SUBQUERY");
            // These read an index in its order and stop at their limit.
            let is_in_order =
                sql.contains("LIMIT") && step.starts_with("SCAN") && step.contains("USING COVERING INDEX");
            // A part with a limit of its own, and what counts its rows.
            let is_part = sql.contains("LIMIT")
                && (step.starts_with("CO-ROUTINE") || step.starts_with("SCAN (subquery"));
            // The values that it is given.
            let is_given = step.contains(" VIRTUAL TABLE ");
            let is_constant = step == "SCAN CONSTANT ROW" || step.ends_with("-ROW VALUES CLAUSE");
            // Of what another step has found, which is looked at by itself.
            let is_filter = step == "CREATE BLOOM FILTER";
            let is_found = is_by_key || is_in_order || is_part;
            assert!(is_found || is_given || is_constant || is_filter, "{step}\n  in {sql}");
        }
    }
    assert!(seen > 40, "the plans were not read");
}

#[test]
fn a_statement_that_reads_everything_would_be_noticed() {
    let conn = database();
    let steps = plan(&conn, "SELECT * FROM step WHERE kind = 1 ORDER BY took");
    assert!(steps.iter().any(|step| step.starts_with("SCAN step")), "{steps:?}");
    assert!(steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
}

/// Statements that are in no list above, each with the reason.
const EXEMPT: &[(&str, &str, &str)] = &[
    ("definition.rs", "ADD", "it adds a row, once for each version of a workflow"),
    ("name.rs", "ADD", "it adds a row, once for each name"),
    ("name.rs", "ALL", "there are as many names as workflows and queues"),
    ("name.rs", "IN_ORDER", "the same"),
    ("node.rs", "BEAT_ALONE", "it is found by its id; beside that, whether there is any row at all"),
    ("node.rs", "DEPOSE", "there are as few nodes as processes"),
    ("node.rs", "DEAD", "the same"),
    ("node.rs", "ALL", "the same"),
    ("queue.rs", "ANY", "whether there is any row at all"),
    ("queue.rs", "ALL", "there are as many queues as were declared"),
    ("remains.rs", "ANY", "whether there is any row at all"),
    ("remains.rs", "FIRST", "the first row there is"),
    ("remains.rs", "STEPS", "it fills a table for a test"),
    ("saved.rs", "ANY", "whether there is any row at all"),
    ("spread.rs", "ANY", "the same"),
    ("spread.rs", "ANY_FOR", "the same; a node is found by its number"),
    ("inbox.rs", "ANY", "the same"),
    ("inbox.rs", "COUNT", "it stops at its limit"),
    ("inbox.rs", "RECEIVERS", "it is asked when there are few messages"),
    ("figures.rs", "ENDED", "what a person looks at stops at its limit"),
    ("figures.rs", "WAITING", "the same"),
    ("figures.rs", "READY", "the same"),
    ("figures.rs", "READY_QUEUES", "the same"),
    ("figures.rs", "OLDEST", "the same"),
    (
        "holding.rs",
        "ALL",
        "what nodes hold is bounded by their room, and is read when a held run is loaded, when an inbox of one of several \
         nodes has something, and when a node comes, goes or is swept: a list of what is held that could be searched would cost \
         a row for each run that begins",
    ),
];

/// The constants of this crate that hold a statement which reads or writes rows: the file, the name, and whether it is in
/// the file's list.
fn declared() -> Vec<(String, String, bool)> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let list =
            text.split_once("STATEMENTS: &[&str] =").map_or("", |(_, rest)| rest.split_once(';').unwrap().0);
        let listed: Vec<&str> = list.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for declaration in text.split("const ").skip(1) {
            let Some((name, value)) = declaration.split_once(": &str =") else { continue };
            let begins = value.trim_start().trim_start_matches(['"', '\\', ' ', '\n']);
            let is_statement = ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"]
                .iter()
                .any(|word| begins.starts_with(word));
            let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            if is_statement && is_name {
                let file = path.file_name().unwrap().to_str().unwrap().to_owned();
                found.push((file, name.to_owned(), listed.contains(&name)));
            }
        }
    }
    found
}

#[test]
fn every_statement_is_looked_at_or_has_a_reason_not_to_be() {
    let declared = declared();
    assert!(declared.len() > 100, "only {} statements were found", declared.len());
    let exempt = |file: &str, name: &str| EXEMPT.iter().any(|known| (known.0, known.1) == (file, name));
    for (file, name, is_listed) in &declared {
        assert!(
            *is_listed != exempt(file, name),
            "{name} in {file} belongs to STATEMENTS, or to EXEMPT with a reason"
        );
    }
    for (file, name, _) in EXEMPT {
        assert!(
            declared.iter().any(|known| (&*known.0, &*known.1) == (*file, *name)),
            "{name} in {file} is gone"
        );
    }
}
