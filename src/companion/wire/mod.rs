//! A wire: the standard input and output of a program that leads to a host, such as ssh.
//!
//! Over it a shell there gets a script, which starts the keeper, `keeper.mjs`. Clients on the host
//! connect to the keeper, and their connections come as channels of the wire. What a host sends is
//! not trusted: all of it is bounded, and a wire that breaks the rules ends.

mod frames;
mod mux;
mod program;

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};

use crate::bridge::{Bridge, Event, WireEnd, WireId};
use crate::lock::lock;
use frames::{Broken, Frame, Incoming};
use mux::{Mux, Outbox, outbox};
use program::Program;

/// What the keeper writes before its first frame.
const FRAMES: &str = "gemini-companion: frames";
/// Bytes of text that a host may send in all, so that it cannot fill the log; and as many in answer to
/// each message.
const MAX_ALL_TEXT: usize = 64 << 10;
/// The least that a line or a message counts, in bytes: it takes Emacs time, however short it is.
const MIN_TEXT: usize = 64;
/// Bytes of a message for the keeper.
const MAX_MESSAGE: usize = 1 << 20;
/// Time between two questions to the keeper whether it is there, and how many it may leave unanswered.
/// Time alone would prove nothing: Emacs itself may have been stopped.
const PING: Duration = Duration::from_secs(2);
const MAX_UNANSWERED: u32 = 4;
/// How long others may go on to write to the standard error of a program that has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long its exit status is waited for: it may have closed its standard input alone.
const FAREWELL: Duration = Duration::from_secs(10);

/// The wires that are open.
#[derive(Default)]
pub(crate) struct Wires {
    last: AtomicI64,
    open: Mutex<HashMap<WireId, mpsc::UnboundedSender<String>>>,
}

impl Wires {
    /// A wire by `command`, whose shell is to run `script`.
    pub(crate) fn open(
        self: &Arc<Self>,
        bridge: Arc<Bridge>,
        command: Command,
        script: String,
    ) -> (WireId, Wire) {
        let id = WireId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, messages) = mpsc::unbounded_channel();
        lock(&self.open).insert(id, sender);
        let wires = self.clone();
        (id, Wire { id, bridge, wires, command, script, messages, text_left: MAX_ALL_TEXT })
    }

    /// Sends `message`, a JSON object, to the keeper. Returns false if the wire has ended.
    pub(crate) fn send(&self, id: WireId, message: String) -> bool {
        let open = lock(&self.open);
        message.len() <= MAX_MESSAGE
            && open.get(&id).is_some_and(|messages| messages.send(message).is_ok())
    }

    /// Ends a wire: the keeper cleans up. No event follows.
    pub(crate) fn close(&self, id: WireId) {
        lock(&self.open).remove(&id);
    }

    pub(crate) fn close_all(&self) {
        lock(&self.open).clear();
    }
}

/// A wire that is to be run.
pub(crate) struct Wire {
    id: WireId,
    bridge: Arc<Bridge>,
    wires: Arc<Wires>,
    command: Command,
    script: String,
    /// For the keeper; they end when Lisp closes the wire.
    messages: mpsc::UnboundedReceiver<String>,
    /// Bytes of text that may still come.
    text_left: usize,
}

/// How a wire comes to its end.
enum End {
    /// The standard output of its program has ended.
    OfOutput,
    /// Lisp has closed it.
    Closed,
    Fault(WireEnd),
}

impl Wire {
    /// Runs the wire until it ends. `serve` serves its channels, see `Mux`.
    pub(crate) async fn run(mut self, serve: impl FnMut(&str, DuplexStream) -> bool) {
        let command = std::mem::replace(&mut self.command, Command::new(""));
        // That takes a while if Emacs has much memory.
        match tokio::task::spawn_blocking(move || Program::start(command)).await {
            Ok(Ok(program)) => self.serve(program, serve).await,
            Ok(Err(error)) => self.end(WireEnd::NotStarted(error.to_string())),
            Err(_) => {} // the server stops
        }
    }

    async fn serve(&mut self, program: Program, serve: impl FnMut(&str, DuplexStream) -> bool) {
        let Program { input, output, errors, status, mut kept } = program;
        let (mut incoming, mut complaints) = (Incoming::new(output), Incoming::new(errors));
        let script = std::mem::take(&mut self.script).into_bytes();
        let _ = input.send(script).await; // it may have ended already
        let end = match self.wait_for_frames(&mut incoming, &mut complaints).await {
            Ok(()) => {
                kept.has_keeper = true;
                self.exchange_frames(&mut incoming, &mut complaints, input, serve).await
            }
            Err(end) => end,
        };
        let end = match end {
            End::OfOutput => self.tell_last_words(&mut complaints).await.err().unwrap_or(end),
            other => other,
        };
        match end {
            End::Closed => {}
            End::Fault(fault) => self.end(fault),
            End::OfOutput => {
                let status = timeout(FAREWELL, status).await.ok().and_then(Result::ok);
                self.end(WireEnd::Exited(status.flatten()));
            }
        }
    }

    /// Waits until the keeper is there.
    async fn wait_for_frames(
        &mut self,
        incoming: &mut Incoming,
        complaints: &mut Incoming,
    ) -> Result<(), End> {
        loop {
            tokio::select! {
                line = incoming.line() => match line {
                    Some(line) if line == FRAMES => return Ok(()),
                    Some(line) => self.tell_line(line)?,
                    None => return Err(End::OfOutput),
                },
                Some(line) = complaints.line() => self.tell_line(line)?,
                // There is nobody yet to take one.
                message = self.messages.recv() => message.map(drop).ok_or(End::Closed)?,
            }
        }
    }

    async fn exchange_frames(
        &mut self,
        incoming: &mut Incoming,
        complaints: &mut Incoming,
        input: mpsc::Sender<Vec<u8>>,
        serve: impl FnMut(&str, DuplexStream) -> bool,
    ) -> End {
        let (outbox, outgoing) = outbox();
        let mut mux = Mux::new(outbox.clone(), serve);
        let end = tokio::select! {
            end = self.take_frames(incoming, complaints, &outbox, &mut mux) => end,
            () = outgoing.write_to(input) => Ok(()), // its program has ended, or will
        };
        end.err().unwrap_or(End::OfOutput)
    }

    async fn take_frames(
        &mut self,
        incoming: &mut Incoming,
        complaints: &mut Incoming,
        outbox: &Outbox,
        mux: &mut Mux<impl FnMut(&str, DuplexStream) -> bool>,
    ) -> Result<(), End> {
        let mut unanswered = 0;
        let mut ping = interval(PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                frame = incoming.frame() => {
                    unanswered = 0;
                    match frame? {
                        Some(Frame::Text(message)) => {
                            self.tell(Event::WireMessage { wire: self.id, message })?;
                        }
                        Some(frame) => mux.take(frame)?,
                        None => return Ok(()),
                    }
                }
                // Over weeks there may be many: the other half is for the keeper.
                Some(line) = complaints.line() => if self.text_left > MAX_ALL_TEXT / 2 {
                    self.tell_line(line)?;
                },
                message = self.messages.recv() => {
                    outbox.send_first(Frame::Text(message.ok_or(End::Closed)?))?;
                    self.text_left += MAX_ALL_TEXT;
                }
                _ = ping.tick() => {
                    if unanswered == MAX_UNANSWERED {
                        return Err(End::Fault(WireEnd::Silent));
                    }
                    unanswered += 1;
                    outbox.send_first(Frame::Ping)?;
                }
            }
        }
    }

    /// Tells Lisp how it has ended, unless Lisp has ended it.
    fn end(&mut self, end: WireEnd) {
        if lock(&self.wires.open).remove(&self.id).is_some() {
            self.bridge.send(Event::WireEnded { wire: self.id, end });
        }
    }

    fn tell_line(&mut self, line: String) -> Result<(), End> {
        self.tell(Event::WireLine { wire: self.id, line })
    }

    fn tell(&mut self, event: Event) -> Result<(), End> {
        let left = self.text_left.checked_sub(event.size().max(MIN_TEXT));
        self.text_left = left.ok_or(End::Fault(WireEnd::Flooded))?;
        self.bridge.send(event);
        Ok(())
    }

    /// Tells what the program writes at its end.
    async fn tell_last_words(&mut self, complaints: &mut Incoming) -> Result<(), End> {
        let deadline = Instant::now() + LAST_WORDS;
        while let Ok(Some(line)) = timeout_at(deadline, complaints.line()).await {
            self.tell_line(line)?;
        }
        Ok(())
    }
}

impl Drop for Wire {
    /// The server stops, or has died.
    fn drop(&mut self) {
        self.end(WireEnd::Exited(None));
    }
}

impl From<Broken> for End {
    fn from(_: Broken) -> End {
        End::Fault(WireEnd::Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    /// A wire whose program is never started.
    fn unused_wire() -> Wire {
        let bridge = Arc::new(Bridge::new(&Limits::default()));
        Arc::new(Wires::default()).open(bridge, Command::new(""), String::new()).1
    }

    /// What a program writes, and where Emacs reads it.
    fn stream() -> (mpsc::Sender<Vec<u8>>, Incoming) {
        let (bytes, chunks) = mpsc::channel(1);
        (bytes, Incoming::new(chunks))
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_says_nothing_any_more_is_given_up() {
        let mut wire = unused_wire();
        let (_output, mut incoming) = stream();
        let (_errors, mut complaints) = stream();
        let (input, mut written) = mpsc::channel(9);
        let began = Instant::now();
        let end = wire.exchange_frames(&mut incoming, &mut complaints, input, |_, _| false).await;
        assert!(matches!(end, End::Fault(WireEnd::Silent)));
        assert!(began.elapsed() < (MAX_UNANSWERED + 2) * PING);
        assert_eq!(written.try_recv(), Ok(Frame::Ping.into_bytes()));
    }

    #[tokio::test(start_paused = true)]
    #[cfg(unix)]
    async fn a_program_whose_output_ends_alone_is_given_up() {
        let mut wire = unused_wire();
        let mut command = Command::new("sleep");
        command.arg("30");
        let started = Program::start(command).unwrap();
        let program = Program { output: mpsc::channel(1).1, ..started };
        wire.serve(program, |_, _| false).await;
        let end = WireEnd::Exited(None);
        assert_eq!(wire.bridge.next_event(), Some(Event::WireEnded { wire: wire.id, end }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_is_not_given_up_because_emacs_was_stopped() {
        let mut wire = unused_wire();
        let (output, mut incoming) = stream();
        let (_errors, mut complaints) = stream();
        let (input, mut written) = mpsc::channel(9);
        let stops = async {
            for _ in 0..3 {
                assert_eq!(written.recv().await, Some(Frame::Ping.into_bytes()));
                output.send(Frame::Ping.into_bytes()).await.unwrap();
                tokio::time::sleep(PING / 2).await;
                tokio::time::advance(9 * PING).await;
            }
        };
        tokio::select! {
            _ = wire.exchange_frames(&mut incoming, &mut complaints, input, |_, _| false) => {
                panic!("given up");
            }
            () = stops => {}
        }
    }
}
