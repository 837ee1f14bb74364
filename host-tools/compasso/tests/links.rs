//! Every relative link in the documents leads somewhere, and every file that they name as one is there.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn all() -> Vec<PathBuf> {
    let mut found = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name)).to_vec();
    documents(&root().join("docs"), &mut found);
    found
}

/// The targets of `[…](target)` outside of code blocks.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let mut rest = if in_code { "" } else { line };
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, behind)) = after.split_once(')') else { break };
            links.push(target.to_owned());
            rest = behind;
        }
    }
    links
}

/// The name that a heading has in a link: letters, digits, hyphens for blanks.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == wanted)
}

#[test]
fn every_relative_link_leads_to_a_file_and_to_a_heading_of_it() {
    let mut followed = 0;
    let mut broken = Vec::new();
    for document in all() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let holds = target.exists()
                && (heading.is_empty() || fs::read_to_string(&target).is_ok_and(|text| has_anchor(&text, heading)));
            if !holds {
                broken.push(format!("{}: {link}", document.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(followed > 50, "only {followed} links were found");
}

/// Paths in backquotes that begin with a folder of the repository are there; `*` and capitals stand for something.
#[test]
fn every_file_that_is_named_is_there() {
    let mut found = 0;
    let mut missing = Vec::new();
    for document in all() {
        let text = fs::read_to_string(&document).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let folders = ["firmware/", "host-tools/", "scenarios/", "docs/", ".ci/"];
            let is_path = folders.iter().any(|folder| name.starts_with(folder))
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c));
            if is_path {
                found += 1;
                if !root().join(name).exists() {
                    missing.push(format!("{}: {name}", document.strip_prefix(root()).unwrap().display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(found > 50, "only {found} names were found");
}

#[test]
fn links_are_found_and_headings_are_named_as_readers_see_them() {
    assert_eq!(links("a [b](c.md) d [e](f.md#g)\n```\n[no](h)\n```\n[i](j)"), ["c.md", "f.md#g", "j"]);
    assert_eq!(anchor("What it promises: `ME1`, and more"), "what-it-promises-me1-and-more");
}
