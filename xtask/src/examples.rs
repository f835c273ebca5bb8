//! Every example is run by a test that reads its output.

use crate::workspace::Workspace;

/// Names every example that no test in `examples/tests` mentions.
pub(crate) fn check(workspace: &Workspace) -> Result<(), String> {
    let names = names(workspace)?;
    let mut tests = String::new();
    for test in workspace.files("examples/tests", ".rs")? {
        tests.push_str(&workspace.text(test)?);
    }
    let untested: Vec<&String> =
        names.iter().filter(|name| !tests.contains(&format!("\"{name}\""))).collect();
    if untested.is_empty() {
        println!("{} examples, each with a test", names.len());
        Ok(())
    } else {
        Err(format!("no test in examples/tests names {untested:?}"))
    }
}

/// The examples as cargo finds them: those that the manifest names, and the files and folders in
/// `examples/examples`.
fn names(workspace: &Workspace) -> Result<Vec<String>, String> {
    let mut names = named(&workspace.text("examples/Cargo.toml")?);
    let folder = workspace.root.join("examples/examples");
    for source in workspace.files("examples/examples", ".rs")? {
        let Ok(relative) = source.strip_prefix(&folder) else { continue };
        let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
        match parts.as_slice() {
            [file] => names.push(file.trim_end_matches(".rs").to_string()),
            [name, file] if file == "main.rs" => names.push(name.to_string()),
            _ => {}
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn named(manifest: &str) -> Vec<String> {
    let sections = manifest.split("[[example]]").skip(1);
    let lines = sections.filter_map(|section| section.lines().find(|line| line.starts_with("name")));
    lines.filter_map(|line| line.split('"').nth(1)).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_that_the_manifest_names_are_found() {
        let manifest = "[package]\nname = \"p\"\n\n[[example]]\nname = \"etl\"\npath = \"etl.rs\"\n\n[[example]]\npath = \"b.rs\"\nname = \"b\"\n";
        assert_eq!(named(manifest), ["etl", "b"]);
        assert!(named("[package]\nname = \"p\"\n").is_empty());
    }
}
