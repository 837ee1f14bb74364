//! Builds one image with one cargo call, in an environment that cannot spoil it.

use super::{BoardKind, Compiler, EnvironmentError, RADIO_VARIABLE, TARGET, say};
use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A build that takes longer shows what it does.
const SILENCE: Duration = Duration::from_secs(2);
/// Lines of a failed build that are shown.
const SHOWN_MAX: usize = 60;

/// Whether a variable may reach the build. What an outer cargo sets for its children may not:
/// flags of the host replace the image's linker script, and its toolchain lacks the target.
#[must_use]
pub fn is_kept(variable: &str) -> bool {
    const KEPT: [&str; 5] = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_TERM_"];
    const REMOVED: [&str; 6] =
        ["RUSTFLAGS", "RUSTUP_TOOLCHAIN", "RUST_RECURSION_COUNT", "RUSTC", "RUSTDOC", "LD_LIBRARY_PATH"];
    if variable.starts_with("CARGO") {
        return KEPT.iter().any(|kept| variable.starts_with(kept));
    }
    !REMOVED.contains(&variable)
}

/// What the Pico W's radio runs by.
const RADIO_FILES: [&str; 3] = ["43439A0.bin", "43439A0_clm.bin", "nvram_rp2040.bin"];

pub(super) fn build(
    root: &Path,
    target_dir: &Path,
    compiler: Compiler,
    board: BoardKind,
    radio: Option<&Path>,
    quiet: bool,
) -> Result<PathBuf, EnvironmentError> {
    let (package, binary) = (board.package(), board.image());
    let radio = radio.filter(|_| board == BoardKind::PicoW);
    let wanted = format!(
        "put {} from the folder cyw43-firmware of https://github.com/embassy-rs/embassy (Permissive Binary License 1.0) \
         into a folder that {RADIO_VARIABLE} names",
        RADIO_FILES.join(", ")
    );
    if board == BoardKind::PicoW && radio.is_none() && !quiet {
        say(&format!("{binary} is built without its radio's firmware and will refuse to run: to get it, {wanted}"));
    }
    let has = |file: &&str| radio.is_none_or(|folder| folder.join(file).metadata().is_ok_and(|file| file.len() > 0));
    if let (Some(folder), Some(missing)) = (radio, RADIO_FILES.iter().find(|file| !has(file))) {
        let what = format!("{} is missing, or empty", folder.join(missing).display());
        return Err(EnvironmentError::new(what, wanted));
    }
    let target_dir = folder(target_dir, compiler);
    let mut command = cargo(compiler);
    command
        .args(["build", "--profile", "firmware", "--target", TARGET, "-p", package, "--bin", binary, "--target-dir"])
        .arg(&target_dir)
        .current_dir(root);
    match radio {
        Some(files) => command.args(["--features", "radio"]).env(RADIO_VARIABLE, files),
        None => command.env_remove(RADIO_VARIABLE),
    };
    let shown = match compiler {
        Compiler::Rustup => format!("cargo build --profile firmware --target {TARGET} -p {package} --bin {binary}"),
        Compiler::Debian => "COMPASSO_TOOLCHAIN=debian cargo compasso doctor --install".to_owned(),
    };
    let said = watch(&mut command, if quiet { Duration::MAX } else { SILENCE })
        .map_err(|what| EnvironmentError::new(what, shown.clone()))?;
    match said {
        Ok(()) if radio.is_some() => apart(&image(&target_dir, board), &target_dir.join("radio")),
        Ok(()) => Ok(image(&target_dir, board)),
        Err(lines) => {
            for line in &lines {
                eprintln!("{line}");
            }
            let reason = lines.iter().find(|line| line.starts_with("error")).map_or("", String::as_str);
            Err(EnvironmentError::new(format!("the firmware does not build: {reason}"), shown))
        }
    }
}

/// Cargo keeps images with and without the radio's files apart, but in the end both have one name. This one
/// is put elsewhere, at once: somebody may be reading an older one.
fn apart(image: &Path, folder: &Path) -> Result<PathBuf, EnvironmentError> {
    let place = folder.join(image.file_name().unwrap_or_default());
    let copied = fs::create_dir_all(folder)
        .and_then(|()| fs::copy(image, place.with_extension("new")))
        .and_then(|_| fs::rename(place.with_extension("new"), &place));
    match copied {
        Ok(()) => Ok(place),
        Err(error) => Err(EnvironmentError::new(
            format!("cannot write {}: {error}", place.display()),
            format!("make {} writable", folder.display()),
        )),
    }
}

/// Where a board's image lies once this compiler has built it.
pub(super) fn path(target_dir: &Path, compiler: Compiler, board: BoardKind) -> PathBuf {
    image(&folder(target_dir, compiler), board)
}

/// Each compiler has its own folder: they cannot read each other's work.
fn folder(target_dir: &Path, compiler: Compiler) -> PathBuf {
    match compiler {
        Compiler::Rustup => target_dir.to_owned(),
        Compiler::Debian => target_dir.join("debian"),
    }
}

fn image(folder: &Path, board: BoardKind) -> PathBuf {
    folder.join(TARGET).join("firmware").join(board.image())
}

fn cargo(compiler: Compiler) -> Command {
    let mut command = match compiler {
        Compiler::Rustup => Command::new("rustup"),
        Compiler::Debian => Command::new("/usr/bin/cargo"),
    };
    command.env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_none_or(is_kept)));
    match compiler {
        Compiler::Rustup => {
            command.args(["run", "stable", "cargo"]);
        }
        Compiler::Debian => {
            let mut path = OsString::from("/usr/bin:");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            command
                .arg("-Zbuild-std=core")
                .env("PATH", path)
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_THUMBV6M_NONE_EABI_LINKER", "ld.lld-22");
        }
    }
    command
}

/// Runs a build; shows its progress if it takes longer than `silence`. Inner error: the last lines it said.
fn watch(command: &mut Command, silence: Duration) -> Result<Result<(), Vec<String>>, String> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{} does not start: {error}", command.get_program().to_string_lossy()))?;
    let mut lines: Vec<String> = Vec::new();
    let mut is_shown = false;
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let is_progress = ["Compiling", "Downloading", "Downloaded", "Building", "Updating"]
                .iter()
                .any(|word| line.trim_start().starts_with(word));
            if started.elapsed() >= silence && is_progress {
                if !is_shown {
                    say("building the firmware");
                    is_shown = true;
                }
                eprintln!("{line}");
            } else if !is_progress {
                lines.push(line);
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cargo cannot be waited for: {error}"))?;
    if status.success() {
        return Ok(Ok(()));
    }
    let first = lines.len().saturating_sub(SHOWN_MAX);
    Ok(Err(lines.split_off(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_cargo_leaves_no_trace_in_the_build() {
        for removed in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
            "CARGO_MANIFEST_DIR",
            "CARGO_TARGET_DIR",
            "CARGO",
        ] {
            assert!(!is_kept(removed), "{removed}");
        }
        for kept in [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "CARGO_NET_OFFLINE",
            "DEFMT_LOG",
            "https_proxy",
            RADIO_VARIABLE,
        ] {
            assert!(is_kept(kept), "{kept}");
        }
    }

    #[test]
    fn a_failed_build_returns_what_it_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo '   Compiling x' >&2; echo 'error: no' >&2; exit 101"]);
        assert_eq!(watch(&mut command, SILENCE), Ok(Err(vec!["error: no".into()])));
        assert_eq!(watch(Command::new("true").arg("x"), SILENCE), Ok(Ok(())));
        assert!(watch(&mut Command::new("/nonexistent"), SILENCE).is_err());
    }
}
