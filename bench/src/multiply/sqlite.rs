//! Copies in a SQLite file.

use rusqlite::{Connection, params};

use super::CHUNK;
use crate::{Result, database::Sqlite};

/// As the one for every store.
pub(super) fn multiply(database: &Sqlite, run: [u8; 16], copies: u64, offset: i64) -> Result<()> {
    let connection = database.writer()?;
    // What is lost in a power cut is only this benchmark.
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;")?;
    let statements = statements(&connection, run)?;
    if statements.is_empty() {
        return Err("no table knows the run that is to be copied".into());
    }
    for statement in &statements {
        let mut insert = connection.prepare(statement)?;
        let mut done = 0;
        while done < copies {
            let until = copies.min(done + CHUNK);
            connection.execute_batch("BEGIN IMMEDIATE")?;
            insert.execute(params![run, done as i64, until as i64, offset])?;
            connection.execute_batch("COMMIT")?;
            done = until;
        }
    }
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// One statement for each table that has rows of the run.
fn statements(connection: &Connection, run: [u8; 16]) -> Result<Vec<String>> {
    let mut tables = connection.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut statements = Vec::new();
    for table in tables {
        let columns = columns(connection, &table)?;
        for column in &columns {
            let found: i64 = connection.query_row(
                &format!("SELECT count(*) FROM \"{table}\" WHERE \"{column}\" = ?"),
                [run],
                |row| row.get(0),
            )?;
            if found > 0 {
                statements.push(statement(&table, &columns, column));
                break;
            }
        }
    }
    Ok(statements)
}

/// The columns of a table, but for a number that the database gives out itself.
fn columns(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut columns = connection.prepare(
        "SELECT name FROM pragma_table_info(?1) WHERE NOT (upper(type) = 'INTEGER' AND pk = 1 \
         AND (SELECT max(pk) FROM pragma_table_info(?1)) = 1) ORDER BY cid",
    )?;
    Ok(columns.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

fn statement(table: &str, columns: &[String], run: &str) -> String {
    let names: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let values: Vec<String> = columns
        .iter()
        .map(|column| {
            if column == run {
                // The second eight bytes are odd multiples, so that they look scattered and never collide.
                "unhex(printf('%016x%016x', ?4 + i, i * 2654435761))".to_string()
            } else {
                format!("t.\"{column}\"")
            }
        })
        .collect();
    format!(
        "WITH RECURSIVE n(i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?3) \
         INSERT INTO \"{table}\" ({}) SELECT {} FROM n CROSS JOIN \"{table}\" AS t WHERE t.\"{run}\" = ?1",
        names.join(", "),
        values.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::Ground;

    #[test]
    fn every_table_that_knows_the_run_gets_its_copies_and_no_other_does() {
        let ground = Ground::find(None).expect("there is a disk");
        let database = Sqlite::new(&ground).expect("there is room");
        let connection = Connection::open(database.path()).expect("it opens");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL;
                 CREATE TABLE run (id BLOB PRIMARY KEY, workflow INTEGER) WITHOUT ROWID;
                 CREATE TABLE step (seq INTEGER PRIMARY KEY, run BLOB, name TEXT);
                 CREATE TABLE ended (workflow INTEGER, run BLOB, PRIMARY KEY (workflow, run)) WITHOUT ROWID;
                 CREATE TABLE node (id BLOB PRIMARY KEY) WITHOUT ROWID;",
            )
            .expect("the tables are made");
        let id = 0x0198_0000_0000_7000_8000_0000_0000_0001_u128.to_be_bytes();
        connection.execute("INSERT INTO run VALUES (?, 7)", [id]).expect("it fits");
        connection.execute("INSERT INTO step (run, name) VALUES (?, 'only')", [id]).expect("it fits");
        connection.execute("INSERT INTO ended VALUES (7, ?)", [id]).expect("it fits");
        connection.execute("INSERT INTO node VALUES (x'01')", []).expect("it fits");

        multiply(&database, id, 1_000, super::super::first(id, 1_000, std::time::Duration::ZERO))
            .expect("there is room");

        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
        assert_eq!(count("SELECT count(*) FROM run WHERE workflow = 7"), 1_001);
        assert_eq!(count("SELECT count(DISTINCT run) FROM step WHERE name = 'only'"), 1_001);
        assert_eq!(count("SELECT count(*) FROM ended JOIN run ON run.id = ended.run"), 1_001);
        assert_eq!(count("SELECT count(*) FROM node"), 1);
        let last: [u8; 16] =
            connection.query_row("SELECT max(id) FROM run", [], |row| row.get(0)).expect("there are rows");
        assert_eq!(last, id, "the copies are older");
    }
}
