//! What is asked of the `probe-rs` command, word by word: a script of that name writes it down.

use compasso_fleet::{
    Board, Fleet, create_key,
    flash::{self, Stage},
    logs::{Build, Logs, Said, Source},
    pages,
    probe::ProbeRs,
    read_key,
};
use compasso_scenario::Scenario;
use compasso_stage::setup::BoardKind;
use compasso_wire::flash::page;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

const BUILD: [u32; 2] = [0x0bad_cafe, 0x0123_4567];
const PATIENCE: Duration = Duration::from_secs(60);

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A `probe-rs` that knows two probes, writes down how it is called, and keeps what is to be flashed.
    fn new(more: &str) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        let here = place.folder.path().display();
        let script = format!(
            "#!/bin/sh\nfor last; do :; done\n{more}\ncase $1 in\nlist) echo '[0]: Debug Probe -- 2e8a:000c-1:AAAA (CMSIS-DAP)'\n\
             echo '[1]: Debug Probe -- 2e8a:000c-1:BBBB (CMSIS-DAP)' ;;\n\
             *) echo \"$*\" >> {here}/calls ;;\nesac\n\
             case \"$*\" in *base-address*) cp \"$last\" {here}/page ;; esac\n"
        );
        fs::write(place.path("probe-rs"), script).unwrap();
        fs::set_permissions(place.path("probe-rs"), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn probe_rs(&self) -> ProbeRs {
        ProbeRs::at(&self.path("probe-rs"))
    }

    fn fleet(&self) -> Fleet {
        let key_file = self.path("cluster.key");
        create_key(&key_file).unwrap();
        let board = |node, probe: Option<&str>| Board {
            node,
            image: BoardKind::W5500EvbPico,
            probe: probe.map(str::to_owned),
            address: ([10, 77, 0, node as u8 + 1], 7117).into(),
        };
        Fleet {
            file: "fleet.toml".into(),
            cluster: 7,
            key: read_key(&key_file).unwrap(),
            key_file,
            bind: ([127, 0, 0, 1], 0).into(),
            scenario: None,
            wifi: None,
            boards: vec![board(0, Some("BBBB")), board(1, Some("AAAA")), board(2, None)],
        }
    }

    /// How the command was called, the temporary file's name left out.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let is_temporary =
            |path: &Path| path.starts_with(std::env::temp_dir()) && !path.starts_with(self.folder.path());
        let unnamed = |word: &str| if is_temporary(Path::new(word)) { "FILE".into() } else { word.to_owned() };
        text.lines().map(|line| line.split(' ').map(unnamed).collect::<Vec<_>>().join(" ")).collect()
    }
}

fn scenario() -> Scenario {
    Scenario::parse("nodes = 3\nduration = \"1s\"\n", "three.toml").unwrap()
}

#[test]
fn a_board_gets_its_image_then_each_copy_of_its_page_and_starts() {
    let place = Place::new("");
    let (fleet, scenario, probe_rs) = (place.fleet(), scenario(), place.probe_rs());
    let elfs = BTreeMap::from([("w5500-evb-pico", PathBuf::from("node.elf"))]);
    let jobs = flash::jobs(&fleet, &scenario, &probe_rs, &elfs).unwrap();
    assert_eq!(jobs.iter().map(|job| job.node).collect::<Vec<_>>(), [0, 1], "2 has no probe");
    let mut told = Vec::new();
    assert!(flash::perform(&probe_rs, &jobs[..1], &mut |node, stage| told.push((node, stage.clone()))));
    assert_eq!(told, [(0, Stage::Image), (0, Stage::Page), (0, Stage::Done)]);
    let on = "--chip RP2040 --probe 2e8a:000c-1:BBBB --non-interactive";
    let bin = format!("download --disable-progressbars --binary-format bin {on} --base-address");
    assert_eq!(
        place.calls(),
        [
            format!("download --disable-progressbars --binary-format elf {on} node.elf"),
            format!("{bin} 0x101fe000 FILE"),
            format!("{bin} 0x101ff000 FILE"),
            format!("reset {on}"),
        ]
    );
    let page = fs::read(place.path("page")).unwrap();
    assert_eq!(page::read([&page, &[]]).unwrap(), pages::config(&fleet, &fleet.boards[0], &scenario));
    let again = flash::jobs(&fleet, &scenario, &probe_rs, &elfs).unwrap();
    let generation = |page: &[u8]| page::decode(page).unwrap().0;
    assert!(generation(&again[0].page[..]) > generation(&page), "a later page counts");
}

#[test]
fn one_board_that_fails_does_not_keep_the_others_waiting() {
    let place = Place::new("case \"$*\" in download*AAAA*) echo 'Error: no target' >&2; exit 1;; esac");
    let (fleet, probe_rs) = (place.fleet(), place.probe_rs());
    let jobs = flash::jobs(&fleet, &scenario(), &probe_rs, &BTreeMap::new()).unwrap();
    let mut ended = BTreeMap::new();
    let all_well = flash::perform(&probe_rs, &jobs, &mut |node, stage| {
        ended.insert(node, stage.clone());
    });
    assert!(!all_well);
    assert_eq!(ended[&0], Stage::Done);
    assert_eq!(ended[&1], Stage::Failed("probe-rs download failed: Error: no target".into()));
}

#[test]
fn a_probe_that_is_not_there_is_named_beside_those_that_are() {
    let place = Place::new("");
    let error = place.probe_rs().select(&["AAAA", "CCCC"]).unwrap_err().to_string();
    assert!(
        error.contains("looked for the probe CCCC,") && error.contains("2e8a:000c-1:AAAA, 2e8a:000c-1:BBBB"),
        "{error}"
    );
    let none = Place::new("echo 'No debug probes were found.'; exit 0");
    assert!(none.probe_rs().select(&["AAAA"]).unwrap_err().what.contains("shows no probe"));
}

/// An ELF file with nothing in it but a note of which build it is.
fn elf() -> Vec<u8> {
    const NAMES: &[u8] = b"\0.note.gnu.build-id\0.shstrtab\0\0\0";
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let word = |value: u32| value.to_le_bytes();
    let half = |value: u16| value.to_le_bytes();
    let (note_at, names_at) = (52, 60);
    let sections_at = names_at + NAMES.len() as u32;
    file.extend([half(2), half(40)].concat());
    file.extend([1, 0, 0, sections_at, 0].map(word).concat());
    file.extend([52, 0, 0, 40, 3, 2].map(half).concat());
    file.extend(BUILD.map(word).concat());
    file.extend(NAMES);
    file.extend([0; 40]);
    file.extend([1, 7, 2, 0x1003_0000, note_at, 8, 0, 0, 4, 0].map(word).concat());
    file.extend([20, 3, 0, 0, names_at, NAMES.len() as u32, 0, 0, 1, 0].map(word).concat());
    file
}

fn listen(place: &Place, enough: impl Fn(&[Said]) -> bool) -> Vec<Said> {
    fs::write(place.path("node.elf"), elf()).unwrap();
    let probe_rs = place.probe_rs();
    let probe = probe_rs.select(&["AAAA"]).unwrap().remove(0);
    let source = Source { node: 3, probe, elf: place.path("node.elf"), log: place.path("3.log") };
    let mut logs = Logs::start(&probe_rs, vec![source]).unwrap();
    let (mut all, started) = (Vec::new(), Instant::now());
    while !enough(&all) && started.elapsed() < PATIENCE {
        match logs.poll() {
            Some((3, said)) => all.push(said),
            Some((other, _)) => panic!("nobody asked for {other}"),
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
    logs.stop();
    all
}

#[test]
fn an_image_says_which_build_it_is() {
    let build = Build { at: 0x1003_0000, words: BUILD.to_vec() };
    assert_eq!(Build::of_elf(&elf()), Ok(build));
    assert!(Build::of_elf(b"no").unwrap_err().contains("no ELF"));
    let unnamed: Vec<u8> = elf().iter().map(|byte| if *byte == b'-' { b'_' } else { *byte }).collect();
    assert!(Build::of_elf(&unnamed).unwrap_err().contains("has no .note.gnu.build-id"));
}

#[test]
fn a_log_is_read_without_a_reset_and_looked_for_again_when_the_board_is_gone() {
    let place = Place::new(
        "case $1 in read) echo '0badcafe 01234567';; attach) echo 'INFO hello'; echo 'Error: gone' >&2;; esac",
    );
    let said = listen(&place, |said| said.iter().filter(|one| **one == Said::Attached).count() == 2);
    assert_eq!(said.iter().filter(|one| **one == Said::Attached).count(), 2, "{said:?}");
    assert!(said.iter().any(|one| matches!(one, Said::Lost(_))), "{said:?}");
    let log = fs::read_to_string(place.path("3.log")).unwrap();
    assert!(log.contains("INFO hello") && log.contains("attached"), "{log}");
    let calls = place.calls();
    let on = "--chip RP2040 --probe 2e8a:000c-1:AAAA --non-interactive";
    assert_eq!(calls[0], format!("read --format simple-hex {on} b32 0x10030000 2"));
    let node = Path::new(&place.path("node.elf")).display().to_string();
    let careful = "attach --no-catch-reset --no-catch-hardfault --rtt-channel-mode no-block-skip";
    assert_eq!(calls[1], format!("{careful} {on} {node}"));
    assert!(calls.iter().all(|call| !call.starts_with("reset") && !call.contains("--connect-under-reset")));
}

#[test]
fn the_log_of_another_build_is_refused() {
    let place = Place::new("case $1 in read) echo '0badcafe 76543210';; esac");
    let said = listen(&place, |said| !said.is_empty());
    assert_eq!(said, [Said::OtherBuild]);
    assert!(place.calls().iter().all(|call| !call.starts_with("attach")));
    assert_eq!(fs::read_to_string(place.path("3.log")).unwrap(), "");
}
