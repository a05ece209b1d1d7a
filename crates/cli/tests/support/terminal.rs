//! A terminal with a program in it: what a person types and sees.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A program that hangs fails its test instead of holding it up.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// All that was printed, and how far the test has read.
    printed: String,
    read: usize,
}

impl Terminal {
    /// Starts the program with a terminal as its input, output and controlling terminal.
    pub fn start(command: &mut Command) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = File::from(rustix::fs::open(name, flags, Mode::empty()).unwrap());
        let size = Winsize {
            ws_row: 50,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&side, size).unwrap();
        command
            .env("TERM", "xterm")
            .stdin(side.try_clone().unwrap())
            .stdout(side.try_clone().unwrap())
            .stderr(side);
        // SAFETY: between fork and exec only two system calls are made, which allocate nothing.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // The command would keep the program's side open, and with it the screen.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        let keyboard = File::from(main);
        let screen = read_in_background(keyboard.try_clone().unwrap());
        Self {
            child,
            keyboard,
            screen,
            printed: String::new(),
            read: 0,
        }
    }

    /// Presses keys.
    pub fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` is printed after what the test has read; what came before it.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            let unread = &self.printed[self.read..];
            if let Some(at) = unread.find(text) {
                let before = unread[..at].to_owned();
                self.read += at + text.len();
                return before;
            }
            assert!(self.receive(), "no {text:?} in {:?}", self.printed);
        }
    }

    /// Waits until the program ends; its exit status and all that it printed.
    pub fn wait(mut self) -> (Option<i32>, String) {
        while self.receive() {}
        let status = self.child.wait().unwrap();
        (status.code(), std::mem::take(&mut self.printed))
    }

    /// Reads on; false at the end.
    fn receive(&mut self) -> bool {
        match self.screen.recv_timeout(PATIENCE) {
            Ok(bytes) => {
                self.printed.push_str(&String::from_utf8_lossy(&bytes));
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => {
                panic!("nothing is printed any more after {:?}", self.printed)
            }
        }
    }
}

impl Drop for Terminal {
    /// A failed test leaves no program behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the program's side is closed, which Linux reports as an error.
fn read_in_background(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        loop {
            match screen.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => drop(sender.send(bytes[..count].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    receiver
}
