//! The shipped lessons: each breaks exactly what it says, and holds with the one key that it names.

use compasso_checker::{NetworkStats, RunInfo, Summary, judge};
use compasso_scenario::Scenario;
use compasso_simulator::perform;
use std::{collections::BTreeSet, path::PathBuf};

const LESSONS: usize = 14;

struct Lesson {
    path: PathBuf,
    text: String,
}

impl Lesson {
    /// What the comment line `# key: …` says.
    fn says(&self, key: &str) -> &str {
        let line =
            self.text.lines().find_map(|line| line.strip_prefix('#')?.trim().strip_prefix(key)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{}: expected a line `# {key}: …`", self.path.display())).trim()
    }

    fn breaks(&self) -> BTreeSet<String> {
        self.says("breaks").split(',').map(|property| property.trim().to_owned()).collect()
    }

    /// The same scenario with that one key as the cure wants it.
    fn cured(&self) -> String {
        let cure = self.says("cure");
        let (key, _) =
            cure.split_once('=').unwrap_or_else(|| panic!("{}: expected `key = value`", self.path.display()));
        let is_meant = |line: &&str| line.split_once('=').is_some_and(|(name, _)| name.trim() == key.trim());
        let meant = self.text.lines().rfind(is_meant);
        let meant = meant.unwrap_or_else(|| panic!("{}: expected the key `{key}`", self.path.display()));
        assert_ne!(meant.trim(), cure, "{}: cured already", self.path.display());
        self.text.replacen(&format!("\n{meant}\n"), &format!("\n{cure}\n"), 1)
    }

    fn perform(&self, text: &str, seed: Option<u64>) -> Summary {
        let scenario =
            Scenario::parse(text, &self.path.display().to_string()).unwrap_or_else(|error| panic!("{error}"));
        let seed = seed.unwrap_or(scenario.seed);
        let scenario = scenario.with_seed(seed);
        judge(&perform(&scenario).trace, &RunInfo::new(scenario, "sim", NetworkStats::default()))
    }
}

fn lessons() -> Vec<Lesson> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/lessons");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let read = |path: PathBuf| Lesson { text: std::fs::read_to_string(&path).unwrap(), path };
    paths.into_iter().map(read).collect()
}

fn broken(summary: &Summary) -> BTreeSet<String> {
    summary.violations.iter().map(|violation| violation.property.clone()).collect()
}

#[test]
fn each_lesson_breaks_what_it_says_whatever_the_seed() {
    let lessons = lessons();
    assert_eq!(lessons.len(), LESSONS);
    for lesson in &lessons {
        let name = lesson.path.file_stem().unwrap().to_string_lossy();
        for seed in [None, Some(2), Some(3), Some(4), Some(5)] {
            let summary = lesson.perform(&lesson.text, seed);
            assert_eq!(summary.scenario, name, "a lesson is called like its file");
            assert_eq!(broken(&summary), lesson.breaks(), "{name}, seed {seed:?}: {:#?}", summary.violations);
            assert_eq!(summary.exit_code(), 1);
        }
        println!("{name}: {}", lesson.perform(&lesson.text, None).violations[0].detail);
    }
}

#[test]
fn each_lesson_holds_with_the_one_key_that_it_names() {
    for lesson in lessons() {
        for seed in [None, Some(2), Some(3), Some(4), Some(5)] {
            let summary = lesson.perform(&lesson.cured(), seed);
            let name = lesson.path.display();
            assert_eq!(summary.violations, [], "{name}, seed {seed:?}, {}", lesson.says("cure"));
            let missed: Vec<_> = summary.expectations.iter().filter(|expectation| !expectation.ok).collect();
            assert!(missed.is_empty(), "{name}, seed {seed:?}: {missed:?}");
            for property in lesson.breaks() {
                assert!(summary.checked.contains(&property), "{name}: {property} was not checked in the cured twin");
            }
        }
    }
}
