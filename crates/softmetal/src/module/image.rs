//! Where a loaded library lies in memory.

use std::ffi::c_void;
use std::ops::Range;

/// The addresses of a library's code and data.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// What file addresses are relative to.
    pub(crate) base: usize,
    /// From the first to behind the last loaded byte.
    pub(crate) range: Range<usize>,
}

struct Search {
    address: usize,
    image: Option<Image>,
    thread_storage: Range<usize>,
}

impl Image {
    /// The image that holds an address.
    pub(crate) fn of(address: usize) -> Option<Image> {
        search(address).image
    }
}

/// The calling thread's copy of the thread-local data of the image that holds `address`.
pub(crate) fn thread_storage(address: usize) -> Range<usize> {
    search(address).thread_storage
}

fn search(address: usize) -> Search {
    let mut search = Search {
        address,
        image: None,
        thread_storage: 0..0,
    };
    // SAFETY: the callback gets `search`, alive and not otherwise used during the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> i32 {
    // SAFETY: the loader passes a valid description; `search` is ours.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the loader gives the count beside the array.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let base = info.dlpi_addr as usize;
    let loaded = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let ranges = loaded.map(|header| {
        base + header.p_vaddr as usize..base + (header.p_vaddr + header.p_memsz) as usize
    });
    let Some(range) = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) else {
        return 0;
    };
    if !range.contains(&search.address) {
        return 0;
    }
    search.image = Some(Image { base, range });
    let local = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    let start = info.dlpi_tls_data.addr();
    if let Some(local) = local.filter(|_| start != 0) {
        search.thread_storage = start..start + local.p_memsz as usize;
    }
    1
}
