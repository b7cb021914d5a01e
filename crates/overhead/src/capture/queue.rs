//! The queue of frames from the capturing thread to the dissecting thread.

use super::frames::FrameBatch;
use crate::queue;
use overhead_capture::live::IdlePriority;
use overhead_model::Frame;

/// Maximum number of batches: 32 MB of frames, half a second of a busy loopback. If half of them are in use, the
/// dissecting thread hurries. That half is allocated at the start.
const MOST: usize = 128;

/// Returns both ends of a queue.
pub fn queue() -> (LiveInlet, LiveOutlet) {
    let ((inlet, outlet), background) = (queue::queue(MOST), IdlePriority::default());
    (LiveInlet { inlet: inlet.keeping(MOST / 2), background: background.clone() }, LiveOutlet { outlet, background })
}

/// The end that takes frames in.
pub struct LiveInlet {
    inlet: queue::QueueInlet<FrameBatch>,
    background: IdlePriority,
}

impl LiveInlet {
    /// Adds a frame. Blocks if the other end is too far behind.
    #[inline]
    pub fn push(&mut self, frame: &Frame<'_>) {
        let frames = self.inlet.filling();
        frames.push(frame);
        if frames.is_full() {
            self.hand_over();
        }
    }

    /// Makes the frames so far available to the other end.
    pub fn hand_over(&mut self) {
        self.inlet.hand_over();
        if self.inlet.is_half_full() {
            self.background.hurry();
        }
    }

    /// Asks the other end for the figures of all frames so far.
    pub fn ask(&mut self) {
        self.background.hurry();
        self.inlet.filling().asked = true;
        self.hand_over();
    }
}

impl Drop for LiveInlet {
    fn drop(&mut self) {
        self.hand_over();
        self.background.hurry();
    }
}

/// The end that hands frames out, to a thread that runs in the background as long as it keeps up.
pub struct LiveOutlet {
    outlet: queue::QueueOutlet<FrameBatch>,
    background: IdlePriority,
}

impl LiveOutlet {
    /// Passes each frame to `take` until the other end is dropped. Calls `pause` after each batch, with whether figures
    /// were requested there. `in_background` says that nobody waits for the figures.
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
        let relax = || self.background.relax();
        self.outlet.drain(relax, |batch| {
            batch.for_each(|frame| take(state, frame));
            pause(state, batch.asked);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::LinkType;
    use std::sync::mpsc::channel;

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
