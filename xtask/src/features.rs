//! Every combination of features that a user of `windlass` can choose.

use crate::{tools::Tools, workspace::Workspace};

/// Builds `windlass` with each combination, warnings as errors where clippy is installed.
pub(crate) fn check(workspace: &Workspace, tools: Tools) -> Result<(), String> {
    let features = features(&workspace.text("crates/engine/Cargo.toml")?)?;
    for choice in choices(&features) {
        let chosen = choice.join(",");
        let mut arguments = vec![if tools.clippy { "clippy" } else { "check" }];
        arguments.extend(["--package", "windlass", "--lib", "--no-default-features", "--locked"]);
        if !chosen.is_empty() {
            arguments.extend(["--features", &chosen]);
        }
        if tools.clippy {
            arguments.extend(["--", "-D", "warnings"]);
        }
        workspace.run(&mut workspace.cargo(&arguments))?;
    }
    Ok(())
}

/// The names in the `[features]` table, but for `default`, which is one of the combinations.
fn features(manifest: &str) -> Result<Vec<String>, String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    let found: Vec<String> = lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim().to_string()))
        .filter(|name| name != "default")
        .collect();
    if found.is_empty() { Err("crates/engine/Cargo.toml has no [features]".into()) } else { Ok(found) }
}

/// Every subset, from none to all.
fn choices(features: &[String]) -> Vec<Vec<&str>> {
    (0..1_usize << features.len())
        .map(|bits| {
            let chosen = features.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1);
            chosen.map(|(_, name)| name.as_str()).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_tried_once() {
        let manifest = "[package]\nname = \"x\"\n\n[features]\ndefault = [\"a\"]\n## a = why\na = []\nb = [\"c/d\"]\n\n[lints]\nx = 1\n";
        let found = features(manifest).expect("it has features");
        assert_eq!(found, ["a", "b"]);
        assert_eq!(choices(&found), [vec![], vec!["a"], vec!["b"], vec!["a", "b"]]);
    }
}
