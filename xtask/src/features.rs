//! Every combination of features that a user of `windlass` can choose and that can differ from the others.
//!
//! A feature doubles the combinations. One that meets no other is built by itself and with all the others, and not
//! in every combination: [`APART`] lists those, and the sources are searched for what would make the list untrue.

use crate::workspace::Workspace;

/// A feature that meets no other: no condition names it together with another feature, and neither turns the other on. It
/// may turn one on if `windlass` itself has no code that depends on it: with it, that one is the same as without.
struct Apart {
    feature: &'static str,
    reason: &'static str,
}

const APART: &[Apart] = &[
    Apart { feature: "encryption", reason: "it adds a codec, and nothing else uses it" },
    Apart {
        feature: "jiff",
        reason: "it adds conversions to `Time` and a re-export, and nothing else uses either",
    },
    Apart { feature: "logs", reason: "it adds a layer that others install, and is asked at one place alone" },
    Apart {
        feature: "schedule",
        reason: "it is a room of its own, and uses the others as any workflow does",
    },
    Apart { feature: "schemars", reason: "it adds one method to `Workflow`" },
    Apart { feature: "testing", reason: "it adds the `Lab`, which opens an engine on a store of its own" },
    Apart { feature: "tls", reason: "it is a matter of the PostgreSQL store alone" },
];

/// Builds `windlass` with each combination, with warnings as errors.
pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    let features = features(&workspace.text("crates/engine/Cargo.toml")?)?;
    for apart in APART {
        let own = workspace.files("crates/engine/src", ".rs")?;
        let named = format!("feature = \"{}\"", apart.feature);
        let is_named = own
            .iter()
            .try_fold(false, |found, file| workspace.text(file).map(|text| found || text.contains(&named)))?;
        stands_apart(apart.feature, &features, is_named)?;
        // Tests are built with all features.
        let sources = workspace.files("crates", ".rs")?.into_iter();
        for file in sources.filter(|file| !file.iter().any(|part| part == "tests")) {
            if let Some(condition) = meeting(&workspace.text(&file)?, apart.feature) {
                return Err(met(apart.feature, &format!("in {}: `{condition}`", workspace.shown(&file))));
            }
        }
        println!("`{}` by itself and with all others only: {}", apart.feature, apart.reason);
    }
    let apart: Vec<&str> = APART.iter().map(|apart| apart.feature).collect();
    for choice in choices(&features, &apart) {
        let chosen = choice.join(",");
        let mut arguments =
            vec!["check", "--package", "windlass", "--lib", "--no-default-features", "--locked"];
        if !chosen.is_empty() {
            arguments.extend(["--features", &chosen]);
        }
        workspace.run_without_warnings(&mut workspace.cargo(&arguments))?;
    }
    Ok(())
}

/// A line of the `[features]` table.
#[derive(Debug, PartialEq, Eq)]
struct Feature {
    name: String,
    /// The other features of `windlass` that it turns on.
    turns_on: Vec<String>,
}

/// What the `[features]` table says, but for `default`, which is one of the combinations.
fn features(manifest: &str) -> Result<Vec<Feature>, String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    let found: Vec<Feature> = lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, list)| Feature {
            name: name.trim().to_string(),
            // Every second piece stands between quotation marks.
            turns_on: list.split('"').skip(1).step_by(2).map(String::from).collect(),
        })
        .filter(|feature| feature.name != "default")
        .collect();
    if found.is_empty() { Err("crates/engine/Cargo.toml has no [features]".into()) } else { Ok(found) }
}

/// Refuses a feature that is not there, that another turns on, or that turns another on and is named in the code.
fn stands_apart(apart: &str, features: &[Feature], is_named: bool) -> Result<(), String> {
    let Some(it) = features.iter().find(|feature| feature.name == apart) else {
        return Err(format!(
            "`{apart}` is listed in xtask/src/features.rs, but windlass has no such feature"
        ));
    };
    let neighbour = features.iter().find(|other| {
        other.name != apart
            && ((is_named && it.turns_on.contains(&other.name))
                || other.turns_on.iter().any(|on| on == apart))
    });
    neighbour
        .map_or(Ok(()), |other| Err(met(apart, &format!("`{}` in crates/engine/Cargo.toml", other.name))))
}

fn met(apart: &str, place: &str) -> String {
    format!("`{apart}` meets another feature ({place}): take it off the list in xtask/src/features.rs")
}

/// The first condition in a source file that names the feature together with another.
fn meeting<'t>(source: &'t str, apart: &str) -> Option<&'t str> {
    source.match_indices("cfg").map(|(start, _)| condition(&source[start..])).find(|condition| {
        let mut names = condition.split("feature = \"").skip(1).filter_map(|rest| rest.split('"').next());
        names.clone().any(|name| name == apart) && names.any(|name| name != apart)
    })
}

/// A text up to the parenthesis that closes the first one in it, which is the whole of a `cfg(…)`.
fn condition(text: &str) -> &str {
    let mut open = 0_usize;
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => open += 1,
            ')' if open <= 1 => return &text[..=index],
            ')' => open -= 1,
            '\n' if open == 0 => return &text[..index],
            _ => {}
        }
    }
    text
}

/// Every subset of the features that may meet; then each of those apart, by itself; then all.
fn choices<'f>(features: &'f [Feature], apart: &[&'f str]) -> Vec<Vec<&'f str>> {
    let names = features.iter().map(|feature| feature.name.as_str());
    let together: Vec<&str> = names.clone().filter(|name| !apart.contains(name)).collect();
    let mut choices: Vec<Vec<&str>> = (0..1_usize << together.len())
        .map(|bits| {
            let chosen = together.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1);
            chosen.map(|(_, name)| *name).collect()
        })
        .collect();
    if !apart.is_empty() {
        choices.extend(apart.iter().map(|name| vec![*name]));
        choices.push(names.collect());
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"x\"\n\n[features]\ndefault = [\"a\"]\n## a = why\na = []\nb = [\"a\", \"c/d\"]\n\
                            e = [\"dep:e\", \"c/e\"]\n\n[lints]\nx = 1\n";

    #[test]
    fn every_combination_is_tried_once() {
        let found = features(MANIFEST).expect("it has features");
        let names: Vec<&str> = found.iter().map(|feature| feature.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "e"]);
        assert_eq!(choices(&found[..2], &[]), [vec![], vec!["a"], vec!["b"], vec!["a", "b"]]);
    }

    #[test]
    fn a_feature_apart_is_tried_by_itself_and_with_all_others() {
        let found = features(MANIFEST).expect("it has features");
        let expected = [vec![], vec!["a"], vec!["b"], vec!["a", "b"], vec!["e"], vec!["a", "b", "e"]];
        assert_eq!(choices(&found, &["e"]), expected);
    }

    #[test]
    fn a_feature_that_turns_another_on_does_not_stand_apart() {
        let found = features(MANIFEST).expect("it has features");
        assert_eq!(stands_apart("e", &found, true), Ok(()));
        assert_eq!(stands_apart("b", &found, false), Ok(()), "no code depends on it");
        for (name, why) in [("a", "`b`"), ("b", "`a`"), ("z", "no such feature")] {
            let error = stands_apart(name, &found, true).expect_err(name);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_condition_that_names_two_features_is_found() {
        for alone in [
            "#[cfg(feature = \"e\")]",
            "#[cfg(all(feature = \"a\", feature = \"b\"))]\n#[cfg(feature = \"e\")]",
        ] {
            assert_eq!(meeting(alone, "e"), None, "{alone}");
        }
        for both in [
            "#[cfg(all(\n    feature = \"e\",\n    feature = \"a\",\n))]",
            "if cfg!(any(feature = \"a\", feature = \"e\")) {}",
        ] {
            assert!(meeting(both, "e").is_some(), "{both}");
        }
    }
}
