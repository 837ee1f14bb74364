//! One life of one emulated board: a QEMU process from boot to death.
//!
//! Promise: the process is reaped, whatever happens: when the value is dropped, and (where
//! `setpriv` exists) also when the tool itself is killed.

use crate::{
    ram::{Journal, RAM_BASE, Ram},
    setup::find_program,
    switch::{board_socket, switch_socket},
};
use compasso_wire::{NodeConfig, NodeId, config::Stored, limits::CONFIG_MAX, page};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs, io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// What all boards of a run share.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The emulator.
    pub qemu: PathBuf,
    /// The image.
    pub image: PathBuf,
    /// Where sockets, configurations and memories live. A short path: sockets allow 107 bytes.
    pub folder: PathBuf,
}

/// A board that was booted.
#[derive(Debug)]
pub struct Board {
    position: usize,
    id: NodeId,
    incarnation: u32,
    rate_ppb: i32,
    ram: Ram,
    errors: PathBuf,
    child: Child,
    status: Option<ExitStatus>,
    is_paused: bool,
}

/// What a dead board leaves behind.
#[derive(Debug)]
pub struct Remains {
    /// Records that the collector had not acknowledged.
    pub journal: Journal,
    /// What it promised to remember; none if it stored nothing in this life.
    pub stored: Option<Stored>,
}

impl Board {
    /// Boots a board. Call it from a thread that outlives the board: its end is the board's end.
    ///
    /// # Errors
    /// If a file cannot be written or the emulator does not start.
    pub fn boot(machine: &Machine, position: usize, config: &NodeConfig) -> io::Result<Board> {
        let file = |prefix: &str| machine.folder.join(format!("{prefix}{position}"));
        let (memory, configuration, errors) = (file("m"), file("c"), file("e"));
        let ram = Ram::create(&memory)?;
        fs::write(&configuration, config_page(config)?)?;
        let stderr = fs::File::create(&errors)?;
        let mut command = match find_program("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL"]).arg(&machine.qemu);
                command
            }
            None => Command::new(&machine.qemu),
        };
        let child = command
            .args(arguments(&machine.image, &machine.folder, position, &memory, &configuration))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .process_group(0) // Ctrl-C is for the tool, which then ends its boards in order.
            .spawn()?;
        Ok(Board {
            position,
            id: config.me,
            incarnation: config.incarnation,
            rate_ppb: config.rate_ppb,
            ram,
            errors,
            child,
            status: None,
            is_paused: false,
        })
    }

    /// Its position in the ring.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whose board it is.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Which of its lives this is.
    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// How its crystal was bent at boot, in parts per billion.
    #[must_use]
    pub fn rate_ppb(&self) -> i32 {
        self.rate_ppb
    }

    /// Its memory.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// It stands still.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Stops the processor while the crystal runs on.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn pause(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        self.is_paused = true;
        Ok(())
    }

    /// Lets the processor go on.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)?;
        self.is_paused = false;
        Ok(())
    }

    /// Why the process has ended, if it has: exit status or signal, and what the emulator said.
    pub fn ended(&mut self) -> Option<String> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        let status = self.status?;
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown cause".into(),
        };
        let said = fs::read_to_string(&self.errors).unwrap_or_default();
        // The cause comes first; a dump of registers may follow it.
        match said.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => Some(format!("{how}: {}", line.trim())),
            None => Some(how),
        }
    }

    /// Ends the process at once, as a power cut would, and reads what is left in its memory.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn kill(mut self) -> io::Result<Remains> {
        self.reap();
        Ok(Remains { journal: self.ram.journal()?, stored: self.ram.stored()? })
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    fn reap(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill(); // Fails only if it is gone already.
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.reap();
    }
}

/// The page that the emulator loads into the board's memory.
fn config_page(config: &NodeConfig) -> io::Result<Vec<u8>> {
    let mut buffer = [0; CONFIG_MAX];
    let bytes = postcard::to_slice(config, &mut buffer)
        .map_err(|error| io::Error::other(format!("the configuration of node {} does not fit: {error}", config.me)))?;
    let mut page = vec![0; page::CONFIG_AT];
    page.extend(page::CONFIG_MAGIC.to_le_bytes());
    page.extend((bytes.len() as u32).to_le_bytes());
    page.resize(page::CONFIG_AT + page::CONFIG_BYTES_AT, 0);
    page.extend_from_slice(bytes);
    Ok(page)
}

fn arguments(image: &Path, folder: &Path, position: usize, memory: &Path, configuration: &Path) -> Vec<String> {
    let (board, switch) = (board_socket(folder, position), switch_socket(folder, position));
    let text = |path: &Path| path.display().to_string();
    [
        "-M",
        "mps2-an385,memory-backend=ram",
        "-object",
        &format!("memory-backend-file,id=ram,size=16M,mem-path={},share=on", text(memory)),
        "-display",
        "none",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-kernel",
        &text(image),
        "-netdev",
        &format!(
            "dgram,id=n0,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            text(&board),
            text(&switch)
        ),
        "-net",
        "nic,netdev=n0",
        "-device",
        &format!("loader,file={},addr={RAM_BASE:#x},force-raw=on", text(configuration)),
        "-semihosting-config",
        "enable=on,target=native",
    ]
    .map(String::from)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use compasso_wire::Key;

    fn config() -> NodeConfig {
        NodeConfig::new(1, Key([1; 16]), NodeId(2), [NodeId(1), NodeId(2)])
    }

    /// A machine whose emulator is a shell script. Another process writes it: a handle of ours
    /// could leak into a board that another test boots, and a busy file cannot be run.
    fn machine(folder: &Path, script: &str) -> Machine {
        let program = folder.join("p");
        let written = Command::new("sh")
            .args(["-c", r#"printf %s "$1" > "$0" && chmod +x "$0""#, &program.display().to_string(), script])
            .status()
            .unwrap();
        assert!(written.success());
        Machine { qemu: program, image: "x".into(), folder: folder.to_owned() }
    }

    #[test]
    fn the_page_reads_back_as_the_configuration() {
        let page = config_page(&config()).unwrap();
        assert_eq!(&page[..4], b"CMPC");
        let length = u32::from_le_bytes(page[4..8].try_into().unwrap()) as usize;
        assert_eq!(postcard::from_bytes::<NodeConfig>(&page[8..8 + length]).unwrap(), config());
    }

    /// Any program will do to show that the process is stopped, gone on with, and reaped.
    #[test]
    fn a_board_is_paused_resumed_and_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path(), "#!/bin/sh\nexec sleep 100\n");
        let state = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit(") ").next()?.chars().next()
        };
        let mut board = Board::boot(&machine, 0, &config()).unwrap();
        let pid = board.child.id();
        board.pause().unwrap();
        while state(pid) != Some('T') {
            std::thread::yield_now();
        }
        assert!(board.is_paused() && board.ended().is_none());
        board.resume().unwrap();
        while state(pid) == Some('T') {
            std::thread::yield_now();
        }
        board.pause().unwrap();
        let remains = board.kill().unwrap();
        assert_eq!(remains.journal, Journal::default());
        assert_eq!(state(pid), None, "also while it stood still");
    }

    #[test]
    fn an_end_of_its_own_is_told_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path(), "#!/bin/sh\necho no such board >&2\nexit 3\n");
        let mut board = Board::boot(&machine, 0, &config()).unwrap();
        let reason = loop {
            match board.ended() {
                Some(reason) => break reason,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(reason, "exit status 3: no such board");
    }
}
