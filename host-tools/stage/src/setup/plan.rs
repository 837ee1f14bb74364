//! Which compiler, and what to do to get it: a pure decision over what the machine has.

use super::{Compiler, DEBIAN_RUST, EnvironmentError, FORCE_VARIABLE, TARGET, apt_command, find_program};
use std::process::{Command, Stdio};

/// What the machine has and what was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// `rustup` is there.
    pub rustup: bool,
    /// It has the boards' target.
    pub target: bool,
    /// It was asked for the target and failed.
    pub add_failed: bool,
    /// Debian's compiler, source and linker are installed.
    pub debian: bool,
    /// They were installed just now.
    pub debian_failed: bool,
    /// `apt-get` is there.
    pub apt: bool,
    /// We may use it.
    pub root: bool,
    /// The user wants Debian's compiler.
    pub forced: bool,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ready.
    Use(Compiler),
    /// Ask rustup for the target.
    AddTarget,
    /// Install Debian's packages.
    InstallDebian,
    /// Give up.
    Missing(EnvironmentError),
}

/// Decides the next step. Each step changes a fact, so the decisions end.
#[must_use]
pub fn next_step(facts: &Facts) -> Step {
    if !facts.forced {
        if facts.rustup && facts.target {
            return Step::Use(Compiler::Rustup);
        }
        if facts.rustup && !facts.add_failed {
            return Step::AddTarget;
        }
    }
    if facts.debian {
        return Step::Use(Compiler::Debian);
    }
    if facts.apt && facts.root && !facts.debian_failed {
        return Step::InstallDebian;
    }
    let what = format!("there is no Rust compiler for {TARGET}");
    let mend = match (facts.forced, facts.rustup, facts.apt) {
        (false, true, false) => format!("rustup target add {TARGET}"),
        (false, true, true) => format!("rustup target add {TARGET}, or {}", apt_command(&DEBIAN_RUST)),
        (_, _, true) => apt_command(&DEBIAN_RUST),
        (_, _, false) => format!("install rustup (https://rustup.rs), then rustup target add {TARGET}"),
    };
    Step::Missing(EnvironmentError::new(what, mend))
}

/// Looks at the machine.
pub(super) fn survey() -> Facts {
    let says = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let targets = says("rustup", &["target", "list", "--installed", "--toolchain", "stable"]);
    let mut query = vec!["-W", "-f", "${db:Status-Status}\n"];
    query.extend(DEBIAN_RUST);
    let packages = says("dpkg-query", &query);
    Facts {
        rustup: find_program("rustup").is_some(),
        target: targets.is_some_and(|list| list.lines().any(|line| line.trim() == TARGET)),
        add_failed: false,
        debian: packages.is_some_and(|list| list.lines().all(|line| line == "installed")),
        debian_failed: false,
        apt: find_program("apt-get").is_some(),
        root: is_root(),
        forced: std::env::var(FORCE_VARIABLE).is_ok_and(|value| value == "debian"),
    }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: Facts = Facts {
        rustup: true,
        target: false,
        add_failed: false,
        debian: false,
        debian_failed: false,
        apt: true,
        root: true,
        forced: false,
    };

    fn mend(facts: &Facts) -> String {
        match next_step(facts) {
            Step::Missing(error) => error.mend,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rustup_comes_first() {
        assert_eq!(next_step(&Facts { target: true, debian: true, ..BARE }), Step::Use(Compiler::Rustup));
        assert_eq!(next_step(&Facts { debian: true, ..BARE }), Step::AddTarget);
    }

    #[test]
    fn where_rustup_cannot_fetch_the_target_debian_steps_in() {
        let failed = Facts { add_failed: true, ..BARE };
        assert_eq!(next_step(&failed), Step::InstallDebian);
        assert_eq!(next_step(&Facts { debian: true, ..failed }), Step::Use(Compiler::Debian));
        assert_eq!(next_step(&Facts { rustup: false, ..BARE }), Step::InstallDebian);
    }

    #[test]
    fn debian_can_be_forced() {
        let forced = Facts { target: true, forced: true, ..BARE };
        assert_eq!(next_step(&forced), Step::InstallDebian);
        assert_eq!(next_step(&Facts { debian: true, ..forced }), Step::Use(Compiler::Debian));
        assert!(!mend(&Facts { root: false, ..forced }).contains("rustup"));
    }

    #[test]
    fn without_the_right_to_install_the_command_is_named() {
        let stuck = Facts { add_failed: true, root: false, ..BARE };
        assert!(mend(&stuck).contains("rustup target add"));
        assert!(mend(&stuck).contains("apt-get install --no-install-recommends rustc-web"));
        assert_eq!(mend(&Facts { apt: false, ..stuck }), format!("rustup target add {TARGET}"));
        assert!(mend(&Facts { rustup: false, apt: false, ..stuck }).contains("https://rustup.rs"));
        assert!(!mend(&stuck).contains("sudo"));
    }

    #[test]
    fn packages_that_do_not_help_are_not_installed_twice() {
        assert!(matches!(next_step(&Facts { add_failed: true, debian_failed: true, ..BARE }), Step::Missing(_)));
    }
}
