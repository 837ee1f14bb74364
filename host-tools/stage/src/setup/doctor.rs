//! What this machine has and lacks, without changing it.

use super::{BoardKind, Compiler, Step, build, find_program, find_qemu, next_step, plan, target_dir, workspace_root};
use std::process::Command;

/// One thing that a run needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// It is there.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// The command that mends it; empty if nothing is to be done.
    pub mend: String,
}

/// Looks at everything that a run needs.
#[must_use]
pub fn doctor() -> Vec<Check> {
    vec![workspace(), compiler(), emulator(), image(), guard()]
}

fn workspace() -> Check {
    let (ok, found, mend) = match workspace_root() {
        Ok(root) => (true, root.display().to_string(), String::new()),
        Err(error) => (false, error.what, error.mend),
    };
    Check { name: "workspace", ok, found, mend }
}

fn compiler() -> Check {
    let (ok, found, mend) = match next_step(&plan::survey()) {
        Step::Use(Compiler::Rustup) => (true, format!("rustup's stable with {}", super::TARGET), String::new()),
        Step::Use(Compiler::Debian) => (true, "Debian's packages".into(), String::new()),
        Step::AddTarget => {
            (false, format!("rustup without {}", super::TARGET), format!("rustup target add {}", super::TARGET))
        }
        Step::InstallDebian => (false, "nothing".into(), super::apt_command(&super::DEBIAN_RUST)),
        Step::Missing(error) => (false, error.what, error.mend),
    };
    Check { name: "compiler for the boards", ok, found, mend }
}

fn emulator() -> Check {
    let (ok, found, mend) = match find_qemu() {
        Ok(path) => {
            let version = Command::new(&path).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
            let version = String::from_utf8_lossy(&version).lines().next().unwrap_or_default().to_owned();
            (true, format!("{} ({version})", path.display()), String::new())
        }
        Err(error) => (false, error.what, error.mend),
    };
    Check { name: "emulator", ok, found, mend }
}

/// What `--on rp2040` runs: it needs no other emulator. That it was not built yet is no fault.
fn image() -> Check {
    let board = BoardKind::W5500EvbPico;
    let place = match (workspace_root(), next_step(&plan::survey())) {
        (Ok(root), Step::Use(compiler)) => Some(build::path(&target_dir(&root), compiler, board)),
        _ => None,
    };
    let found = match place.filter(|path| path.exists()) {
        Some(path) => path.display().to_string(),
        None => format!("{} is not built yet: the first run does it", board.image()),
    };
    Check { name: "image of the emulated RP2040", ok: true, found, mend: String::new() }
}

/// Not needed for a run, only for cleaning up after a tool that was killed.
fn guard() -> Check {
    let found = match find_program("setpriv") {
        Some(path) => path.display().to_string(),
        None => "no setpriv: boards may survive a tool that is killed".into(),
    };
    Check { name: "guard against stray boards", ok: true, found, mend: String::new() }
}
