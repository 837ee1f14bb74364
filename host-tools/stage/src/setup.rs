//! Prepares the machine: a compiler for the boards, an emulator, the image.
//!
//! Promises: says on stderr what it installs, never asks for a password, and what it may not
//! install ends with the command to type. One process at a time: the others wait.

use crate::uf2::Contents;
use compasso_wire::flash;
use object::{Object, ObjectSection};
use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

mod build;
mod doctor;
mod plan;

pub use build::is_kept;
pub use doctor::{Check, doctor};
pub use plan::{Facts, Step, next_step};

/// The boards' target.
pub const TARGET: &str = "thumbv6m-none-eabi";
/// Debian's packages that build for it where rustup cannot fetch the target.
pub const DEBIAN_RUST: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-22"];
/// Debian's package of the emulator.
pub const DEBIAN_QEMU: [&str; 1] = ["qemu-system-arm"];
/// The emulator.
pub const QEMU: &str = "qemu-system-arm";
/// Set to `debian`, this variable makes the set-up use Debian's compiler.
pub const FORCE_VARIABLE: &str = "COMPASSO_TOOLCHAIN";

/// What the machine lacks, and what mends it. Ends the tool with exit status 3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnvironmentError {
    /// What is missing or failed.
    pub what: String,
    /// The command to run by hand.
    pub mend: String,
}

impl EnvironmentError {
    /// An error with its remedy.
    pub fn new(what: impl Into<String>, mend: impl Into<String>) -> EnvironmentError {
        EnvironmentError { what: what.into(), mend: mend.into() }
    }
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; to mend it: {}", self.what, self.mend)
    }
}

impl std::error::Error for EnvironmentError {}

/// What a caller wants to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Build images.
    pub compiler: bool,
    /// Run them.
    pub emulator: bool,
}

impl Needs {
    /// Both, as a run does.
    pub const ALL: Needs = Needs { compiler: true, emulator: true };
}

/// Which compiler builds the images.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compiler {
    /// `rustup run stable`.
    Rustup,
    /// Debian's packages, with the core library built from source.
    Debian,
}

/// A board that an image can be built for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoardKind {
    /// The emulated Cortex-M board.
    Qemu,
    /// The same board with the program that counts what a node costs.
    QemuCount,
    /// An RP2040 with Ethernet by a W5500.
    W5500EvbPico,
    /// A plain Pico, Ethernet over USB.
    PicoUsb,
    /// A Pico W.
    PicoW,
}

impl BoardKind {
    /// Boards that one can hold in one's hand.
    pub const REAL: [BoardKind; 3] = [BoardKind::W5500EvbPico, BoardKind::PicoUsb, BoardKind::PicoW];

    /// The image's name, which is its binary's.
    #[must_use]
    pub fn image(self) -> &'static str {
        match self {
            BoardKind::Qemu => "compasso-qemu",
            BoardKind::QemuCount => "compasso-count",
            BoardKind::W5500EvbPico => "w5500-evb-pico",
            BoardKind::PicoUsb => "pico-usb",
            BoardKind::PicoW => "pico-w",
        }
    }

    /// The real board whose image has this name.
    #[must_use]
    pub fn named(image: &str) -> Option<BoardKind> {
        BoardKind::REAL.into_iter().find(|board| board.image() == image)
    }

    fn package(self) -> &'static str {
        match self {
            BoardKind::Qemu | BoardKind::QemuCount => "compasso-board-qemu",
            BoardKind::W5500EvbPico | BoardKind::PicoUsb | BoardKind::PicoW => "compasso-board-rp2040",
        }
    }
}

/// Names the folder with the firmware of the Pico W's radio.
pub const RADIO_VARIABLE: &str = "COMPASSO_CYW43_DIR";

/// A machine that is ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Toolchain {
    /// The compiler to use, if one was needed.
    pub compiler: Option<Compiler>,
    /// The emulator, if it was needed.
    pub qemu: Option<PathBuf>,
    /// The root of the workspace.
    pub root: PathBuf,
    /// The folder with the firmware of the Pico W's radio, if there is one.
    pub radio: Option<PathBuf>,
    /// Builds say nothing unless they fail.
    pub quiet: bool,
}

/// Prepares the machine, installing what is missing and may be installed.
///
/// # Errors
/// What is missing, and the command to run by hand.
pub fn ensure(needs: &Needs) -> Result<Toolchain, EnvironmentError> {
    let root = workspace_root()?;
    let _turn = take_turn(&target_dir(&root))?;
    let compiler = if needs.compiler { Some(ensure_compiler()?) } else { None };
    let qemu = if needs.emulator { Some(ensure_qemu()?) } else { None };
    Ok(Toolchain { compiler, qemu, root, radio: radio_files(), quiet: false })
}

impl Toolchain {
    /// Builds a board's image and returns its path. Takes a fraction of a second if nothing changed.
    ///
    /// # Errors
    /// If it does not build, or builds without a vector table.
    pub fn build_image(&self, board: BoardKind) -> Result<PathBuf, EnvironmentError> {
        let compiler =
            self.compiler.ok_or_else(|| EnvironmentError::new("no compiler was prepared", "ask `ensure` for one"))?;
        let target_dir = target_dir(&self.root);
        let _turn = take_turn(&target_dir)?;
        let image = build::build(&self.root, &target_dir, compiler, board, self.radio.as_deref(), self.quiet)?;
        check_image(&image)?;
        Ok(image)
    }

    /// Builds a real board's image and returns the path of its UF2 file, which lies beside it.
    ///
    /// # Errors
    /// If it does not build, or is nothing for a board's flash.
    pub fn build_uf2(&self, board: BoardKind) -> Result<PathBuf, EnvironmentError> {
        let image = self.build_image(board)?;
        let uf2 = image.with_extension("uf2");
        let program = flash::XIP_BASE..flash::XIP_BASE + flash::LOG_AT;
        let written = fs::read(&image)
            .map_err(|error| error.to_string())
            .and_then(|elf| Contents::of_elf(&elf, program))
            .and_then(|contents| fs::write(&uf2, contents.to_uf2()).map_err(|error| error.to_string()));
        match written {
            Ok(()) => Ok(uf2),
            Err(error) => Err(EnvironmentError::new(
                format!("cannot make {}: {error}", uf2.display()),
                format!("rm {}, and try again", image.display()),
            )),
        }
    }
}

/// Where the user has put the firmware of the Pico W's radio: from here, wherever the build is run.
fn radio_files() -> Option<PathBuf> {
    let folder = std::env::var_os(RADIO_VARIABLE).filter(|folder| !folder.is_empty())?;
    Some(std::path::absolute(&folder).unwrap_or_else(|_| folder.into()))
}

/// Waits until no other process sets up or builds, and keeps the others waiting until dropped.
fn take_turn(target_dir: &Path) -> Result<File, EnvironmentError> {
    lock(target_dir, "setup.lock")
}

/// Waits until no other test has boards running, and keeps the others waiting until dropped:
/// boards of several tests at once would only disturb each other's timing.
///
/// # Errors
/// If the lock cannot be made.
pub fn take_stage() -> Result<File, EnvironmentError> {
    lock(&target_dir(&workspace_root()?), "stage.lock")
}

fn lock(target_dir: &Path, name: &str) -> Result<File, EnvironmentError> {
    let path = target_dir.join(name);
    let failed = |error: io::Error| {
        EnvironmentError::new(
            format!("cannot lock {}: {error}", path.display()),
            format!("make {} writable", target_dir.display()),
        )
    };
    fs::create_dir_all(target_dir).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// The root of the workspace: where this tool was built, or above the current folder.
///
/// # Errors
/// If it is in neither place.
pub fn workspace_root() -> Result<PathBuf, EnvironmentError> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_owned);
    let here = std::env::current_dir().unwrap_or_default();
    built
        .into_iter()
        .chain(here.ancestors().map(Path::to_owned))
        .find(|folder| folder.join("firmware/boards/qemu/Cargo.toml").is_file())
        .ok_or_else(|| EnvironmentError::new("cannot find Compasso's workspace", "run this inside a clone of it"))
}

/// Where images are built: apart from the tool's own build, so that neither waits for the other.
fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder).join("firmware"),
        None => root.join("target/firmware"),
    }
}

fn ensure_compiler() -> Result<Compiler, EnvironmentError> {
    let mut facts = plan::survey();
    loop {
        match next_step(&facts) {
            Step::Use(compiler) => return Ok(compiler),
            Step::AddTarget => {
                say(&format!("installing the target {TARGET} (rustup target add {TARGET})"));
                let mut command = Command::new("rustup");
                command.args(["target", "add", "--toolchain", "stable", TARGET]);
                let added = run(&mut command).is_ok();
                if !added {
                    say("rustup could not fetch the target; trying Debian's packages");
                }
                facts = Facts { add_failed: !added, ..plan::survey() };
            }
            Step::InstallDebian => {
                apt_install(&DEBIAN_RUST)?;
                facts = Facts { debian_failed: true, add_failed: facts.add_failed, ..plan::survey() };
            }
            Step::Missing(error) => return Err(error),
        }
    }
}

fn ensure_qemu() -> Result<PathBuf, EnvironmentError> {
    match find_qemu() {
        Ok(path) => Ok(path),
        Err(error) if plan::is_root() && find_program("apt-get").is_some() => {
            say(&error.what);
            apt_install(&DEBIAN_QEMU)?;
            find_qemu()
        }
        Err(error) => Err(error),
    }
}

/// The emulator, if there is one that speaks to a virtual switch.
///
/// # Errors
/// If there is none.
pub fn find_qemu() -> Result<PathBuf, EnvironmentError> {
    let mend = apt_command(&DEBIAN_QEMU);
    let Some(path) = find_program(QEMU) else {
        return Err(EnvironmentError::new(format!("{QEMU} is not on the PATH"), mend));
    };
    let help = Command::new(&path).args(["-M", "none", "-netdev", "help"]).stdin(Stdio::null()).output();
    match help {
        Ok(output) if String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == "dgram") => Ok(path),
        Ok(_) => Err(EnvironmentError::new(
            format!("{} is too old: its -netdev lacks `dgram` (QEMU 7.2 has it)", path.display()),
            mend,
        )),
        Err(error) => Err(EnvironmentError::new(format!("{} does not start: {error}", path.display()), mend)),
    }
}

/// Refuses an image that no board could start: with `RUSTFLAGS` in the way the linker script gets lost.
fn check_image(path: &Path) -> Result<(), EnvironmentError> {
    let mend = format!("rm -r {}, and try again", path.parent().unwrap_or(path).display());
    let bytes = fs::read(path)
        .map_err(|error| EnvironmentError::new(format!("cannot read {}: {error}", path.display()), mend.clone()))?;
    let table = object::File::parse(&*bytes)
        .ok()
        .and_then(|file| file.section_by_name(".vector_table").map(|section| section.size()));
    match table {
        Some(1..) => Ok(()),
        Some(0) | None => {
            Err(EnvironmentError::new(format!("{} has no vector table: it was linked wrongly", path.display()), mend))
        }
    }
}

fn apt_install(packages: &[&str]) -> Result<(), EnvironmentError> {
    say(&format!("installing {} (apt-get install)", packages.join(", ")));
    let mut update = Command::new("apt-get");
    update.args(["update", "-q"]);
    let mut install = Command::new("apt-get");
    install.args(["install", "-q", "-y", "--no-install-recommends"]).args(packages);
    run(&mut update)
        .and_then(|()| run(&mut install))
        .map_err(|error| EnvironmentError::new(error, apt_command(packages)))
}

/// What an administrator types to install packages.
#[must_use]
pub fn apt_command(packages: &[&str]) -> String {
    format!("apt-get update && apt-get install --no-install-recommends {} (as root)", packages.join(" "))
}

/// Runs a command silently; if it fails, the last line it said is the reason.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name} does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let reason = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
    Err(format!("{name} failed: {}", reason.trim()))
}

fn say(text: &str) {
    eprintln!("compasso: {text}");
}

/// Looks a program up on the `PATH`.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_found() {
        assert!(workspace_root().unwrap().join("Cargo.toml").is_file());
    }

    #[test]
    fn an_error_is_one_line_with_the_command() {
        let error = EnvironmentError::new("qemu-system-arm is not on the PATH", apt_command(&DEBIAN_QEMU));
        let line = error.to_string();
        assert!(!line.contains('\n') && line.contains("apt-get install --no-install-recommends qemu-system-arm"));
    }

    #[test]
    fn an_image_without_vector_table_is_refused() {
        // This very test is an ELF file, and nothing that a board could start.
        let error = check_image(&std::env::current_exe().unwrap()).unwrap_err();
        assert!(error.what.contains("vector table"), "{error}");
        assert!(check_image(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_failing_command_says_why() {
        let error = run(Command::new("sh").args(["-c", "echo first >&2; echo why >&2; exit 1"])).unwrap_err();
        assert_eq!(error, "sh failed: why");
        assert!(run(&mut Command::new("/nonexistent")).is_err());
    }
}
