//! The `probe-rs` command: flashes boards and reads their logs through debug probes.
//!
//! Nothing here resets a board that was only asked what it says: `attach` and `read` connect to the
//! running program, and no vector catch stops it where it would restart by itself.

use compasso_stage::setup::{EnvironmentError, find_program};
use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The command that installs it.
pub const INSTALL: &str = "cargo install probe-rs-tools --locked";
/// The chip of every board.
pub const CHIP: &str = "RP2040";
const PROGRAM: &str = "probe-rs";

/// The `probe-rs` command of this machine.
#[derive(Clone, Debug)]
pub struct ProbeRs {
    program: PathBuf,
}

/// A probe that hangs on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its serial number.
    pub serial: String,
    /// What `probe-rs --probe` wants: vendor, product and serial number.
    pub selector: String,
}

impl ProbeRs {
    /// Looks it up on the PATH.
    ///
    /// # Errors
    /// If it is not there.
    pub fn find() -> Result<ProbeRs, EnvironmentError> {
        let missing = || EnvironmentError::new(format!("{PROGRAM} is not on the PATH"), INSTALL);
        find_program(PROGRAM).map(|program| ProbeRs { program }).ok_or_else(missing)
    }

    /// The one at this path.
    #[must_use]
    pub fn at(program: &Path) -> ProbeRs {
        ProbeRs { program: program.to_owned() }
    }

    /// Finds the probes with these serial numbers, in the same order.
    ///
    /// # Errors
    /// What was looked for and what is there, if one is missing.
    pub fn select(&self, serials: &[&str]) -> Result<Vec<Probe>, EnvironmentError> {
        let mut command = self.command(&["list"]);
        let said = run(&mut command).map_err(|why| EnvironmentError::new(why, INSTALL))?;
        let there = parse_list(&said);
        let find = |serial: &&str| there.iter().find(|probe| probe.serial == **serial).cloned();
        let missing: Vec<&str> = serials.iter().filter(|serial| find(serial).is_none()).copied().collect();
        if missing.is_empty() {
            return Ok(serials.iter().filter_map(find).collect());
        }
        let shown = match there.as_slice() {
            [] => "no probe".to_owned(),
            probes => probes.iter().map(|probe| probe.selector.as_str()).collect::<Vec<_>>().join(", "),
        };
        Err(EnvironmentError::new(
            format!("looked for the probe {}, but `probe-rs list` shows {shown}", missing.join(", ")),
            "plug it in, or correct `probe` in the fleet file; on Linux see https://probe.rs/docs/getting-started/probe-setup",
        ))
    }

    /// Writes an image to flash.
    #[must_use]
    pub fn download(&self, probe: &Probe, elf: &Path) -> Command {
        let mut command = self.on(&["download", "--disable-progressbars", "--binary-format", "elf"], probe);
        command.arg(elf);
        command
    }

    /// Writes bytes to flash at an address as the processor sees it.
    #[must_use]
    pub fn download_at(&self, probe: &Probe, bytes: &Path, at: u32) -> Command {
        let mut command = self.on(&["download", "--disable-progressbars", "--binary-format", "bin"], probe);
        command.args(["--base-address", &format!("{at:#x}")]).arg(bytes);
        command
    }

    /// Starts the program anew.
    #[must_use]
    pub fn reset(&self, probe: &Probe) -> Command {
        self.on(&["reset"], probe)
    }

    /// Reads so many words of a running board.
    #[must_use]
    pub fn read(&self, probe: &Probe, at: u32, words: usize) -> Command {
        let mut command = self.on(&["read", "--format", "simple-hex"], probe);
        command.args(["b32", &format!("{at:#x}"), &words.to_string()]);
        command
    }

    /// Prints what a running board logs, for as long as it is there. A board must not wait for a probe that
    /// was taken away: what finds the buffer full is lost.
    #[must_use]
    pub fn attach(&self, probe: &Probe, elf: &Path) -> Command {
        let quiet = ["attach", "--no-catch-reset", "--no-catch-hardfault", "--rtt-channel-mode", "no-block-skip"];
        let mut command = self.on(&quiet, probe);
        command.arg(elf);
        command
    }

    fn on(&self, arguments: &[&str], probe: &Probe) -> Command {
        let mut command = self.command(arguments);
        command.args(["--chip", CHIP, "--probe", &probe.selector, "--non-interactive"]);
        command
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // In a group of its own: Ctrl-C is for us, and must not end it in the middle of a sector.
        command.args(arguments).stdin(Stdio::null()).process_group(0);
        command
    }
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// Its last line, if it failed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let called = command.get_args().next().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
    let output = command.output().map_err(|error| format!("{PROGRAM} does not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
    Err(format!("{PROGRAM} {called} failed: {last}"))
}

/// The probes in the answer of `probe-rs list`: lines like
/// `[0]: Debug Probe (CMSIS-DAP) -- 2e8a:000c-1:E6614103E7452D2F (CMSIS-DAP)`.
fn parse_list(said: &str) -> Vec<Probe> {
    let probe = |line: &str| {
        let (_, rest) = line.strip_prefix('[')?.rsplit_once(" -- ")?;
        let selector = rest.split_whitespace().next()?;
        let serial = selector.splitn(3, ':').nth(2).filter(|serial| !serial.is_empty())?;
        Some(Probe { serial: serial.to_owned(), selector: selector.to_owned() })
    };
    said.lines().filter_map(probe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_found_in_the_list() {
        let said = "The following debug probes were found:\n\
                    [0]: Debug Probe (CMSIS-DAP) -- 2e8a:000c-1:E6614103E7452D2F (CMSIS-DAP)\n\
                    [1]: J-Link -- 1366:0101:000123456 (J-Link) (inaccessible)\n\
                    [2]: nameless -- 1366:0101: (J-Link)\n";
        let probes = parse_list(said);
        let serials: Vec<&str> = probes.iter().map(|probe| probe.serial.as_str()).collect();
        assert_eq!(serials, ["E6614103E7452D2F", "000123456"]);
        assert_eq!(probes[0].selector, "2e8a:000c-1:E6614103E7452D2F");
        assert_eq!(parse_list("No debug probes were found.\n"), []);
    }

    #[test]
    fn a_failing_command_says_why() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo; echo why >&2; exit 1"]);
        assert_eq!(run(&mut command).unwrap_err(), "probe-rs -c failed: why");
    }
}
