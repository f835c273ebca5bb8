//! A hint when a source file grows past what a person reads in one go.

use crate::workspace::Workspace;

const LINES: usize = 600;

/// Prints the long files. It never fails: a length is a question, not a verdict.
pub(crate) fn hint(workspace: &Workspace) -> Result<(), String> {
    let mut long = Vec::new();
    for folder in ["crates", "bench", "examples", "xtask"] {
        for source in workspace.files(folder, ".rs")? {
            let lines = workspace.text(&source)?.lines().count();
            if lines > LINES {
                long.push((lines, source));
            }
        }
    }
    long.sort_by(|one, other| other.cmp(one));
    for (lines, source) in &long {
        println!("hint: {} has {lines} lines; is it two files?", workspace.shown(source));
    }
    if long.is_empty() {
        println!("no source file has more than {LINES} lines");
    }
    Ok(())
}
