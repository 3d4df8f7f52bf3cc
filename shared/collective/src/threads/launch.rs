//! Starting ranks as threads, and what becomes of them.

use super::endpoint::{Endpoint, Seat};
use super::stream::Stream;
use super::world::World;
use crate::error::Cause;
use crate::traffic::Counter;
use crate::{Algorithm, Clock, ClockKind, Communicator, Error, Failure, Result, Topology, Traffic};
use ledger::{Kind, Ledger, Observer};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How ranks are started.
#[derive(Clone, Debug)]
pub struct Options {
    /// How collective operations are done.
    pub algorithm: Algorithm,
    /// Nodes and links.
    pub topology: Topology,
    /// What counts as time.
    pub clock: ClockKind,
    /// Whether each rank's clock keeps its timeline.
    pub timeline: bool,
    /// The size of each rank's virtual device, in bytes.
    pub device_memory: Option<u64>,
    /// Each rank's stack, in bytes: candle sorts a graph by recursion. Only what is touched takes memory.
    pub stack: usize,
}

impl Default for Options {
    /// Ring, wall clock, stacks of 64 MiB.
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Ring,
            topology: Topology::default(),
            clock: ClockKind::Wall,
            timeline: false,
            device_memory: None,
            stack: 64 << 20,
        }
    }
}

impl Options {
    fn check(&self, world: usize) -> Result<()> {
        let wrong =
            |name, found: String, expected: &str| Err(Error::Setting { name, found, expected: expected.to_owned() });
        if world == 0 {
            return wrong("ranks", "0".to_owned(), "at least 1");
        }
        if self.algorithm == Algorithm::Direct && self.clock.models_links() {
            let found = "direct under a clock with links".to_owned();
            return wrong(
                "algorithm",
                found,
                "ring, tree or hierarchical: direct sends no messages that a link could time; or --clock wall",
            );
        }
        if self.stack < 64 << 10 {
            return wrong("stack", self.stack.to_string(), "at least 64 KiB");
        }
        self.topology.check()?;
        self.clock.check()
    }
}

/// What a rank gets: its place in the world, and what counts for it.
pub struct Rank {
    communicator: Arc<dyn Communicator>,
    ledger: Ledger,
    seat: Arc<Seat>,
    limited: bool,
}

impl Rank {
    /// Its number: 0 to size − 1.
    pub fn rank(&self) -> usize {
        self.seat.rank
    }

    /// Ranks of the world.
    pub fn size(&self) -> usize {
        self.communicator.size()
    }

    /// The group of all ranks.
    pub fn communicator(&self) -> &Arc<dyn Communicator> {
        &self.communicator
    }

    /// The bytes it holds.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Its clock.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.seat.clock
    }

    /// What is to hear of its computing: the clock, and the limit of its virtual device if it has one.
    pub fn observer(&self) -> Arc<dyn Observer> {
        let mut all: Vec<Arc<dyn Observer>> = vec![self.seat.clock.clone()];
        if self.limited {
            all.push(Arc::new(ledger::Limit));
        }
        Arc::new(ledger::All(all))
    }

    /// Its traffic in all groups.
    pub fn traffic(&self) -> Traffic {
        self.seat.traffic.read()
    }
}

/// Runs `body` on `world` ranks, each a thread with a name, a stack, a ledger and a one-thread rayon pool of its own;
/// returns what each returned, in order of rank. All threads have ended when it returns.
///
/// For a rank to be one core, candle must compute on the calling thread: `RAYON_NUM_THREADS=1` and
/// `CANDLE_NUM_THREADS=1` before the first thread starts (`lab::startup::set_threads`).
///
/// # Errors
/// [`Error::Failed`] with the first thing that went wrong on any rank: it returned an error, panicked, asked for
/// something else than its group, waits in a circle, or left while others wait for it. [`Error::Setting`],
/// [`Error::Ledger`], [`Error::Thread`] before that.
pub fn launch<T, E>(world: usize, options: &Options, body: impl Fn(&Rank) -> Result<T, E> + Sync) -> Result<Vec<T>>
where
    T: Send,
    E: Into<Cause>,
{
    options.check(world)?;
    let shared = Arc::new(World::new(world));
    let everybody: Arc<[usize]> = (0..world).collect();
    let ledgers: Vec<_> = (0..world).map(|rank| claim(rank, options)).collect::<Result<_>>()?;
    let results: Vec<_> = (0..world).map(|_| Mutex::new(None)).collect();
    let (body, everybody, results) = (&body, &everybody, &results);
    let started: Result<()> = thread::scope(|scope| {
        for (rank, ledger) in ledgers.into_iter().enumerate() {
            let shared_here = shared.clone();
            let start = move || {
                let live = || live(rank, &shared_here, everybody, options, ledger.clone(), body);
                let outcome = in_own_pool(rank, options.stack, &ledger, live);
                match outcome {
                    Ok(result) => *results[rank].lock().unwrap_or_else(PoisonError::into_inner) = result,
                    Err(error) => shared_here.abort(Failure::Error { rank, cause: Box::new(error) }),
                }
            };
            // This thread only waits for the rank's own.
            let name = format!("launch of rank {rank}");
            let spawned = thread::Builder::new().name(name.clone()).stack_size(256 << 10).spawn_scoped(scope, start);
            if let Err(error) = spawned {
                let error = Error::Thread { thread: name, problem: error.to_string() };
                let message = error.to_string();
                shared.abort(Failure::Error { rank, cause: message.into() });
                return Err(error);
            }
        }
        Ok(())
    });
    started?;
    if let Some(failure) = shared.failure() {
        return Err(Error::Failed(failure));
    }
    let results = results.iter().map(|result| result.lock().unwrap_or_else(PoisonError::into_inner).take());
    results
        .collect::<Option<_>>()
        .ok_or_else(|| candle_core::Error::Msg("a rank ended without a result".to_owned()).into())
}

fn claim(rank: usize, options: &Options) -> Result<Ledger> {
    let ledger = Ledger::claim(&format!("rank {rank}"))?;
    ledger.set_limit(options.device_memory)?;
    Ok(ledger)
}

/// Runs `work` on the only thread of a new rayon pool: what it computes in parallel stays on its own core.
fn in_own_pool<R: Send>(rank: usize, stack: usize, ledger: &Ledger, work: impl FnOnce() -> R + Send) -> Result<R> {
    // Not `use_current_thread`: rayon leaks such a pool, and the rank's ledger would never become empty.
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(1).stack_size(stack).thread_name(move |_| format!("rank {rank}"));
    let enter = |thread: rayon::ThreadBuilder| {
        let _ledger = ledger.enter();
        thread.run();
    };
    let done = pool.build_scoped(enter, |pool| pool.install(work));
    done.map_err(|error| Error::Thread { thread: format!("rank {rank}"), problem: error.to_string() })
}

/// The life of one rank: its result, or none if it failed.
fn live<T, E: Into<Cause>>(
    rank: usize,
    world: &Arc<World>,
    everybody: &Arc<[usize]>,
    options: &Options,
    ledger: Ledger,
    body: &(impl Fn(&Rank) -> Result<T, E> + Sync),
) -> Option<T> {
    let seat = {
        let _host = ledger::scope(Kind::Host);
        Arc::new(Seat {
            rank,
            world: world.clone(),
            topology: options.topology,
            algorithm: options.algorithm,
            clock: Arc::new(Clock::new(options.clock, options.timeline)),
            stream: Stream::new(format!("communication of rank {rank}"), ledger.clone()),
            traffic: Counter::default(),
        })
    };
    let communicator = Arc::new(Endpoint::new(0, everybody.clone(), seat.clone())?);
    let rank_context = Rank { communicator, ledger, seat: seat.clone(), limited: options.device_memory.is_some() };
    seat.clock.now();
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&rank_context)));
    let result = match outcome {
        Ok(Ok(result)) => Some(result),
        Ok(Err(error)) => {
            world.abort(Failure::Error { rank, cause: error.into() });
            None
        }
        Err(panic) => {
            world.explain_panic(rank, &panic_message(panic.as_ref()));
            None
        }
    };
    seat.stream.close();
    world.finish(rank);
    result
}

/// The text that `panic!` was given.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
