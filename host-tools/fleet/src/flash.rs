//! Flashing: images and pages, on all boards at once.

use crate::{
    Board, Fleet,
    pages::{self, Sector},
    probe::{Probe, ProbeRs, run},
};
use compasso_scenario::Scenario;
use compasso_stage::setup::BoardKind;
use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

/// How far a board is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Its image is being written.
    Image,
    /// Its page is being written.
    Page,
    /// It runs.
    Done,
    /// Why it does not.
    Failed(String),
}

/// What is to be done to one board.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which node it is.
    pub node: u16,
    /// Where it hangs.
    pub probe: Probe,
    /// The image to write; none: it keeps the one it has.
    pub elf: Option<PathBuf>,
    /// Its page.
    pub page: Sector,
}

/// Prepares what every board with a probe needs.
///
/// # Errors
/// If a probe is missing, or no page can be numbered.
pub fn jobs(
    fleet: &Fleet,
    scenario: &Scenario,
    probe_rs: &ProbeRs,
    elfs: &BTreeMap<&'static str, PathBuf>,
) -> Result<Vec<Job>, String> {
    let boards: Vec<&Board> = fleet.boards.iter().filter(|board| board.probe.is_some()).collect();
    let serials: Vec<&str> = boards.iter().filter_map(|board| board.probe.as_deref()).collect();
    let probes = probe_rs.select(&serials).map_err(|error| error.to_string())?;
    let generation = generation(fleet)?;
    let job = |(board, probe): (&&Board, Probe)| Job {
        node: board.node,
        probe,
        elf: elfs.get(board.image.image()).cloned(),
        page: pages::sector(fleet, board, scenario, generation),
    };
    Ok(boards.iter().zip(probes).map(job).collect())
}

/// A generation above that of every page made with this key.
///
/// # Errors
/// One line, if it cannot be stored.
pub fn generation(fleet: &Fleet) -> Result<u32, String> {
    let counter = fleet.counter();
    counter.next().map_err(|error| format!("{}: {error}", counter.path().display()))
}

/// Does all jobs at once and reports how far each is; returns when all have ended. True: all went well.
pub fn perform(probe_rs: &ProbeRs, jobs: &[Job], told: &mut dyn FnMut(u16, &Stage)) -> bool {
    let (report, reports) = mpsc::channel();
    thread::scope(|scope| {
        for job in jobs {
            let report = report.clone();
            scope.spawn(move || {
                let tell = |stage: Stage| {
                    let _ = report.send((job.node, stage)); // Nobody listens any more when all is over.
                };
                match flash(probe_rs, job, &tell) {
                    Ok(()) => tell(Stage::Done),
                    Err(why) => tell(Stage::Failed(why)),
                }
            });
        }
        drop(report);
        let mut all_well = true;
        for (node, stage) in reports {
            all_well &= !matches!(stage, Stage::Failed(_));
            told(node, &stage);
        }
        all_well
    })
}

fn flash(probe_rs: &ProbeRs, job: &Job, tell: &dyn Fn(Stage)) -> Result<(), String> {
    if let Some(elf) = &job.elf {
        tell(Stage::Image);
        run(&mut probe_rs.download(&job.probe, elf))?;
    }
    tell(Stage::Page);
    let file = private_file(&job.page[..]).map_err(|error| format!("cannot write a temporary file: {error}"))?;
    // One copy and then the other: a power cut finds one of them whole.
    for at in pages::addresses() {
        run(&mut probe_rs.download_at(&job.probe, file.path(), at))?;
    }
    run(&mut probe_rs.reset(&job.probe)).map(drop)
}

/// A page holds the key: the file is its owner's alone, and gone when this is dropped.
fn private_file(bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    file.flush()?;
    Ok(file)
}

/// Writes a file that holds a key: nobody else may read it.
///
/// # Errors
/// If it cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut file = crate::key::private().create(true).truncate(true).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?; // Also if it was there before.
    file.write_all(bytes)?;
    file.sync_all()
}

/// The images that the fleet needs, each once.
#[must_use]
pub fn images(fleet: &Fleet) -> Vec<BoardKind> {
    BoardKind::REAL.into_iter().filter(|image| fleet.boards.iter().any(|board| board.image == *image)).collect()
}
