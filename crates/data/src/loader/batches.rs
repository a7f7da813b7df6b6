//! One pass over the rest of an epoch, with or without workers.

use super::{DataLoader, LoaderState, Source};
use crate::Dataset;
use gradus_core::{Error, Result};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

/// The batches that are left of an epoch, in order.
pub struct Batches<'a, D: Dataset + 'static, B: Send + 'static> {
    loader: &'a DataLoader<D, B>,
    start: LoaderState,
    next: u64,
    end: u64,
    order: Arc<Vec<usize>>,
    workers: Vec<Worker<B>>,
    over: bool,
}

/// A thread that makes every n-th batch, and where they arrive.
struct Worker<B> {
    batches: Option<mpsc::Receiver<Result<B>>>,
    thread: Option<JoinHandle<()>>,
}

impl<'a, D: Dataset + 'static, B: Send + 'static> Batches<'a, D, B> {
    pub(super) fn new(loader: &'a DataLoader<D, B>) -> Batches<'a, D, B> {
        let start = loader.state();
        let order = Arc::new(loader.source.order(start));
        let (next, end) = (start.batch, loader.len() as u64);
        // No more threads than batches.
        let count = (loader.source.options.num_workers as u64).min(end.saturating_sub(next));
        let workers = (0..count).map(|w| Worker::start(&loader.source, &order, start, next + w, count, end)).collect();
        Batches { loader, start, next, end, order, workers, over: false }
    }

    fn make(&mut self) -> Result<B> {
        let count = self.workers.len() as u64;
        if count == 0 {
            return self.loader.source.make(self.start, &self.order, self.next);
        }
        // Batch k comes from worker k mod n, so they arrive in order however long each takes.
        let which = (self.next - self.start.batch) % count;
        let worker = self.workers.get_mut(which as usize);
        let batches = worker.and_then(|w| w.batches.as_ref());
        match batches.map(mpsc::Receiver::recv) {
            Some(Ok(batch)) => batch,
            Some(Err(_)) | None => Err(Error::value("DataLoader", "a worker ended before its last batch")),
        }
    }
}

impl<B: Send + 'static> Worker<B> {
    fn start<D: Dataset + 'static>(
        source: &Arc<Source<D, B>>,
        order: &Arc<Vec<usize>>,
        at: LoaderState,
        first: u64,
        step: u64,
        end: u64,
    ) -> Worker<B> {
        let (send, receive) = mpsc::sync_channel(source.options.prefetch_factor);
        let (source, order) = (source.clone(), order.clone());
        let work = move || {
            for batch in (first..end).step_by(step as usize) {
                let made = catch_unwind(AssertUnwindSafe(|| source.make(at, &order, batch)));
                let made = made.unwrap_or_else(|panic| Err(panicked(batch, &*panic)));
                let failed = made.is_err();
                // Nobody listens when the iterator is gone; and after an error there is nothing to go on with.
                if send.send(made).is_err() || failed {
                    return;
                }
            }
        };
        match thread::Builder::new().name(format!("gradus-loader-{first}")).spawn(work) {
            Ok(thread) => Worker { batches: Some(receive), thread: Some(thread) },
            // The system gives no thread: said when the first batch of this worker is asked for.
            Err(_) => Worker { batches: None, thread: None },
        }
    }
}

fn panicked(batch: u64, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
    let why = format!("making batch {batch} panicked: {}", text.unwrap_or_else(|| "without a text".into()));
    Error::value("DataLoader", why)
}

impl<D: Dataset + 'static, B: Send + 'static> Iterator for Batches<'_, D, B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        if self.over {
            return None;
        }
        if self.next >= self.end {
            self.over = true;
            *self.loader.source.position() = LoaderState { epoch: self.start.epoch + 1, batch: 0, ..self.start };
            return None;
        }
        let batch = self.make();
        // After an error the iteration ends, and the place stays before the batch that failed.
        match batch {
            Ok(_) => {
                self.next += 1;
                *self.loader.source.position() = LoaderState { batch: self.next, ..self.start };
            }
            Err(_) => self.over = true,
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = if self.over { 0 } else { (self.end - self.next) as usize };
        // An error ends it early.
        (left.min(1), Some(left))
    }
}

impl<D: Dataset + 'static, B: Send + 'static> Drop for Batches<'_, D, B> {
    fn drop(&mut self) {
        // All stop listening first, so that no worker waits for room while another one is being waited for.
        self.workers.iter_mut().for_each(|w| w.batches = None);
        for thread in self.workers.iter_mut().filter_map(|w| w.thread.take()) {
            let _ = thread.join(); // its panics were caught and sent
        }
    }
}
