//! Real boards as users call them, on a machine without any: results, one-line errors, exit statuses.

#[path = "../../fleet/tests/common/mod.rs"]
mod common;

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const FLEET: &str = r#"cluster = 7
key = "cluster.key"
scenario = "three.toml"
[host]
bind = "127.0.0.1:0"
[[board]]
node = 0
image = "w5500-evb-pico"
probe = "AAAA"
[[board]]
node = 1
image = "w5500-evb-pico"
[[board]]
node = 2
image = "pico-usb"
probe = "BBBB"
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::write(place.path("fleet.toml"), FLEET).unwrap();
        fs::write(place.path("three.toml"), "nodes = 3\nduration = \"1s\"\n").unwrap();
        assert_eq!(place.compasso(&["keys", "new"]).status.code(), Some(0));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A machine whose PATH has nothing but what the place puts there.
    fn compasso(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_compasso"));
        command.args(args).current_dir(self.folder.path()).env("PATH", self.path("bin")).output().unwrap()
    }

    fn probe_rs(&self, says: &str) {
        fs::create_dir_all(self.path("bin")).unwrap();
        let calls = self.path("calls").display().to_string();
        let script = format!("#!/bin/sh\ncase $1 in list) echo '{says}' ;; *) echo \"$*\" >> {calls} ;; esac\n");
        fs::write(self.path("bin/probe-rs"), script).unwrap();
        fs::set_permissions(self.path("bin/probe-rs"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn refused(&self, args: &[&str], status: i32, wanted: &[&str]) {
        let output = self.compasso(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        for text in wanted {
            assert!(error.contains(text), "{args:?}: no {text:?} in {error}");
        }
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_key_is_private_and_never_overwritten() {
    let place = Place::new();
    assert_eq!(mode(&place.path("cluster.key")), 0o600);
    let before = fs::read(place.path("cluster.key")).unwrap();
    place.refused(&["keys", "new"], 2, &["cluster.key", "exists", "--out"]);
    assert_eq!(fs::read(place.path("cluster.key")).unwrap(), before);
    assert_eq!(place.compasso(&["keys", "new", "--out", "other.key"]).status.code(), Some(0));
    assert_ne!(fs::read(place.path("other.key")).unwrap(), before);
}

#[test]
fn a_page_becomes_a_file_that_only_its_owner_reads() {
    let place = Place::new();
    let output = place.compasso(&["provision", "--node", "1", "--uf2", "one.uf2", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["node"], &document["address"]), (&1.into(), &"10.77.0.2:7117".into()));
    assert_eq!(mode(&place.path("one.uf2")), 0o600);
    let file = fs::read(place.path("one.uf2")).unwrap();
    assert_eq!(file.len(), 32 * 512);
    assert_eq!((&file[..4], &file[12..16]), (&b"UF2\n"[..], &0x101f_e000_u32.to_le_bytes()[..]));
    assert_eq!(&file[32..36], b"CMPF");
}

#[test]
fn without_probe_rs_the_command_that_gets_it_is_named() {
    let place = Place::new();
    for args in [&["flash"][..], &["provision", "--node", "0"], &["collect", "--out", "out"]] {
        place.refused(args, 3, &["probe-rs is not on the PATH", "cargo install probe-rs-tools --locked"]);
    }
}

#[test]
fn a_probe_that_is_not_plugged_in_is_named_beside_what_is() {
    let place = Place::new();
    place.probe_rs("No debug probes were found.");
    place.refused(&["flash"], 3, &["looked for the probe AAAA, BBBB", "shows no probe"]);
    place.probe_rs("[0]: Debug Probe -- 2e8a:000c-1:AAAA (CMSIS-DAP)");
    place.refused(&["flash"], 3, &["looked for the probe BBBB", "2e8a:000c-1:AAAA"]);
    place.refused(&["provision", "--node", "0", "--probe", "CCCC"], 3, &["CCCC"]);
    assert!(!place.path("calls").exists(), "nothing was touched");
    assert_eq!(place.compasso(&["provision", "--node", "0"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(place.path("calls")).unwrap().lines().count(), 3, "two copies and a start");
}

#[test]
fn bad_calls_are_one_line() {
    let place = Place::new();
    place.refused(&["provision", "--node", "9"], 2, &["--node 9", "0, 1, 2"]);
    place.refused(&["provision", "--node", "1"], 2, &["node 1 has no `probe`", "--uf2"]);
    place.refused(&["flash", "--fleet", "none.toml"], 2, &["none.toml", "cannot be read"]);
    fs::write(place.path("bad.toml"), FLEET.replace("pico-usb", "pico-z")).unwrap();
    place.refused(&["flash", "--fleet", "bad.toml"], 2, &["bad.toml:15: board[2].image:", "pico-z"]);
    fs::write(place.path("none.toml"), FLEET.replace("probe = ", "# ")).unwrap();
    place.refused(&["flash", "--fleet", "none.toml"], 2, &["`probe`", "--uf2 DIR"]);
    fs::write(place.path("two.toml"), "nodes = 2\nduration = \"1s\"\n").unwrap();
    place.refused(&["run", "two.toml", "--on", "boards"], 2, &["fleet.toml", "0, 1;", "0, 1, 2"]);
}

#[test]
fn steps_that_need_hands_are_refused_before_anything_starts() {
    let place = Place::new();
    let steps = [
        ("crash = 1", "crash = 1"),
        ("pause = 1", "pause = 1"),
        ("partition = [[0], [1]]", "partition"),
        ("set_skew = { node = 2, ppm = 3 }", "set_skew of 2"),
    ];
    for (step, named) in steps {
        let text = format!("nodes = 3\nduration = \"2s\"\n[[step]]\nat = \"500ms\"\n{step}\n");
        fs::write(place.path("hands.toml"), text).unwrap();
        place.refused(&["run", "hands.toml", "--on", "boards"], 2, &["hands.toml", "500ms", named, "boards"]);
    }
    assert!(!place.path("runs").exists());
}

#[test]
fn an_address_that_this_machine_does_not_have_is_named_with_the_command_that_gives_it() {
    let place = Place::new();
    fs::write(place.path("fleet.toml"), FLEET.replace("127.0.0.1:0", "10.77.255.254").replace("probe = ", "# "))
        .unwrap();
    place.refused(&["collect", "--out", "out"], 3, &["10.77.255.254:7117", "ip address add 10.77.255.254/16 dev"]);
}

#[test]
fn boards_perform_a_scenario_and_are_judged() {
    let place = common::Place::new();
    let _boards: Vec<_> = (0..3).map(|position| place.switch_on(position, 4)).collect();
    let (fleet, out) = (place.path("fleet.toml"), place.path("run"));
    let output = Command::new(env!("CARGO_BIN_EXE_compasso"))
        .args(["run", "--on", "boards", "--json", "--fleet", fleet.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{summary:#}");
    assert_eq!((&summary["stage"], &summary["scenario"]), (&"boards".into(), &"loopback".into()));
    assert!(summary["mutex"]["entries"].as_u64().unwrap() > 9, "{summary:#}");
    for name in ["scenario.toml", "trace.jsonl", "summary.json", "report.html"] {
        assert!(out.join(name).is_file(), "{name}");
    }
}

#[test]
fn collecting_ends_with_ctrl_c_and_a_verdict() {
    let place = common::Place::new();
    let boards: Vec<_> = (0..3).map(|position| place.switch_on(position, 4)).collect();
    let (fleet, out) = (place.path("fleet.toml"), place.path("run"));
    let collect = || {
        Command::new(env!("CARGO_BIN_EXE_compasso"))
            .args(["collect", "--json", "--fleet", fleet.to_str().unwrap(), "--out", out.to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let interrupt = |child: &std::process::Child| {
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    };
    let mut child = collect();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let heard: Vec<String> = lines.by_ref().filter(|line| line.contains("is heard, in its life 4")).take(3).collect();
    assert_eq!(heard.len(), 3);
    interrupt(&child);
    let rest: Vec<String> = lines.collect();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let summary: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?} {summary:#}");
    assert!(summary["events"].as_u64().unwrap() > 3 && out.join("trace.jsonl").is_file());

    drop(boards);
    let mut alone = collect();
    let mut lines = BufReader::new(alone.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains("until Ctrl-C")));
    interrupt(&alone);
    assert!(lines.any(|line| line.contains("no board of") && line.contains("was heard")), "nothing is no verdict");
    assert_eq!(alone.wait().unwrap().code(), Some(3));
}
