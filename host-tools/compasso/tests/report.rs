//! The page that every run leaves: self-contained, balanced, not too large, and it shows what was broken.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The concert's page is no larger, in bytes.
const PAGE_MAX: usize = 500_000;

fn compasso(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_compasso")).args(args).current_dir(root).output().unwrap()
}

fn page_of(scenario: &str, status: i32, folder: &Path) -> (PathBuf, String) {
    let out = folder.join("run");
    let output = compasso(&["run", scenario, "--on", "sim", "--quiet", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    (out, page)
}

/// Every element is closed, in order; what a script or a style holds is not looked at.
fn balanced(page: &str) {
    const VOID: [&str; 4] = ["meta", "br", "link", "!DOCTYPE"];
    let mut open: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name: String = tag.split_whitespace().next().unwrap_or_default().to_owned();
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "before {:?}", rest.get(..80));
        } else if !VOID.contains(&name.as_str()) {
            if name == "script" || name == "style" {
                let close = format!("</{name}>");
                rest = &rest[rest.find(&close).expect("it is closed") + close.len()..];
                continue;
            }
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0], "never closed");
}

fn self_contained(page: &str) {
    for foreign in ["http://", "https://", " src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(foreign), "the page needs {foreign}");
    }
}

#[test]
fn the_concerts_page_is_balanced_self_contained_and_small() {
    let folder = tempfile::tempdir().unwrap();
    let (out, page) = page_of("scenarios/concert.toml", 0, folder.path());
    balanced(&page);
    self_contained(&page);
    println!("{} bytes", page.len());
    assert!(page.len() < PAGE_MAX, "{} bytes", page.len());
    assert!(page.contains("Every promise held.") && page.contains("id=\"clock\""));
    assert!(page.contains("prefers-color-scheme: dark"));
    let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    for drawn in ["visits", "messages", "marks", "leads", "down", "faults", "clock"] {
        assert!(!data[drawn].as_array().unwrap().is_empty(), "no {drawn}");
    }
    fs::remove_file(out.join("report.html")).unwrap();
    let again = compasso(&["report", out.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert_eq!(fs::read_to_string(out.join("report.html")).unwrap(), page, "made again, it is the same");
}

#[test]
fn what_is_too_much_to_draw_is_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("many.toml");
    let text = "nodes = 9\nduration = \"20s\"\n[mutex]\nalgorithm = \"lamport\"\n\
                workload = { every = \"50ms\", hold = \"1ms\" }\n";
    fs::write(&scenario, text).unwrap();
    let (_, page) = page_of(scenario.to_str().unwrap(), 0, folder.path());
    assert!(page.len() < PAGE_MAX * 2, "{} bytes", page.len());
    let drawn = page.split("Drawn: ").nth(1).unwrap();
    assert!(drawn.contains(" messages (at most 3000)"), "{}", &drawn[..120]);
}

#[test]
fn a_lessons_page_shows_what_was_broken_and_leads_there() {
    let folder = tempfile::tempdir().unwrap();
    let (_, page) = page_of("scenarios/lessons/maekawa-deadlock.toml", 1, folder.path());
    balanced(&page);
    self_contained(&page);
    assert!(page.contains("<td class=\"bad\">ME2</td>") && page.contains("a circle"), "the violation is told");
    assert!(page.contains("data-jump=\"0\""), "one can jump to it");
    assert!(page.contains("cargo compasso run scenarios/lessons/maekawa-deadlock.toml"), "and repeat it");
}

#[test]
fn what_a_trace_says_cannot_break_out_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let evil = "</script><script>alert(1)</script>";
    let line = format!("{{\"node\":0,\"seq\":1,\"event\":\"request\",\"resource\":\"{evil}\"}}\n");
    fs::write(out.join("trace.jsonl"), line).unwrap();
    let summary = format!("{{\"scenario\":\"{evil}\",\"violations\":[],\"mutex\":{{\"{evil}\":\"{evil}\"}}}}");
    fs::write(out.join("summary.json"), summary).unwrap();
    assert_eq!(compasso(&["report", out.to_str().unwrap()]).status.code(), Some(0));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    balanced(&page);
    assert!(!page.contains("alert(1)</script>"));
}

#[test]
fn what_is_no_run_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (run, wanted) in
        [("no/such/run", "expected the folder of a run"), (folder.path().to_str().unwrap(), "trace.jsonl")]
    {
        let output = compasso(&["report", run]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains(wanted), "{said}");
    }
}
