//! What boards say to their probes: one `probe-rs attach` a board, which never resets it, begins again after
//! the board was unplugged, and is only believed if the image in flash is the one whose strings decode it.

use crate::probe::{Probe, ProbeRs, run};
use object::{Object, ObjectSection};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// A board that is gone is looked for again after this time.
pub const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// How often a child is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const BUILD_ID: &str = ".note.gnu.build-id";

/// What tells one build of an image from every other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// Where it lies in flash, as the processor sees it.
    pub at: u32,
    /// Its bytes.
    pub words: Vec<u32>,
}

impl Build {
    /// Which build an image is.
    ///
    /// # Errors
    /// If it does not say.
    pub fn of_elf(elf: &[u8]) -> Result<Build, String> {
        let file = object::File::parse(elf).map_err(|error| format!("the image is no ELF file: {error}"))?;
        let note = file.section_by_name(BUILD_ID).ok_or(format!("the image has no {BUILD_ID}"))?;
        let bytes = note.data().map_err(|error| format!("the image's {BUILD_ID} cannot be read: {error}"))?;
        let (words, rest) = bytes.as_chunks();
        let at = u32::try_from(note.address()).unwrap_or(0);
        match (words, rest, at) {
            ([_, ..], [], 1..) => Ok(Build { at, words: words.iter().map(|word| u32::from_le_bytes(*word)).collect() }),
            _ => Err(format!("the image's {BUILD_ID} is nowhere in its flash")),
        }
    }

    /// The same place on a board, out of what `probe-rs read` printed.
    fn of_board(&self, said: &str) -> Option<Build> {
        let words = said.split_whitespace().map(|word| u32::from_str_radix(word, 16).ok()).collect::<Option<_>>()?;
        Some(Build { at: self.at, words })
    }
}

/// What happened to a board's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// The probe reads it.
    Attached,
    /// The board runs another build: what it logs would be decoded with the wrong strings.
    OtherBuild,
    /// The probe has lost it, and why; it is looked for again.
    Lost(String),
}

/// One board whose log is wanted.
#[derive(Clone, Debug)]
pub struct Source {
    /// Which node it is.
    pub node: u16,
    /// Where it hangs.
    pub probe: Probe,
    /// The image that it should run.
    pub elf: PathBuf,
    /// Where its log goes.
    pub log: PathBuf,
}

/// Reads all boards' logs until it is stopped.
pub struct Logs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    told: mpsc::Receiver<(u16, Said)>,
}

impl Logs {
    /// Starts reading.
    ///
    /// # Errors
    /// If an image does not say which build it is, or a log cannot be written.
    pub fn start(probe_rs: &ProbeRs, sources: Vec<Source>) -> Result<Logs, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let mut threads = Vec::new();
        for source in sources {
            let elf = std::fs::read(&source.elf).map_err(|error| format!("{}: {error}", source.elf.display()))?;
            let build = Build::of_elf(&elf).map_err(|error| format!("{}: {error}", source.elf.display()))?;
            let log = File::create(&source.log).map_err(|error| format!("{}: {error}", source.log.display()))?;
            let reader =
                Reader { probe_rs: probe_rs.clone(), source, build, log, stop: stop.clone(), tell: tell.clone() };
            threads.push(thread::spawn(move || reader.run()));
        }
        Ok(Logs { stop, threads, told })
    }

    /// The next thing that happened to a log.
    pub fn poll(&mut self) -> Option<(u16, Said)> {
        self.told.try_recv().ok()
    }

    /// Stops reading; boards run on.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join(); // A reader that panicked has said so on stderr.
        }
    }
}

struct Reader {
    probe_rs: ProbeRs,
    source: Source,
    build: Build,
    log: File,
    stop: Arc<AtomicBool>,
    tell: mpsc::Sender<(u16, Said)>,
}

impl Reader {
    fn run(mut self) {
        let mut last = None;
        while !self.is_stopped() {
            let ended = self.attend();
            // Said once, not every two seconds.
            if last.as_ref() != Some(&ended) && !self.is_stopped() {
                self.say(ended.clone());
            }
            last = Some(ended);
            let mut waited = Duration::ZERO;
            while waited < AGAIN_AFTER && !self.is_stopped() {
                thread::sleep(LOOK_EVERY);
                waited += LOOK_EVERY;
            }
        }
    }

    /// Reads until the board is gone; returns why.
    fn attend(&mut self) -> Said {
        let said = match run(&mut self.probe_rs.read(&self.source.probe, self.build.at, self.build.words.len())) {
            Ok(said) => said,
            Err(why) => return Said::Lost(why),
        };
        match self.build.of_board(&said) {
            Some(build) if build == self.build => {}
            Some(_) => return Said::OtherBuild,
            None => return Said::Lost(format!("probe-rs read printed {:?}", said.trim())),
        }
        let mut command = self.probe_rs.attach(&self.source.probe, &self.source.elf);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => {
                self.say(Said::Attached);
                let _ = writeln!(self.log, "──── attached ────");
                self.listen(child)
            }
            Err(error) => Said::Lost(format!("probe-rs does not start: {error}")),
        }
    }

    fn listen(&mut self, mut child: Child) -> Said {
        let out = child.stdout.take().map(|out| pour(out, &self.log));
        let err = child.stderr.take().map(|err| pour(err, &self.log));
        loop {
            match child.try_wait() {
                Ok(None) if self.is_stopped() => {
                    let _ = child.kill(); // It holds nothing: the board runs on.
                    let _ = child.wait();
                    break;
                }
                Ok(None) => thread::sleep(LOOK_EVERY),
                Ok(Some(_)) | Err(_) => break,
            }
        }
        let last = [out, err].into_iter().flatten().filter_map(|thread| thread.join().ok().flatten()).last();
        Said::Lost(last.unwrap_or_else(|| "probe-rs attach ended".into()))
    }

    fn say(&self, said: Said) {
        let _ = self.tell.send((self.source.node, said)); // Nobody listens any more when all is over.
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Writes every line to the log; returns the last.
fn pour(from: impl io::Read + Send + 'static, log: &File) -> JoinHandle<Option<String>> {
    let log = log.try_clone();
    thread::spawn(move || {
        let mut log = log.ok()?;
        let mut last = None;
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = writeln!(log, "{line}"); // A full disk must not stop the run.
            last = Some(line);
        }
        last
    })
}

/// Where a node's log goes.
#[must_use]
pub fn log_path(out: &Path, node: u16) -> PathBuf {
    out.join("nodes").join(format!("{node}.log"))
}
