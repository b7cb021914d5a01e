//! Frames on their way from the capturing thread to the dissecting one.

use overhead_capture::live::Background;
use overhead_model::Frame;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};

/// Bytes of frames that are handed over together, at least.
const BYTES: usize = 256 << 10;
/// Frames that are, where they are small.
const FRAMES: usize = 1 << 10;
/// Batches there may be: 32 MB of frames, as much as half a second of a busy loopback.
const MOST: usize = 128;
/// Batches from which on the dissecting thread is to hurry.
const MANY: usize = MOST / 2;

/// Frames that own their bytes, in order.
#[derive(Debug, Default)]
struct Batch {
    frames: Vec<(Frame<'static>, Range<usize>)>,
    bytes: Vec<u8>,
    /// Somebody asked how far the dissection is, once it is here.
    asked: bool,
}

impl Batch {
    fn push(&mut self, frame: &Frame<'_>) {
        let Frame { time_ns, link, original_len, interface, bytes } = *frame;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let without = Frame { time_ns, link, original_len, interface, bytes: &[] };
        self.frames.push((without, start..self.bytes.len()));
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BYTES || self.frames.len() >= FRAMES
    }

    fn for_each(&self, mut take: impl FnMut(&Frame<'_>)) {
        for (frame, range) in &self.frames {
            take(&Frame { bytes: self.bytes.get(range.clone()).unwrap_or_default(), ..*frame });
        }
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.bytes.clear();
        self.asked = false;
    }
}

/// A queue's two ends.
pub fn queue() -> (Inlet, Outlet) {
    let ((full, to_dissect), (done, empty), background) = (channel(), channel(), Background::default());
    let inlet = Inlet { filling: Batch::default(), full, empty, made: 1, background: background.clone() };
    (inlet, Outlet { to_dissect, done, background })
}

/// Where frames are put in.
pub struct Inlet {
    filling: Batch,
    full: Sender<Batch>,
    empty: Receiver<Batch>,
    /// Batches there are.
    made: usize,
    background: Background,
}

impl Inlet {
    /// Puts a frame in. Waits where the other end is too far behind.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) {
        self.filling.push(frame);
        if self.filling.is_full() {
            self.hand_over();
        }
    }

    /// Lets the other end have what was put in so far.
    pub fn hand_over(&mut self) {
        if !self.filling.frames.is_empty() || self.filling.asked {
            let spare = self.spare();
            // Where nobody is there any more, its thread has failed, which the end of the capture shows.
            let _ = self.full.send(std::mem::replace(&mut self.filling, spare));
        }
    }

    /// Lets the other end know that somebody asks for the figures of all that was put in so far.
    pub fn ask(&mut self) {
        self.background.hurry();
        self.filling.asked = true;
        self.hand_over();
    }

    fn spare(&mut self) -> Batch {
        if let Ok(batch) = self.empty.try_recv() {
            return batch;
        }
        if self.made >= MANY {
            self.background.hurry();
        }
        if self.made < MOST {
            self.made += 1;
            return Batch::default();
        }
        self.empty.recv().unwrap_or_default()
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.hand_over();
        self.background.hurry();
    }
}

/// Where frames are taken out, by a thread that runs in the background as long as it keeps up.
pub struct Outlet {
    to_dissect: Receiver<Batch>,
    done: Sender<Batch>,
    background: Background,
}

impl Outlet {
    /// Hands every frame to `take`, and calls `pause` after each batch, with whether somebody asked for the figures there,
    /// until the other end is dropped. `in_background` says whether nobody waits for the figures.
    pub fn drain<T>(
        self,
        in_background: bool,
        state: &mut T,
        take: impl Fn(&mut T, &Frame<'_>),
        pause: impl Fn(&mut T, bool),
    ) {
        if in_background {
            self.background.enter();
        }
        while let Ok(mut batch) = self.next() {
            batch.for_each(|frame| take(state, frame));
            let asked = batch.asked;
            batch.clear();
            // Nobody waits for it at the end.
            let _ = self.done.send(batch);
            pause(state, asked);
        }
    }

    fn next(&self) -> Result<Batch, RecvError> {
        match self.to_dissect.try_recv() {
            Ok(batch) => Ok(batch),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => {
                self.background.relax();
                self.to_dissect.recv()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::LinkType;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let (mut inlet, outlet) = queue();
        let thread = std::thread::spawn(move || {
            let mut out = Vec::new();
            outlet.drain(true, &mut out, |out, frame| out.push((frame.time_ns, frame.bytes.to_vec())), |_, _| {});
            out
        });
        let frames: Vec<(u64, Vec<u8>)> = (0..300_000_u64).map(|n| (n, vec![n as u8; n as usize % 300])).collect();
        for (time_ns, bytes) in &frames {
            let (original_len, link) = (bytes.len() as u32, LinkType::ETHERNET);
            inlet.push(&Frame { time_ns: *time_ns, link, original_len, interface: 0, bytes });
        }
        drop(inlet);
        assert_eq!(thread.join().unwrap(), frames);
    }

    #[test]
    fn a_question_is_answered_once_all_frames_before_it_are_taken() {
        let (mut inlet, outlet) = queue();
        let (answers, answered) = channel();
        let thread = std::thread::spawn(move || {
            let answer = |seen: &mut u64, asked: bool| {
                if asked {
                    answers.send(*seen).unwrap();
                }
            };
            outlet.drain(true, &mut 0_u64, |seen, _| *seen += 1, answer);
        });
        let frame = Frame { time_ns: 0, link: LinkType::ETHERNET, original_len: 1, interface: 0, bytes: &[0] };
        for (frames, expected) in [(0, 0), (3, 3), (0, 3)] {
            (0..frames).for_each(|_| inlet.push(&frame));
            inlet.ask();
            assert_eq!(answered.recv(), Ok(expected), "without waiting for a full batch");
        }
        drop(inlet);
        thread.join().unwrap();
    }
}
