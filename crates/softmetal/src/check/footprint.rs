//! The bytes of buffers that a dispatch or copy touched.

use std::collections::BTreeMap;
use std::ops::Range;

use super::findings::Site;

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 64;

/// Bytes read and written, with examples of who did it.
#[derive(Default)]
pub(crate) struct Footprint {
    pages: BTreeMap<usize, Page>,
}

struct Page {
    read: [u64; WORDS],
    written: [u64; WORDS],
    examples: Vec<Example>,
}

/// The first access of an instruction to a page, and all bytes it touched there.
struct Example {
    site: Site,
    buffer: u64,
    bytes: Range<usize>,
}

/// A byte that two footprints share, one of which writes it.
pub(crate) struct Overlap {
    pub(crate) buffer: u64,
    pub(crate) at: usize,
    pub(crate) before: Site,
    pub(crate) now: Site,
}

impl Footprint {
    /// Adds an access to `bytes` bytes of a buffer at an address.
    pub(crate) fn add(&mut self, buffer: u64, at: usize, bytes: usize, site: Site) {
        let mut start = at;
        while start < at + bytes {
            let end = (at + bytes).min((start / PAGE + 1) * PAGE);
            let page = self.pages.entry(start / PAGE).or_insert_with(Page::new);
            page.add(buffer, start..end, site);
            start = end;
        }
    }

    /// Forgets the bytes of other buffers.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(u64) -> bool) {
        // Buffers begin on pages of their own.
        self.pages
            .retain(|_, page| page.examples.iter().any(|example| is_kept(example.buffer)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Distinct bytes read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.pages.values().map(|page| count(&page.read)).sum()
    }

    /// Distinct bytes written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.pages.values().map(|page| count(&page.written)).sum()
    }

    /// Where this footprint needs to be ordered after `before`: one example per pair of instructions.
    pub(crate) fn overlaps(&self, before: &Footprint) -> Vec<Overlap> {
        let mut found: Vec<Overlap> = Vec::new();
        for (number, page) in &self.pages {
            let Some(earlier) = before.pages.get(number) else {
                continue;
            };
            for (byte, before_writes, writes) in page.shared(earlier) {
                let at = number * PAGE + byte;
                let sites = (earlier.example(at, before_writes), page.example(at, writes));
                let (Some(before), Some(now)) = sites else {
                    continue;
                };
                let known = |overlap: &Overlap| {
                    overlap.before.pc == before.site.pc && overlap.now.pc == now.site.pc
                };
                if !found.iter().any(known) {
                    found.push(Overlap {
                        buffer: now.buffer,
                        at,
                        before: before.site,
                        now: now.site,
                    });
                }
            }
        }
        found
    }
}

impl Page {
    fn new() -> Self {
        Page {
            read: [0; WORDS],
            written: [0; WORDS],
            examples: Vec::new(),
        }
    }

    fn add(&mut self, buffer: u64, bytes: Range<usize>, site: Site) {
        let bits = if site.write {
            &mut self.written
        } else {
            &mut self.read
        };
        let first = bytes.start % PAGE;
        let end = first + bytes.len();
        let words = bits.iter_mut().enumerate();
        for (word, bits) in words.take(end.div_ceil(64)).skip(first / 64) {
            let from = first.saturating_sub(word * 64);
            let count = (end - word * 64).min(64) - from;
            *bits |= (u64::MAX >> (64 - count)) << from;
        }
        match self
            .examples
            .iter_mut()
            .find(|example| example.site.pc == site.pc && example.site.write == site.write)
        {
            Some(example) => {
                example.bytes.start = example.bytes.start.min(bytes.start);
                example.bytes.end = example.bytes.end.max(bytes.end);
            }
            None => self.examples.push(Example {
                site,
                buffer,
                bytes,
            }),
        }
    }

    /// First bytes of each run of 64 with a conflict, and whether the earlier and this side write.
    fn shared(&self, earlier: &Page) -> impl Iterator<Item = (usize, bool, bool)> {
        (0..WORDS).flat_map(move |word| {
            let both = [
                (earlier.written[word] & self.written[word], true, true),
                (earlier.written[word] & self.read[word], true, false),
                (earlier.read[word] & self.written[word], false, true),
            ];
            both.into_iter()
                .filter(|(bits, ..)| *bits != 0)
                .map(move |(bits, before, now)| {
                    (word * 64 + bits.trailing_zeros() as usize, before, now)
                })
        })
    }

    fn example(&self, at: usize, write: bool) -> Option<&Example> {
        self.examples
            .iter()
            .find(|example| example.site.write == write && example.bytes.contains(&at))
    }
}

fn count(bits: &[u64; WORDS]) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Agent;

    fn site(pc: usize, write: bool) -> Site {
        Site {
            pc,
            agent: Agent::default(),
            bytes: 4,
            write,
        }
    }

    fn footprint(accesses: &[(usize, usize, bool)]) -> Footprint {
        let mut footprint = Footprint::default();
        for &(at, bytes, write) in accesses {
            footprint.add(7, at, bytes, site(at, write));
        }
        footprint
    }

    #[test]
    fn bytes_count_once_across_pages() {
        let footprint = footprint(&[(4090, 12, false), (4094, 4, false), (4090, 3, true)]);
        assert_eq!((footprint.read_bytes(), footprint.written_bytes()), (12, 3));
    }

    #[test]
    fn bytes_of_some_buffers_are_kept() {
        let mut footprint = footprint(&[(0, 8, false)]);
        footprint.add(8, PAGE, 16, site(0, false));
        footprint.keep(|buffer| buffer == 8);
        assert_eq!(footprint.read_bytes(), 16);
        footprint.keep(|buffer| buffer == 7);
        assert!(footprint.is_empty());
    }

    #[test]
    fn only_shared_bytes_with_a_write_overlap() {
        let before = footprint(&[(0, 16, false), (32, 16, true)]);
        let overlaps = |at, bytes, write| {
            let found = footprint(&[(at, bytes, write)]).overlaps(&before);
            found
                .into_iter()
                .map(|overlap| (overlap.at, overlap.before.pc))
                .collect::<Vec<_>>()
        };
        assert_eq!(overlaps(0, 32, false), []);
        assert_eq!(overlaps(15, 4, true), [(15, 0)]);
        assert_eq!(overlaps(47, 4, false), [(47, 32)]);
        assert_eq!(overlaps(48, 4, true), []);
        assert_eq!(overlaps(8, 32, true), [(32, 32), (8, 0)]);
    }
}
