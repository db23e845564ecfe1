//! The documents are correct: files that they name exist, commands that they show are
//! understood, and sections that they list are those of the code.

use refrain_container::Container;
use refrain_testing::{refrain, workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// All documents with their names.
fn documents() -> Vec<(String, String)> {
    let names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    let mut paths: Vec<PathBuf> = names.iter().map(|name| workspace().join(name)).collect();
    paths.extend(files(&workspace().join("docs"), "md"));
    let read = |path: &PathBuf| {
        let name = path.strip_prefix(workspace()).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    };
    paths.iter().map(read).collect()
}

/// The files of a folder with that extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

/// The texts between backticks, outside blocks of code.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).collect()
}

/// The targets of links to other files.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.filter(|target| !target.starts_with(['#', '<']));
    let targets = targets.filter(|target| !target.contains("://"));
    targets.map(|target| target.split('#').next().unwrap()).collect()
}

/// The shell commands in blocks of code: lines of `sh` blocks, and lines after `$` in `console` blocks.
fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').unwrap();
        let body = body.replace("\\\n", " ");
        match language.trim() {
            "sh" => commands.extend(body.lines().map(str::to_owned)),
            "console" => {
                let typed = body.lines().filter_map(|line| line.strip_prefix("$ "));
                commands.extend(typed.map(str::to_owned));
            }
            _ => {}
        }
    }
    commands
}

/// Whether some crate has that path, as in `tests/it/main.rs`.
fn any_crate_has(path: &str) -> bool {
    let crates = fs::read_dir(workspace().join("crates")).unwrap();
    crates.into_iter().any(|entry| entry.unwrap().path().join(path).exists())
}

#[test]
fn every_file_that_a_document_names_exists() {
    let crates = workspace().join("crates");
    let mut checked = 0;
    let mut missing = Vec::new();
    for (document, text) in documents() {
        let here = workspace().join(&document);
        for link in links(&text) {
            checked += 1;
            if !here.parent().unwrap().join(link).exists() {
                missing.push(format!("{document}: link to {link}"));
            }
        }
        for path in quoted(&text).into_iter().filter(|text| text.contains('/')) {
            let first = path.split('/').next().unwrap();
            let is_path =
                !path.contains([' ', '…', '*', '{']) && !first.trim_matches('.').is_empty();
            let root = match (crates.join(first).is_dir(), workspace().join(first).exists()) {
                (true, _) => &crates,
                (false, true) => workspace(),
                (false, false) if first.starts_with("refrain-") => &crates,
                (false, false) => continue,
            };
            if is_path {
                checked += 1;
                if !root.join(path).exists() && !any_crate_has(path) {
                    missing.push(format!("{document}: {path}"));
                }
            }
        }
    }
    assert!(checked > 100, "only {checked} paths were found");
    assert!(missing.is_empty(), "documents name files that do not exist:\n{}", missing.join("\n"));
}

/// The crates of Refrain that a crate depends on, without the prefix `refrain-`.
fn dependencies(name: &str) -> BTreeSet<String> {
    let folder = if name == "refrain" { name.to_owned() } else { format!("refrain-{name}") };
    let manifest = workspace().join("crates").join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = text.split("\n[dependencies]").nth(1).unwrap_or_default();
    let lines = text.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.strip_prefix("refrain-"));
    names.map(|rest| rest.split(['.', ' ', '=']).next().unwrap().to_owned()).collect()
}

#[test]
fn the_crate_graph_is_that_of_the_manifests() {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let graph = text.split("## Crates").nth(1).and_then(|text| text.split("```").nth(1));
    let graph = graph.expect("a graph in ARCHITECTURE.md");
    let arrows: Vec<_> = graph.lines().filter_map(|line| line.split_once('▶')).collect();
    assert!(arrows.len() > 10, "{graph}");
    for (name, others) in arrows {
        let actual = dependencies(name.trim());
        let listed = others.split("  ").next().unwrap().trim_end_matches(" …");
        for other in listed.split(',').map(str::trim) {
            assert!(actual.contains(other), "{} does not depend on {other}", name.trim());
        }
    }
    let words: BTreeSet<&str> = graph.split([' ', ',', '\n']).collect();
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_prefix("refrain-").unwrap_or(&name);
        assert!(name == "testing" || words.contains(name), "{name} is not in the crate graph");
    }
}

/// The words of a command up to the program that it runs.
fn words_of_refrain(command: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let start = words.iter().position(|word| *word == "refrain")?;
    // Only assignments may precede it: `mpirun` may run a program of that name too.
    if !words[..start].iter().all(|word| word.contains('=') || *word == "&&") {
        return None;
    }
    let words = words[start + 1..].iter().copied();
    Some(words.take_while(|word| !["--", "|", "&&", ";", "#"].contains(word)).collect())
}

#[test]
fn every_command_and_option_in_the_documents_is_known() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut checked = 0;
    for (document, text) in documents() {
        let inline = quoted(&text).into_iter().filter(|text| text.starts_with("refrain "));
        let inline = inline.map(|text| text.replace('\n', " "));
        for command in commands(&text).into_iter().chain(inline) {
            let Some(words) = words_of_refrain(&command) else { continue };
            let Some(subcommand) = words.first().filter(|word| !word.starts_with('-')) else {
                continue;
            };
            if subcommand.starts_with("__") || subcommand.chars().all(char::is_uppercase) {
                continue;
            }
            let help = helps.entry((*subcommand).to_owned()).or_insert_with(|| {
                let outcome = refrain(["help", subcommand]);
                assert_eq!(outcome.code, 0, "{document}: `{command}`: {}", outcome.stderr);
                outcome.stdout
            });
            checked += 1;
            // Options of compilers are not checked.
            let options = words
                .iter()
                .filter(|word| !["cc", "fc"].contains(subcommand) && word.starts_with('-'));
            for option in options {
                let name = option.split('=').next().unwrap();
                let is_known = help
                    .split_whitespace()
                    .any(|word| word.trim_end_matches([',', '.', ';', ':']) == name);
                assert!(is_known, "{document}: `{command}`: {subcommand} has no option {name}");
            }
        }
    }
    assert!(checked >= 20, "only {checked} commands were found");
}

/// The names of sections in `docs/format.md`: those of [`code_sections`], with `N` or `A-B` left out.
fn documented_sections() -> BTreeSet<String> {
    let text = fs::read_to_string(workspace().join("docs/format.md")).unwrap();
    let mut sections = BTreeSet::new();
    let mut is_table_of_sections = false;
    for line in text.lines() {
        if line.starts_with("| section |") {
            is_table_of_sections = true;
        } else if !line.starts_with('|') {
            is_table_of_sections = false;
        } else if is_table_of_sections && let Some(name) = line.split('`').nth(1) {
            let number = ["N", "A-B"].iter().find_map(|end| name.strip_suffix(end));
            sections.insert(number.unwrap_or(name).to_owned());
        }
    }
    sections
}

/// The constants in all files named `sections.rs`.
fn code_sections() -> BTreeSet<String> {
    let mut sections = BTreeSet::new();
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        let file = entry.unwrap().path().join("src/sections.rs");
        let text = fs::read_to_string(file).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with("pub const ")) {
            sections.insert(line.split('"').nth(1).expect("a name").to_owned());
        }
    }
    sections
}

#[test]
fn the_documented_sections_are_those_of_the_code() {
    let documented = documented_sections();
    assert!(documented.len() > 10, "{documented:?}");
    assert_eq!(documented, code_sections());
}

#[test]
fn golden_files_have_documented_sections_only() {
    let documented = documented_sections();
    let mut checked = 0;
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        let folder = entry.unwrap().path().join("tests/golden");
        if !folder.is_dir() {
            continue;
        }
        for path in files(&folder, "refrain") {
            checked += 1;
            for section in Container::open(&path).unwrap().sections() {
                let is_documented = documented.iter().any(|name| match name.ends_with('/') {
                    true => section.name.starts_with(name.as_str()),
                    false => section.name == *name,
                });
                assert!(is_documented, "{}: section {}", path.display(), section.name);
            }
        }
    }
    assert!(checked > 10, "only {checked} golden files were found");
}

/// The names of fields in a value. Names of arguments, sections, options and kinds of ends are data, not fields.
fn fields(value: &serde_json::Value, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                if !["arguments", "sections", "selected", "ended", "inside"]
                    .contains(&name.as_str())
                {
                    fields(value, found);
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn every_json_field_is_documented() {
    let text = fs::read_to_string(workspace().join("docs/json.md")).unwrap();
    let documented: BTreeSet<&str> = quoted(&text).into_iter().collect();
    let mut found = BTreeSet::new();
    for path in files(&workspace().join("crates/refrain/tests/snapshots"), "json") {
        let text = fs::read_to_string(path).unwrap();
        for value in serde_json::Deserializer::from_str(&text).into_iter() {
            fields(&value.unwrap(), &mut found);
        }
    }
    assert!(found.len() > 50, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|name| !documented.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/json.md lacks {missing:?}");
}
