//! A model hub on the loopback interface: one repository's listing, and files with byte ranges.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A file that the hub serves.
#[derive(Clone)]
pub struct File {
    pub path: &'static str,
    pub content: Vec<u8>,
    /// The checksum in the listing.
    pub sha256: String,
    /// Bytes after which a connection is cut.
    pub cut: usize,
}

/// A running hub. Its thread ends with the test process.
pub struct Hub {
    pub endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    /// Serves `files` as the repository `repo`; any other repository is private.
    pub fn start(repo: &'static str, files: Vec<File>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that goes away in the middle is part of some tests.
                let _ = answer(stream, repo, &files, &log);
            }
        });
        Hub {
            endpoint: format!("http://{address}"),
            requests,
        }
    }

    /// `PATH RANGE` of the requests for files so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic in the hub").clone()
    }
}

fn answer(
    stream: TcpStream,
    repo: &str,
    files: &[File],
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut start = 0;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            start = range.trim_end_matches('-').parse().unwrap_or(0);
        }
    }
    if target.starts_with(&format!("/api/models/{repo}")) {
        return send(stream, "200 OK", "", listing(files).as_bytes());
    }
    let file = files
        .iter()
        .find(|file| target == format!("/{repo}/resolve/main/{}", file.path));
    let Some(file) = file else {
        return send(stream, "401 Unauthorized", "", b"{}");
    };
    log.lock()
        .expect("no panic in the hub")
        .push(format!("{} {start}", file.path));
    let total = file.content.len();
    let range = format!("Content-Range: bytes {start}-{}/{total}\r\n", total - 1);
    send_cut(stream, &range, &file.content[start..], file.cut)
}

fn listing(files: &[File]) -> String {
    let siblings: Vec<_> = files
        .iter()
        .map(|file| {
            let size = file.content.len();
            serde_json::json!({
                "rfilename": file.path,
                "size": size,
                "lfs": { "sha256": file.sha256, "size": size, "pointerSize": 134 },
            })
        })
        .collect();
    serde_json::json!({ "sha": "0", "siblings": siblings }).to_string()
}

fn send(mut stream: TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    )?;
    stream.write_all(body)
}

/// Announces all of `body` and sends only its first `cut` bytes.
fn send_cut(mut stream: TcpStream, headers: &str, body: &[u8], cut: usize) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    )?;
    stream.write_all(&body[..cut.min(length)])
}
