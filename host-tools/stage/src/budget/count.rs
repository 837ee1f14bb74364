//! Runs the counting image in an emulator whose time is instructions.
//!
//! Promise: the emulator is reaped, whatever happens.

use super::{Measurement, Unit};
use crate::setup::find_program;
use std::{
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// So long the counting may take; it takes some ten seconds.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The last line: without it the image did not get to its end.
const END: &str = "end";
/// The families that count bytes; all others count instructions.
const IN_BYTES: [&str; 1] = ["node"];

struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill(); // Fails only if it is gone already.
        let _ = self.0.wait();
    }
}

/// What the counting image prints.
///
/// # Errors
/// If it does not start, fails, or does not come to an end.
pub(super) fn run(qemu: &Path, image: &Path) -> Result<String, String> {
    let mut command = match find_program("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL"]).arg(qemu);
            command
        }
        None => Command::new(qemu),
    };
    command
        .args(["-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "none"])
        // Each instruction takes 2^7 ns of the machine's time: see the image's `counter.rs`.
        .args(["-icount", "shift=7,sleep=off"])
        .args(["-chardev", "stdio,id=said,signal=off"])
        .args(["-semihosting-config", "enable=on,target=native,chardev=said"])
        .arg("-kernel")
        .arg(image)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("{} does not start: {error}", qemu.display()))?;
    let mut emulator = Emulator(child);
    let started = Instant::now();
    // It says less than a pipe holds, so it need not be read meanwhile.
    let status = loop {
        match emulator.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < PATIENCE => thread::sleep(LOOK_EVERY),
            Ok(None) => return Err(format!("the counting image did not end within {} s", PATIENCE.as_secs())),
            Err(error) => return Err(format!("the emulator cannot be waited for: {error}")),
        }
    };
    let said = read(emulator.0.stdout.take())?;
    if status.success() {
        return Ok(said);
    }
    // Either the image says what is wrong, or the emulator did not get so far.
    let complaint = read(emulator.0.stderr.take())?;
    let reason = said.lines().next_back().or(complaint.lines().next_back()).unwrap_or("it does not say why");
    Err(format!("the counting image ended with {status}: {reason}"))
}

fn read(pipe: Option<impl Read>) -> Result<String, String> {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_string(&mut text).map_err(|error| format!("the counts cannot be read: {error}"))?;
    }
    Ok(text)
}

/// Reads what the counting image prints: lines of `name times least most`, and an end.
///
/// # Errors
/// The line that is not of this form.
pub fn parse_counts(said: &str) -> Result<Vec<Measurement>, String> {
    let mut lines: Vec<&str> = said.lines().collect();
    if lines.pop() != Some(END) {
        return Err("the counting image did not get to its end".into());
    }
    lines.into_iter().map(|line| parse_line(line).ok_or_else(|| format!("the counting image says: {line}"))).collect()
}

fn parse_line(line: &str) -> Option<Measurement> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let [times, least, most] = [words.next()?, words.next()?, words.next()?].map(|word| word.parse::<u64>().ok());
    let (times, least, value) = (times?, least?, most?);
    let (family, _) = name.split_once('.')?;
    let unit = if IN_BYTES.contains(&family) { Unit::Bytes } else { Unit::Instructions };
    let note = if least == value { format!("{times} ×") } else { format!("{times} ×, least {least}") };
    words.next().is_none().then_some(Measurement { name, unit, value, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_the_dearest_is_what_counts() {
        let counts = parse_counts("node.size 1 86224 86224\nhandle.token 7 20 30\nend\n").unwrap();
        assert_eq!(counts[0].unit, Unit::Bytes);
        assert_eq!(counts[1].unit, Unit::Instructions);
        assert_eq!((counts[1].value, counts[1].note.as_str()), (30, "7 ×, least 20"));
    }

    #[test]
    fn an_image_that_stopped_early_or_says_something_else_is_no_measurement() {
        for said in
            ["", "handle.token 7 20 30\n", "panicked at x\nend\n", "handle.token 7 20\nend\n", "token 7 2 3\nend\n"]
        {
            assert!(parse_counts(said).is_err(), "{said}");
        }
    }

    #[test]
    fn an_emulator_that_fails_says_why() {
        let error = run(Path::new("/nonexistent"), Path::new("x")).unwrap_err();
        assert!(error.contains("/nonexistent"), "{error}");
        // Whatever the machine: this is a program that does not know the arguments.
        let error = run(Path::new("/bin/cp"), Path::new("x")).unwrap_err();
        assert!(error.contains("exit status: 1: "), "{error}");
    }
}
