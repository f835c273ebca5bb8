//! The arrows between the crates, which point one way only.

use crate::workspace::Workspace;

/// What one crate may know.
struct Room {
    package: &'static str,
    /// The crates of this workspace that it may depend on.
    neighbours: &'static [&'static str],
    /// Crates that it may not name in its own manifest.
    never_directly: &'static [&'static str],
    /// Crates that may not come in through others either.
    never_at_all: &'static [&'static str],
}

const DRIVERS: &[&str] = &["rusqlite", "libsqlite3-sys", "tokio-postgres", "deadpool-postgres", "sqlx"];

const ROOMS: &[Room] = &[
    // Deciding is plain data in, plain data out: it can be tested by the million.
    Room {
        package: "windlass-core",
        neighbours: &[],
        never_directly: &[],
        never_at_all: &["tokio", "rusqlite", "libsqlite3-sys", "tokio-postgres", "rand"],
    },
    // Knows what is kept, not by which database.
    Room {
        package: "windlass-store",
        neighbours: &["windlass-core"],
        never_directly: &[],
        never_at_all: &["rusqlite", "libsqlite3-sys", "tokio-postgres"],
    },
    // These know how a file is opened and how rows are written, not what for. What they need beside the driver would
    // be built before SQLite's C code, which takes longer than all else: docs/decisions/0017-what-is-built-first.md.
    Room {
        package: "windlass-sqlite-file",
        neighbours: &[],
        never_directly: &[],
        never_at_all: &["tokio", "serde", "serde_json", "tokio-postgres"],
    },
    Room {
        package: "windlass-sqlite-sheet",
        neighbours: &[],
        never_directly: &[],
        never_at_all: &["tokio", "serde", "serde_json", "tokio-postgres"],
    },
    // Each store knows its own driver.
    Room {
        package: "windlass-sqlite",
        neighbours: &["windlass-core", "windlass-sqlite-file", "windlass-sqlite-sheet", "windlass-store"],
        never_directly: &[],
        never_at_all: &["tokio-postgres"],
    },
    Room {
        package: "windlass-postgres",
        neighbours: &["windlass-core", "windlass-store"],
        never_directly: &[],
        never_at_all: &["rusqlite", "libsqlite3-sys"],
    },
    // Emits calls into `windlass::__macro` and nothing else.
    Room {
        package: "windlass-macros",
        neighbours: &[],
        never_directly: &[],
        never_at_all: &["tokio", "rusqlite", "tokio-postgres"],
    },
    // Speaks with a database through `Store` alone.
    Room {
        package: "windlass",
        neighbours: &[
            "windlass-core",
            "windlass-macros",
            "windlass-postgres",
            "windlass-sqlite",
            "windlass-store",
        ],
        never_directly: DRIVERS,
        never_at_all: &[],
    },
    // These see the public API, as any user does.
    Room {
        package: "windlass-server",
        neighbours: &["windlass"],
        never_directly: DRIVERS,
        never_at_all: &[],
    },
    Room {
        package: "windlass-cli",
        neighbours: &["windlass", "windlass-server"],
        never_directly: DRIVERS,
        never_at_all: &[],
    },
    Room { package: "windlass-examples", neighbours: &["windlass"], never_directly: &[], never_at_all: &[] },
    Room {
        package: "windlass-bench",
        neighbours: &[
            "windlass",
            "windlass-cluster",
            "windlass-postgres",
            "windlass-server",
            "windlass-sqlite",
            "windlass-store",
        ],
        never_directly: &[],
        never_at_all: &[],
    },
    Room { package: "windlass-cluster", neighbours: &[], never_directly: &[], never_at_all: &[] },
    Room { package: "xtask", neighbours: &["windlass-cluster"], never_directly: &[], never_at_all: &[] },
];

/// Looks at every crate of the workspace, and names every arrow that points the wrong way.
pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    let members = tree(workspace, &["--workspace", "--depth", "0"])?;
    let mut wrong = Vec::new();
    for member in &members {
        let Some(room) = ROOMS.iter().find(|room| room.package == member) else {
            wrong.push(format!("`{member}` has no line in xtask/src/arrows.rs that says what it may know"));
            continue;
        };
        let direct = tree(workspace, &["--package", member, "--depth", "1"])?;
        let all = tree(workspace, &["--package", member])?;
        wrong.extend(complaints(room, &members, &direct, &all));
    }
    if wrong.is_empty() {
        println!("{} crates know only what they may", members.len());
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

fn complaints(room: &Room, members: &[String], direct: &[String], all: &[String]) -> Vec<String> {
    let package = room.package;
    let others = |names: &[String]| {
        names.iter().filter(|name| *name != package).map(String::clone).collect::<Vec<String>>()
    };
    let mut wrong = Vec::new();
    for name in others(direct) {
        if members.contains(&name) && !room.neighbours.contains(&name.as_str()) {
            wrong.push(format!("`{package}` may not depend on `{name}`"));
        }
        if room.never_directly.contains(&name.as_str()) {
            wrong.push(format!("`{package}` may not name `{name}` in its Cargo.toml"));
        }
    }
    for name in others(all) {
        if room.never_at_all.contains(&name.as_str()) {
            wrong.push(format!("`{package}` may not reach `{name}`, not even through another crate"));
        }
    }
    wrong
}

/// The names that `cargo tree` prints, each once. Only what is built into programs counts: a test may know more.
fn tree(workspace: &Workspace, what: &[&str]) -> Result<Vec<String>, String> {
    let begin = ["tree", "--all-features", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let printed = workspace.read(workspace.cargo(&begin).args(what))?;
    let mut names: Vec<String> =
        printed.lines().filter_map(|line| line.split_whitespace().next()).map(String::from).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room {
        package: "middle",
        neighbours: &["below"],
        never_directly: &["driver"],
        never_at_all: &["poison"],
    };

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_named() {
        let members = names(&["above", "below", "middle"]);
        assert!(complaints(&ROOM, &members, &names(&["middle", "below"]), &[]).is_empty());
        let wrong = complaints(&ROOM, &members, &names(&["middle", "above", "driver"]), &[]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn what_comes_in_through_another_crate_is_found_too() {
        let wrong =
            complaints(&ROOM, &[], &names(&["middle", "serde"]), &names(&["middle", "serde", "poison"]));
        assert_eq!(wrong, ["`middle` may not reach `poison`, not even through another crate"]);
    }
}
