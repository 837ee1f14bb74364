//! The image of the Pico W, without the radio's firmware as CI builds it, and with files in its place that are
//! made here: the model of the radio does not mind what they hold.

#[path = "common/bench.rs"]
mod bench;
#[allow(dead_code)]
#[path = "../../../firmware/boards/rp2040/build.rs"]
mod build_script;

use bench::{Bench, SECOND};
use compasso_checker::{Event, RunInfo, judge};
use compasso_rp2040::{
    Options,
    board::Board,
    cyw43::{Cyw43, program::AccessPoint},
    device::Device,
    perform_measured,
};
use compasso_scenario::Scenario;
use compasso_stage::setup::{self, BoardKind, Needs, Toolchain};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Twice the patience of its watchdog.
const LONG: u64 = 10 * SECOND;
/// The files' names, and lengths like those of the real ones.
const FILES: [(&str, usize); 3] = [("43439A0.bin", 231_077), ("43439A0_clm.bin", 4_753), ("nvram_rp2040.bin", 742)];

/// What `memory.x` reserves for the stack, without the guard at its end.
const STACK_MAX: u32 = 57_344;

/// Both images have one name while they are built.
static BUILDING: Mutex<()> = Mutex::new(());

fn take_turn() -> MutexGuard<'static, ()> {
    BUILDING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn build(radio: Option<PathBuf>) -> PathBuf {
    let toolchain = setup::ensure(&Needs { compiler: true, emulator: false }).unwrap_or_else(|error| panic!("{error}"));
    let toolchain = Toolchain { radio, ..toolchain };
    toolchain.build_image(BoardKind::PicoW).unwrap_or_else(|error| panic!("{error}"))
}

/// A file of so many bytes that are all alike to nobody, and the same in every run.
fn content(name: &str, length: usize) -> Vec<u8> {
    let mut dice = fastrand::Rng::with_seed(name.len() as u64);
    (0..length).map(|_| dice.u8(..)).collect()
}

fn write_files(folder: &Path) {
    for (name, length) in FILES {
        let (path, content) = (folder.join(name), content(name, length));
        // A file that is written anew is a reason to build anew.
        if fs::read(&path).ok().as_ref() != Some(&content) {
            fs::write(path, content).unwrap();
        }
    }
}

#[test]
fn without_the_radios_firmware_it_refuses_says_what_to_do_and_sends_nothing() {
    let bench = {
        let _turn = take_turn();
        Bench::new(BoardKind::PicoW, &build(None))
    };
    let mut board = bench.board(None);
    let log = bench.watch(&mut board, LONG);
    assert_eq!(board.end(), None, "it ended by itself\n{log}");
    assert!(board.bus().is_watched(), "a watchdog that was fed for so long, not one that nobody started");
    assert_eq!(board.bus().departed, [], "it sent");
    let told: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(told.len(), 10, "once a second, for whoever attaches a probe later\n{log}");
    for line in told {
        assert!(line.contains("built without the radio's firmware"), "{line}");
        assert!(line.contains("to mend it: set COMPASSO_CYW43_DIR and build again"), "{line}");
    }
}

#[test]
fn a_build_wants_all_of_the_radios_files_or_none() {
    let nothing = build_script::radio(None).unwrap();
    assert!(nothing.contains("IS_COMPLETE: bool = false") && nothing.contains("[u8; 0]"), "{nothing}");
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let whole = build_script::radio(Some(folder.path())).unwrap();
    assert!(whole.contains("IS_COMPLETE: bool = true"), "{whole}");
    for (name, length) in FILES {
        assert!(whole.contains(&format!("[u8; {length}]")) && whole.contains(name), "{name} in {whole}");
    }
    let refused = |folder: &Path, told: &str| {
        let error = build_script::radio(Some(folder)).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(told), "no {told:?} in {error}");
        assert!(error.contains("COMPASSO_CYW43_DIR") && error.contains("https://"), "what to do: {error}");
    };
    for (name, length) in FILES {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        refused(folder.path(), &format!("{name} is empty"));
        fs::remove_file(&path).unwrap();
        refused(folder.path(), &format!("{name} is missing"));
        fs::create_dir(&path).unwrap();
        refused(folder.path(), &format!("{name} is empty"));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, content(name, length)).unwrap();
    }
    refused(&folder.path().join("elsewhere"), "elsewhere/43439A0.bin is missing");
}

/// The image with files that hold nothing of a radio: in a place that stays, so that it is built once.
fn build_with_radio() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("radio");
    fs::create_dir_all(&folder).unwrap();
    let _turn = take_turn();
    write_files(&folder);
    build(Some(folder))
}

fn with_radio() -> Bench {
    Bench::new(BoardKind::PicoW, &build_with_radio())
}

/// Runs until the radio belongs to its network or not, as wanted; the log up to then.
fn watch_until(bench: &Bench, board: &mut Board, is_joined: bool) -> String {
    let mut log = String::new();
    let patience = board.now() + LONG;
    while radio(board).program().is_joined() != is_joined {
        assert!(board.end().is_none() && board.now() < patience, "{:?}\n{log}", board.end());
        log += &bench.watch(board, SECOND / 10);
    }
    log
}

fn radio(board: &Board) -> &Cyw43 {
    match board.bus().device() {
        Device::Cyw43(radio) => radio,
        other => panic!("{other:?}"),
    }
}

fn put_access_point(board: &mut Board, point: Option<AccessPoint>) {
    board.bus_mut().with_device(|device| match device {
        Device::Cyw43(radio) => radio.program_mut().set_access_point(point),
        other => panic!("{other:?}"),
    });
}

#[test]
fn it_downloads_every_byte_joins_and_speaks_under_the_radios_address() {
    let bench = with_radio();
    let point = AccessPoint::default();
    let mut board = bench.board(Some(&point.wifi()));
    let mut log = watch_until(&bench, &mut board, true);
    log += &bench.watch(&mut board, 2 * SECOND);
    assert_eq!(board.end(), None, "{log}");
    let [(firmware, at_first), (clm, clm_len), (nvram, at_last)] = FILES;
    let ram = radio(&board).ram();
    assert!(ram[..at_first] == content(firmware, at_first), "the radio's program is not what the image holds");
    let begins = ram.len() - 4 - at_last.next_multiple_of(4);
    assert!(ram[begins..begins + at_last] == content(nvram, at_last), "nor is its calibration");
    assert_eq!(radio(&board).program().clm_len(), Some(clm_len), "{clm}");
    assert!(log.contains("node 1 at 10.77.0.1, life 1") && log.contains("boot, incarnation 1"), "{log}");
    assert!(board.bus().departed.len() > 10, "{log}");
    for (_, frame) in &board.bus().departed {
        assert_eq!(frame[6..12], radio(&board).program().mac(), "{frame:02x?}");
    }
}

#[test]
fn a_wrong_passphrase_is_told_and_tried_again_and_the_right_one_lets_it_in() {
    let bench = with_radio();
    let point = AccessPoint::default();
    let mut board = bench.board(Some(&point.wifi()));
    put_access_point(&mut board, Some(AccessPoint { passphrase: "another one".into(), ..point.clone() }));
    let log = bench.watch(&mut board, LONG);
    let told = log.matches("cannot join the Wi-Fi network compasso").count();
    assert!((2..=3).contains(&told), "{told} times in ten seconds\n{log}");
    assert_eq!((board.end(), &board.bus().departed[..]), (None, &[][..]), "nobody hears a board outside\n{log}");
    put_access_point(&mut board, Some(point));
    watch_until(&bench, &mut board, true);
    bench.watch(&mut board, 2 * SECOND);
    assert!(!board.bus().departed.is_empty());
}

#[test]
fn an_open_network_is_joined_and_one_that_was_lost_is_joined_again() {
    let bench = with_radio();
    let point = AccessPoint { ssid: "room 7".into(), passphrase: String::new() };
    let mut board = bench.board(Some(&point.wifi()));
    put_access_point(&mut board, Some(point.clone()));
    watch_until(&bench, &mut board, true);
    put_access_point(&mut board, None);
    let log = bench.watch(&mut board, LONG / 2);
    assert!(log.contains("lost the Wi-Fi network room 7"), "{log}");
    assert!(log.contains("cannot join the Wi-Fi network room 7"), "{log}");
    assert!(!radio(&board).program().is_joined());
    put_access_point(&mut board, Some(point));
    watch_until(&bench, &mut board, true);
    let before = board.bus().departed.len();
    let log = bench.watch(&mut board, 2 * SECOND);
    assert!(board.bus().departed.len() > before + 5, "{log}");
}

#[test]
fn a_board_that_is_nobody_counts_on_its_radios_lamp_why() {
    const LOOK: u64 = SECOND / 20;
    let bench = with_radio();
    for (mut board, told, wanted) in [
        (bench.nobody(), "there is no configuration page in flash", 2),
        (bench.board(None), "the configuration page names no Wi-Fi network", 5),
    ] {
        let mut log = String::new();
        // Lengths of light and dark, in looks.
        let mut spans: Vec<(bool, u32)> = Vec::new();
        for _ in 0..LONG / LOOK {
            log += &bench.watch(&mut board, LOOK);
            let is_lit = radio(&board).program().lamps() & 1 == 1;
            match spans.last_mut() {
                Some((was_lit, length)) if *was_lit == is_lit => *length += 1,
                _ => spans.push((is_lit, 1)),
            }
        }
        assert_eq!(board.end(), None, "{log}");
        assert!(log.contains(told), "no {told:?} in {log}");
        // Between two long pauses, each a second longer than the usual dark.
        let counted: Vec<usize> = spans
            .split(|(is_lit, length)| !is_lit && *length > 20)
            .map(|group| group.iter().filter(|(is_lit, _)| *is_lit).count())
            .collect();
        // Before the first pause there was no radio yet, and what follows it began without one.
        let whole = counted.get(2..counted.len() - 1).unwrap_or_default();
        assert!(!whole.is_empty() && whole.iter().all(|count| *count == wanted), "{spans:?}");
        assert_eq!(board.bus().departed, [], "nobody sends nothing");
    }
}

const THREE: &str = r#"
    name = "three-by-air"
    nodes = 3
    seed = 5
    duration = "12s"
    [clock]
    sync = "cristian"
    skew_ppm = [40, -25, 10]
    [election]
    algorithm = "bully"
    [mutex]
    algorithm = "token-ring"
    workload = { every = "100ms", hold = "5ms" }
    [network]
    delay = "500us..4ms"
    loss = 0.01
    [[step]]
    at = "4s"
    crash = 2
    [[step]]
    at = "6s"
    restart = 2
"#;

#[test]
fn three_of_them_keep_every_promise_through_a_crash_and_a_return_and_a_seed_repeats() {
    let image = build_with_radio();
    let scenario = Scenario::parse(THREE, "test.toml").unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [(first, stack), (second, _)] = folders.each_ref().map(|folder| {
        let (board, out) = (BoardKind::PicoW, folder.path().to_owned());
        let options = Options { board, image: image.clone(), out, interrupted: Default::default() };
        perform_measured(&scenario, &options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
    });
    assert_eq!(first.failures, []);
    assert!(first.events == second.events, "two runs of one seed differ");
    for file in ["network.pcapng", "nodes/0.log", "nodes/2.log"] {
        let [a, b] = folders.each_ref().map(|folder| fs::read(folder.path().join(file)).unwrap());
        assert!(a == b && a.len() > 200, "{file}");
    }
    let summary = judge(&first.events, &RunInfo::new(scenario, "rp2040", first.network.into()));
    assert_eq!(summary.exit_code(), 0, "{:?}", summary.violations);
    let count = |wanted: &dyn Fn(&Event) -> bool| first.events.iter().filter(|e| wanted(&e.event)).count();
    assert_eq!(count(&|event| matches!(event, Event::Boot { .. })), 4, "three boards, four lives");
    assert!(count(&|event| matches!(event, Event::CsEnter { .. })) > 50, "the run was not vacuous");
    assert!(stack <= STACK_MAX, "the deepest stack was {stack} bytes");
    eprintln!("deepest stack {stack} bytes");
}
