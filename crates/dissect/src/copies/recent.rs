//! Recent frames, found by their digests.

use super::trial::TapOffsets;
use super::way::WayBetweenTaps;
use super::{CopyPlace, EarlyFrame, FrameNovelty};
use crate::limits;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A frame as it was seen at one place.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    pub digest: u64,
    /// Source and destination.
    pub ends: [SocketAddr; 2],
    pub place: CopyPlace,
    pub time_ns: u64,
    /// Has an IP id, which a sender does not use again soon.
    pub has_id: bool,
}

impl Sighting {
    /// Returns what repeats of a frame at one place have in common.
    fn key(&self) -> (u64, [SocketAddr; 2], CopyPlace) {
        (self.digest, self.ends, self.place)
    }
}

#[derive(Debug, Default)]
pub struct RecentFrames {
    /// New frames, oldest first, and whether one like it preceded it at the same place.
    frames: VecDeque<(Sighting, bool)>,
    /// Number of the oldest of them.
    oldest: u64,
    /// Numbers of frames by digest.
    numbers: HashTable<u64>,
    /// How many of them are known by their headers alone.
    by_headers: usize,
    pub way: WayBetweenTaps,
}

impl RecentFrames {
    /// Returns the frames of the only place so far, of which the headers were kept.
    pub fn from_early<'a>(early: impl Iterator<Item = &'a (EarlyFrame, u64)>, place: CopyPlace) -> Self {
        let mut recent = Self::default();
        for &(ref kept, time_ns) in early {
            let (digest, ends) = kept.key();
            recent.remember(Sighting { digest, ends, place, time_ns, has_id: false }, false);
        }
        recent.by_headers = recent.frames.len();
        recent
    }

    /// Compares a frame with the recent ones, and remembers it if it is new. `tap` is the tap that saw it, if that repeats frames.
    pub fn compare(
        &mut self,
        sighting: Sighting,
        of_headers: impl FnOnce() -> u64,
        tap: Option<&mut TapOffsets>,
    ) -> FrameNovelty {
        let by_headers =
            if self.by_headers > 0 { self.like(&Sighting { digest: of_headers(), ..sighting }) } else { None };
        let like = self.like(&sighting).or(by_headers);
        let is_again = match like {
            Some((first, _)) if first.ends != sighting.ends => return FrameNovelty::Translated(first.ends),
            Some((first, _)) if first.place != sighting.place => {
                self.way.passed(&first, &sighting);
                return FrameNovelty::Copy;
            }
            Some((first, _)) => {
                let offset_ns = sighting.time_ns.abs_diff(first.time_ns);
                if tap.is_some_and(|tap| tap.is_copy(offset_ns, sighting.has_id)) {
                    return FrameNovelty::Copy;
                }
                true
            }
            None => {
                tap.into_iter().for_each(TapOffsets::count_new);
                false
            }
        };
        self.remember(sighting, is_again);
        FrameNovelty::New
    }

    /// Returns whether the remembered frame with this digest and these ends repeated another one.
    pub fn has(&self, digest: u64, ends: [SocketAddr; 2]) -> bool {
        self.find(digest, |frame| frame.ends == ends).is_some_and(|(_, is_again)| is_again)
    }

    /// Returns the frame that this one is like: between the same ends, or at another place between any.
    fn like(&self, sighting: &Sighting) -> Option<(Sighting, bool)> {
        let is_near = |first: &Sighting| sighting.time_ns.abs_diff(first.time_ns) <= limits::COPY_NS;
        self.find(sighting.digest, |first| first.ends == sighting.ends && is_near(first)).or_else(|| {
            self.find(sighting.digest, |first| {
                first.place != sighting.place && first.ends != sighting.ends && is_near(first)
            })
        })
    }

    fn find(&self, digest: u64, is_wanted: impl Fn(&Sighting) -> bool) -> Option<(Sighting, bool)> {
        let is_so =
            |number: &u64| self.at(*number).is_some_and(|(frame, _)| frame.digest == digest && is_wanted(frame));
        self.numbers.find(digest, is_so).and_then(|&number| self.at(number)).copied()
    }

    fn at(&self, number: u64) -> Option<&(Sighting, bool)> {
        self.frames.get(usize::try_from(number.checked_sub(self.oldest)?).ok()?)
    }

    fn remember(&mut self, sighting: Sighting, is_again: bool) {
        if self.frames.len() >= limits::COMPARED
            || self.frames.front().is_some_and(|(oldest, _)| {
                self.frames.len() >= limits::COPIES && sighting.time_ns.saturating_sub(oldest.time_ns) > limits::COPY_NS
            })
        {
            self.forget_oldest();
        }
        let Self { frames, oldest, numbers, .. } = self;
        let number = *oldest + frames.len() as u64;
        let kept_at = |number: &u64| frames.get((*number - *oldest) as usize).map(|(kept, _)| kept);
        let is_older = |number: &u64| kept_at(number).is_some_and(|kept| kept.key() == sighting.key());
        if let Some(kept) = numbers.find_mut(sighting.digest, is_older) {
            *kept = number;
        } else {
            numbers.insert_unique(sighting.digest, number, |number| kept_at(number).map_or(0, |kept| kept.digest));
        }
        frames.push_back((sighting, is_again));
    }

    pub fn forget_latest(&mut self) {
        let Some((latest, _)) = self.frames.pop_back() else { return };
        let number = self.oldest + self.frames.len() as u64;
        let before = self.frames.iter().rposition(|(kept, _)| kept.key() == latest.key());
        if let Ok(mut entry) = self.numbers.find_entry(latest.digest, |kept| *kept == number) {
            match before {
                Some(at) => *entry.get_mut() = self.oldest + at as u64,
                None => drop(entry.remove()),
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some((oldest, _)) = self.frames.pop_front() else { return };
        let number = self.oldest;
        if let Ok(entry) = self.numbers.find_entry(oldest.digest, |kept| *kept == number) {
            entry.remove();
        }
        self.oldest += 1;
        self.by_headers = self.by_headers.saturating_sub(1);
    }
}
