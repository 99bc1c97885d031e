//! The connections of clients on a host, as channels of one wire.
//!
//! Each end of a channel may send as many bytes as the other gives it credit for, so that one that is
//! slow does not stop the others, and little waits in memory.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{Semaphore, mpsc, watch};

use super::frames::{Broken, Frame, MAX_DATA};
use crate::lock::lock;

/// The credit with which both ends of a channel begin.
const WINDOW: u32 = 1 << 20;
/// Credit is given back in portions of at least this.
const PORTION: u32 = 64 << 10;
/// Connections of one host; the relay of a client has three.
const MAX_CHANNELS: usize = 128;
/// Frames that may wait, of those that go first, and of data.
const MAX_URGENT: usize = 1024;
const MAX_WAITING: usize = 2;

/// Where frames wait until they are written.
#[derive(Clone)]
pub struct Outbox {
    urgent: mpsc::Sender<Frame>,
    data: mpsc::Sender<Frame>,
}

/// The other end of an outbox.
pub struct Outgoing {
    urgent: mpsc::Receiver<Frame>,
    data: mpsc::Receiver<Frame>,
}

pub fn outbox() -> (Outbox, Outgoing) {
    let (urgent, first) = mpsc::channel(MAX_URGENT);
    let (data, then) = mpsc::channel(MAX_WAITING);
    (Outbox { urgent, data }, Outgoing { urgent: first, data: then })
}

impl Outbox {
    /// Sends a small frame before all data that wait. Fails if nobody reads what was sent before.
    pub fn send_first(&self, frame: Frame) -> Result<(), Broken> {
        self.urgent.try_send(frame).map_err(|_| Broken)
    }
}

impl Outgoing {
    /// Writes to `input` until that ends, or the outbox.
    pub async fn write_to(mut self, input: mpsc::Sender<Vec<u8>>) {
        loop {
            let next = tokio::select! {
                biased;
                Some(frame) = self.urgent.recv() => Some(frame),
                frame = self.data.recv() => frame,
            };
            let Some(frame) = next else { return };
            if input.send(frame.into_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The channels of a wire. `serve` is given the name of an agent and a connection of a client of it,
/// and returns false if there is no such agent.
pub struct Mux<S> {
    outbox: Outbox,
    channels: Channels,
    serve: S,
}

type Channels = Arc<Mutex<HashMap<u32, Channel>>>;

/// One connection.
struct Channel {
    /// What the client has sent and its task has not taken; in one piece, since frames may be tiny.
    received: watch::Sender<Mutex<Vec<u8>>>,
    /// How many bytes it may still send, and we.
    allowed: Arc<Semaphore>,
    credit: Arc<Semaphore>,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.credit.close();
    }
}

impl<S: FnMut(&str, DuplexStream) -> bool> Mux<S> {
    pub fn new(outbox: Outbox, serve: S) -> Mux<S> {
        Mux { outbox, channels: Channels::default(), serve }
    }

    /// Handles a frame about channels; others are none of its business.
    pub fn take(&mut self, frame: Frame) -> Result<(), Broken> {
        match frame {
            Frame::Open { channel, agent } => self.open(channel, &agent),
            Frame::Data { channel, bytes } => self.receive(channel, bytes),
            Frame::Close { channel } => {
                // Its task removes it; until then it counts, so that not too many wait for that.
                if let Some(channel) = lock(&self.channels).get_mut(&channel) {
                    channel.credit.close();
                    channel.received = watch::Sender::default();
                }
                Ok(())
            }
            Frame::Credit { channel, bytes } => self.give_credit(channel, bytes),
            Frame::Text(_) | Frame::Ping => Ok(()),
        }
    }

    fn open(&mut self, number: u32, agent: &str) -> Result<(), Broken> {
        let mut channels = lock(&self.channels);
        if channels.contains_key(&number) {
            return Err(Broken);
        }
        let (ours, theirs) = duplex(MAX_DATA);
        if channels.len() >= MAX_CHANNELS || !(self.serve)(agent, theirs) {
            return self.outbox.send_first(Frame::Close { channel: number });
        }
        let (received, bytes) = watch::channel(Mutex::default());
        let [allowed, credit] = [(); 2].map(|()| Arc::new(Semaphore::new(WINDOW as usize)));
        let channel = Channel { received, allowed: allowed.clone(), credit: credit.clone() };
        channels.insert(number, channel);
        let (from_server, to_server) = split(ours);
        let (outbox, channels) = (self.outbox.clone(), self.channels.clone());
        tokio::spawn(async move {
            let mut send_back = pin!(send_back(number, from_server, &credit, &outbox));
            tokio::select! {
                () = &mut send_back => {} // the server may never take the rest
                () = pass_on(number, bytes, to_server, &allowed, &outbox) => send_back.await,
            }
            lock(&channels).remove(&number);
        });
        Ok(())
    }

    fn receive(&mut self, number: u32, bytes: Vec<u8>) -> Result<(), Broken> {
        if bytes.is_empty() {
            return Err(Broken); // any number of these would be allowed
        }
        // One that is unknown was closed meanwhile.
        let channels = lock(&self.channels);
        let Some(channel) = channels.get(&number) else { return Ok(()) };
        let size = u32::try_from(bytes.len()).map_err(|_| Broken)?;
        channel.allowed.try_acquire_many(size).map_err(|_| Broken)?.forget();
        channel.received.send_modify(|waiting| lock(waiting).extend(bytes));
        Ok(())
    }

    fn give_credit(&mut self, number: u32, bytes: u32) -> Result<(), Broken> {
        let channels = lock(&self.channels);
        let Some(channel) = channels.get(&number) else { return Ok(()) };
        if channel.credit.available_permits() + bytes as usize > WINDOW as usize {
            return Err(Broken);
        }
        channel.credit.add_permits(bytes as usize);
        Ok(())
    }
}

impl<S> Drop for Mux<S> {
    fn drop(&mut self) {
        lock(&self.channels).clear();
    }
}

/// Passes on to the server what a client sends, until either has closed the connection.
async fn pass_on(
    channel: u32,
    mut received: watch::Receiver<Mutex<Vec<u8>>>,
    mut to_server: WriteHalf<DuplexStream>,
    allowed: &Semaphore,
    outbox: &Outbox,
) {
    let mut owed = 0;
    while received.changed().await.is_ok() {
        let bytes = std::mem::take(&mut *lock(&received.borrow()));
        if to_server.write_all(&bytes).await.is_err() {
            return;
        }
        owed += bytes.len() as u32;
        if owed >= PORTION {
            allowed.add_permits(owed as usize);
            if outbox.send_first(Frame::Credit { channel, bytes: owed }).is_err() {
                return;
            }
            owed = 0;
        }
    }
    let _ = to_server.shutdown().await;
}

/// Sends to a client what the server answers, until either has closed the connection.
async fn send_back(
    channel: u32,
    mut from_server: ReadHalf<DuplexStream>,
    credit: &Semaphore,
    outbox: &Outbox,
) {
    let mut buffer = vec![0; MAX_DATA];
    while let Ok(size @ 1..) = from_server.read(&mut buffer).await {
        // That fails once the client has closed it.
        let Ok(permits) = credit.acquire_many(size as u32).await else { break };
        permits.forget();
        let bytes = buffer[..size].to_vec();
        if outbox.data.send(Frame::Data { channel, bytes }).await.is_err() {
            return;
        }
    }
    let _ = outbox.data.send(Frame::Close { channel }).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_sends_too_much_or_nothing_breaks_the_rules() {
        let (outbox, _outgoing) = outbox();
        let mut kept = Vec::new(); // nobody reads
        let mut mux = Mux::new(outbox, |_, stream| {
            kept.push(stream);
            true
        });
        mux.take(Frame::Open { channel: 1, agent: String::new() }).unwrap();
        let mut send = |size| mux.take(Frame::Data { channel: 1, bytes: vec![0; size] });
        assert_eq!(send(0), Err(Broken));
        for _ in 0..WINDOW as usize / MAX_DATA {
            send(MAX_DATA).unwrap();
        }
        assert_eq!(send(MAX_DATA), Err(Broken));
    }

    #[tokio::test]
    async fn no_more_is_sent_than_the_client_allows() {
        let (outbox, mut outgoing) = outbox();
        let mut mux = Mux::new(outbox, |_, mut stream| {
            tokio::spawn(async move { stream.write_all(&vec![7; 3 * WINDOW as usize]).await });
            true
        });
        mux.take(Frame::Open { channel: 1, agent: String::new() }).unwrap();
        let mut sent = 0;
        while sent < WINDOW {
            let Some(Frame::Data { bytes, .. }) = outgoing.data.recv().await else { panic!() };
            sent += bytes.len() as u32;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(outgoing.data.try_recv().is_err());
        mux.take(Frame::Credit { channel: 1, bytes: PORTION }).unwrap();
        assert!(matches!(outgoing.data.recv().await, Some(Frame::Data { .. })));
        mux.take(Frame::Close { channel: 1 }).unwrap();
        while outgoing.data.recv().await != Some(Frame::Close { channel: 1 }) {}
        mux.take(Frame::Open { channel: 1, agent: String::new() }).unwrap();
    }

    #[tokio::test]
    async fn there_are_not_too_many_channels() {
        let (outbox, mut outgoing) = outbox();
        let mut mux = Mux::new(outbox, |_, _| true);
        for channel in 0..=MAX_CHANNELS as u32 {
            mux.take(Frame::Open { channel, agent: String::new() }).unwrap();
            mux.take(Frame::Close { channel }).unwrap(); // it counts until that is answered
        }
        let refused = Frame::Close { channel: MAX_CHANNELS as u32 };
        assert_eq!(outgoing.urgent.try_recv(), Ok(refused));
    }
}
