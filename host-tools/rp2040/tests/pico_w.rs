//! The image of the Pico W, without the radio's firmware as CI builds it, and with files in its place that are
//! made here: the model of the radio does not mind what they hold.

#[path = "common/bench.rs"]
mod bench;
#[allow(dead_code)]
#[path = "../../../firmware/boards/rp2040/build.rs"]
mod build_script;

use bench::{Bench, SECOND};
use compasso_rp2040::{cyw43::program::AccessPoint, device::Device};
use compasso_wire::flash::page::Wifi;
use compasso_stage::setup::{self, BoardKind, Needs, Toolchain};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Twice the patience of its watchdog.
const LONG: u64 = 10 * SECOND;
/// The files' names, and lengths like those of the real ones.
const FILES: [(&str, usize); 3] =
    [("43439A0.bin", 231_077), ("43439A0_clm.bin", 4_753), ("nvram_rp2040.bin", 742)];

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

/// The image with files that hold nothing of a radio.
fn with_radio() -> Bench {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("radio");
    fs::create_dir_all(&folder).unwrap();
    let _turn = take_turn();
    write_files(&folder);
    Bench::new(BoardKind::PicoW, &build(Some(folder)))
}

#[test]
fn it_joins() {
    let bench = with_radio();
    let point = AccessPoint::default();
    let wifi = Wifi { ssid: (*point.ssid).try_into().unwrap(), passphrase: (*point.passphrase).try_into().unwrap() };
    let mut board = bench.board(Some(&wifi));
    let begun = std::time::Instant::now();
    let log = bench.watch(&mut board, 4 * SECOND);
    eprintln!("{:?} for {} cycles", begun.elapsed(), board.now());
    eprintln!("{log}");
    if let Some(end) = board.end() { eprintln!("{end:?} {:?} {:?}", bench.image.place(end.pc), bench.image.place(end.lr & !1)); }
    let Device::Cyw43(radio) = board.bus_mut().device_mut() else { panic!() };
    eprintln!("joined {} {:?} lamps {}", radio.program().is_joined(), radio.program().clm_len(), radio.program().lamps());
    eprintln!("{} departed", board.bus().departed.len());
    panic!();
}
