//! How the tables came to be.

use std::path::Path;

use hmac_sha256::Hash;
use rusqlite::{Connection, params};

use crate::{OpenError, clock::Clock, open::failed};

/// One change of the tables. A migration that was released never changes.
struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// Every migration, in order. The first has version 1.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "tables", sql: include_str!("../migrations/0001_tables.sql") },
    Migration { name: "spread", sql: include_str!("../migrations/0002_spread.sql") },
    Migration { name: "parents", sql: include_str!("../migrations/0003_parents.sql") },
    Migration { name: "figures", sql: include_str!("../migrations/0004_figures.sql") },
    Migration { name: "stops", sql: include_str!("../migrations/0005_stops.sql") },
    Migration { name: "remains", sql: include_str!("../migrations/0006_remains.sql") },
];

/// Tells a Windlass database from those of other programs: `WIND`.
pub(crate) const APPLICATION_ID: i32 = 0x5749_4E44;

const TABLE: &str = "\
    CREATE TABLE migration (\
        version    INTEGER PRIMARY KEY, \
        name       TEXT    NOT NULL, \
        checksum   TEXT    NOT NULL, \
        applied_at INTEGER NOT NULL\
    ) STRICT";

/// The newest schema that this program knows.
pub(crate) fn known() -> u32 {
    u32::try_from(MIGRATIONS.len()).expect("there are few migrations")
}

impl Migration {
    /// A digest of what it does.
    fn checksum(&self) -> String {
        let digest = Hash::hash(self.sql.replace("\r\n", "\n").as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Brings the tables to the newest schema, and checks that they are what they say. The caller has the turn to
/// write, so that starting processes do not race.
pub(crate) fn migrate(conn: &Connection, file: &Path, clock: &Clock) -> Result<(), OpenError> {
    let failed = |error| failed(file, &error);
    let found = schema(conn, file)?;
    verify(conn, file, found)?;
    if found == known() {
        return Ok(());
    }
    let transaction = conn.unchecked_transaction().map_err(failed)?;
    apply(&transaction, found, clock).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// Refuses a database of another program, and one from the future, before anything is changed in it.
pub(crate) fn refuse_others(conn: &Connection, file: &Path) -> Result<(), OpenError> {
    schema(conn, file).map(|_| ())
}

/// The schema that a database is at; zero for one that is empty. Refuses what is not ours.
fn schema(conn: &Connection, file: &Path) -> Result<u32, OpenError> {
    let failed = |error| failed(file, &error);
    let pragma = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = pragma("application_id").map_err(failed)?;
    let tables: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if application != APPLICATION_ID && (application != 0 || tables > 0) {
        return Err(OpenError::Foreign { file: file.to_owned(), found: application });
    }
    let version = pragma("user_version").map_err(failed)?;
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    if found > known() {
        return Err(OpenError::Newer { file: file.to_owned(), found, known: known() });
    }
    Ok(found)
}

/// Checks that the tables were made by the migrations that this program has.
fn verify(conn: &Connection, file: &Path, found: u32) -> Result<(), OpenError> {
    let failed = |error| failed(file, &error);
    for (version, migration) in (1..=found).zip(MIGRATIONS) {
        let (name, checksum): (String, String) = conn
            .query_row("SELECT name, checksum FROM migration WHERE version = ?1", [version], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .map_err(failed)?;
        if checksum != migration.checksum() {
            return Err(OpenError::Changed { file: file.to_owned(), version, name });
        }
    }
    Ok(())
}

fn apply(conn: &Connection, found: u32, clock: &Clock) -> rusqlite::Result<()> {
    if found == 0 {
        conn.execute_batch(TABLE)?;
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    for (version, migration) in (1_u32..).zip(MIGRATIONS).skip(found as usize) {
        conn.execute_batch(migration.sql)?;
        conn.execute(
            "INSERT INTO migration (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)",
            params![version, migration.name, migration.checksum(), clock.now().0],
        )?;
        conn.pragma_update(None, "user_version", version)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_migration_never_changes() {
        let checksums: Vec<_> = MIGRATIONS.iter().map(Migration::checksum).collect();
        assert_eq!(
            checksums,
            [
                "4e335f3c00fa93127277febf6bd9aee3cd9689f7f7a6acfc296eaf632411b83e",
                "9f5ac0b01942dfcf719c4dc01b3fc3d7556f8fec6c091ce5e814d9c5687609a8",
                "1e8acfaf587e458a780bb56769c5dc243b8c4c7c9bfe37728b44705a08f58508",
                "9bd107992b2820219827635f7d26494bb9e6861390e284054fd84e913c3627e3",
                "80fcba0d65bfb6f8dcf8b69d406102a2e02abbf9e184a02b71e31b2fee3d023b",
                "c71339c724689a671f22a3b8b4d7439cecd5037ad4b793fd4271c8ed8504145f",
            ]
        );
    }
}
