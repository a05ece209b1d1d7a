//! A persistent thread pool that broadcasts one closure to every worker.
//!
//! Between jobs a worker spins for a bounded time, then sleeps: the operations of one step follow each
//! other within microseconds, while an idle or oversubscribed process must give its cores back.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::topology;

/// Polls before a waiting thread sleeps: about 100 µs where a pause takes 140 cycles.
const SPINS: usize = 2000;

/// A closure whose lifetime [`Pool::run`] guards: it outlives every call because `run` returns only
/// after all workers are done with it.
type Job = &'static (dyn Fn(usize) + Sync);

/// Wakes threads that wait for an atomic condition, at no cost while they still spin.
#[derive(Default)]
struct Wake {
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    signal: Condvar,
}

impl Wake {
    /// Returns once `ready` holds. `ready` must load with `SeqCst`, and whoever makes it true must
    /// store with `SeqCst` and then call [`Wake::notify`].
    fn wait(&self, ready: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.lock);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !ready() {
            guard = self
                .signal
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn notify(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A sleeper holds the lock from its last check until it waits, so the signal is not lost.
            drop(lock(&self.lock));
            self.signal.notify_all();
        }
    }
}

#[derive(Default)]
struct Shared {
    job: Mutex<Option<Job>>,
    /// Counts jobs; a worker starts when it moves past the last one it ran.
    epoch: AtomicUsize,
    start: Wake,
    /// Workers still busy with the present job.
    busy: AtomicUsize,
    done: Wake,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Shared {
    fn call(&self, job: Job, worker: usize) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(worker))) {
            lock(&self.panic).get_or_insert(payload);
        }
    }

    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            self.start
                .wait(|| self.epoch.load(Ordering::SeqCst) != seen);
            seen = self.epoch.load(Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let job = *lock(&self.job);
            if let Some(job) = job {
                self.call(job, worker);
            }
            if self.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.done.notify();
            }
        }
    }
}

/// Threads that live as long as the pool. Shared by backends through an `Arc`; jobs of different
/// callers take turns.
pub struct Pool {
    shared: Arc<Shared>,
    /// Held by the caller for the duration of a job.
    turn: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool of `threads` workers (at least one), of which the caller of a job is one.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut pool = Pool {
            shared,
            turn: Mutex::new(()),
            workers: Vec::new(),
        };
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let handle = std::thread::Builder::new()
                .name(format!("minfer-cpu-{worker}"))
                .spawn(move || shared.work(worker))?;
            pool.workers.push(handle);
        }
        Ok(pool)
    }

    /// Physical cores this process may use: hyper-threads share the units that kernels saturate.
    pub fn default_threads() -> usize {
        topology::physical_cores()
    }

    /// Number of workers, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `job(worker)` once on every worker, `0..threads()`, worker 0 being the caller, and
    /// returns when all are done. Must not be called from within a job.
    ///
    /// # Panics
    /// With the payload of a job that panicked, after all workers are done.
    pub fn run(&self, job: impl Fn(usize) + Sync) {
        if self.workers.is_empty() {
            return job(0);
        }
        let turn = lock(&self.turn);
        let job: &(dyn Fn(usize) + Sync) = &job;
        // SAFETY: only the lifetime is extended. No worker uses the job after it has decremented
        // `busy`, and this function neither returns nor unwinds before `busy` is 0.
        let job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(job) };
        let shared = &*self.shared;
        *lock(&shared.job) = Some(job);
        shared.busy.store(self.workers.len(), Ordering::SeqCst);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        shared.start.notify();
        shared.call(job, 0);
        shared.done.wait(|| shared.busy.load(Ordering::SeqCst) == 0);
        *lock(&shared.job) = None;
        let panic = lock(&shared.panic).take();
        drop(turn);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Calls `f` for consecutive ranges of at most `chunk` that cover `0..n`, each once, on whichever
    /// worker is free. The ranges do not depend on the number of workers.
    pub fn for_each_chunk(&self, n: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
        let queue = ChunkQueue::new(n, chunk);
        if queue.chunks() <= 1 || self.workers.is_empty() {
            return queue.drain(f);
        }
        self.run(|_| queue.drain(&f));
    }

    /// [`Pool::for_each_chunk`] with exclusive scratch per worker.
    ///
    /// # Panics
    /// When there is less scratch than workers.
    pub fn for_each_chunk_with<S: Send>(
        &self,
        scratch: &mut [S],
        n: usize,
        chunk: usize,
        f: impl Fn(&mut S, Range<usize>) + Sync,
    ) {
        assert!(scratch.len() >= self.threads(), "scratch for every worker");
        let queue = ChunkQueue::new(n, chunk);
        if queue.chunks() <= 1 || self.workers.is_empty() {
            return queue.drain(|range| f(&mut scratch[0], range));
        }
        let scratch = PerWorker(scratch.as_mut_ptr());
        self.run(|worker| {
            // SAFETY: `worker` is below `threads()`, hence within the slice, and a job runs once per
            // worker, so nobody else uses this element during the job.
            let own = unsafe { scratch.get(worker) };
            queue.drain(|range| f(own, range));
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        self.shared.start.notify();
        for handle in self.workers.drain(..) {
            // A worker catches the panics of its jobs, so joining cannot fail.
            let _ = handle.join();
        }
    }
}

struct ChunkQueue {
    next: AtomicUsize,
    n: usize,
    chunk: usize,
}

impl ChunkQueue {
    fn new(n: usize, chunk: usize) -> Self {
        ChunkQueue {
            next: AtomicUsize::new(0),
            n,
            chunk: chunk.max(1),
        }
    }

    fn chunks(&self) -> usize {
        self.n.div_ceil(self.chunk)
    }

    fn drain(&self, mut f: impl FnMut(Range<usize>)) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.chunks() {
                return;
            }
            let start = index * self.chunk;
            f(start..(start + self.chunk).min(self.n));
        }
    }
}

/// Base of a slice of which each worker uses its own element.
struct PerWorker<S>(*mut S);

// SAFETY: the element, not the pointer, is what a worker gets, and `S` may move between threads.
unsafe impl<S: Send> Sync for PerWorker<S> {}

impl<S> PerWorker<S> {
    /// # Safety
    /// `worker` is within the slice, and no other reference to its element exists.
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, worker: usize) -> &mut S {
        // SAFETY: by this function's contract.
        unsafe { &mut *self.0.add(worker) }
    }
}

/// Nothing is left half-changed under these locks, so a panic elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
