//! The frames on a wire, as `keeper.mjs` describes them, and the lines before the first frame.

use tokio::sync::mpsc;

/// Bytes of data in one frame.
pub const MAX_DATA: usize = 64 << 10;
/// Bytes of a message of the keeper.
pub const MAX_TEXT: usize = 64 << 10;
/// Bytes of the name of an agent.
const MAX_NAME: usize = 64;
const HEADER: usize = 9;

#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A client of the agent with this name has connected.
    Open {
        channel: u32,
        agent: String,
    },
    Data {
        channel: u32,
        bytes: Vec<u8>,
    },
    Close {
        channel: u32,
    },
    /// The receiver may send so many bytes more.
    Credit {
        channel: u32,
        bytes: u32,
    },
    /// A message of the keeper, or for it.
    Text(String),
    /// The other end is asked whether it is there, or answers that.
    Ping,
}

const OPEN: u8 = 0;
const DATA: u8 = 1;
const CLOSE: u8 = 2;
const CREDIT: u8 = 3;
const TEXT: u8 = 4;
const PING: u8 = 5;

impl Frame {
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Frame::Open { channel, agent } => with_data(OPEN, channel, agent.as_bytes()),
            Frame::Data { channel, bytes } => with_data(DATA, channel, &bytes),
            Frame::Close { channel } => with_data(CLOSE, channel, &[]),
            Frame::Credit { channel, bytes } => header(CREDIT, channel, bytes).to_vec(),
            Frame::Text(text) => with_data(TEXT, 0, text.as_bytes()),
            Frame::Ping => with_data(PING, 0, &[]),
        }
    }
}

fn header(kind: u8, channel: u32, length: u32) -> [u8; HEADER] {
    let mut bytes = [kind; HEADER];
    bytes[1..5].copy_from_slice(&channel.to_be_bytes());
    bytes[5..].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn with_data(kind: u8, channel: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("frames are small");
    [&header(kind, channel, length), data].concat()
}

/// What breaks the rules of frames.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

/// What comes from the keeper.
pub struct Incoming {
    chunks: mpsc::Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    /// How many of these were taken.
    taken: usize,
}

impl Incoming {
    pub fn new(chunks: mpsc::Receiver<Vec<u8>>) -> Incoming {
        Incoming { chunks, bytes: Vec::new(), taken: 0 }
    }

    /// The next line, without its end; None at the end. Of a line that is too long, a part.
    ///
    /// Like `frame`, it may be dropped while it waits, and loses nothing.
    pub async fn line(&mut self) -> Option<String> {
        loop {
            let rest = &self.bytes[self.taken..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            if end.is_some() || rest.len() > MAX_TEXT {
                let line = self.take(end.unwrap_or(MAX_TEXT));
                self.taken += usize::from(end.is_some());
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            if !self.receive().await {
                let rest = self.take(self.bytes.len() - self.taken);
                return (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned());
            }
        }
    }

    /// The next frame; None at the end.
    pub async fn frame(&mut self) -> Result<Option<Frame>, Broken> {
        loop {
            if let Some(frame) = self.whole_frame()? {
                return Ok(Some(frame));
            }
            if !self.receive().await {
                return Ok(None);
            }
        }
    }

    /// The next frame, if all of it is there.
    fn whole_frame(&mut self) -> Result<Option<Frame>, Broken> {
        let rest = &self.bytes[self.taken..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let number = |at| u32::from_be_bytes(std::array::from_fn(|index| header[at + index]));
        let (kind, channel, length) = (header[0], number(1), number(5));
        let size = if kind == CREDIT { 0 } else { length as usize }; // no data follow
        let most = match kind {
            OPEN => MAX_NAME,
            DATA => MAX_DATA,
            TEXT => MAX_TEXT,
            CLOSE | CREDIT | PING => 0,
            _ => return Err(Broken),
        };
        if size > most {
            return Err(Broken);
        }
        if rest.len() < size {
            return Ok(None);
        }
        self.taken += HEADER;
        let data = self.take(size);
        let text = |data| String::from_utf8(data).map_err(|_| Broken);
        Ok(Some(match kind {
            OPEN => Frame::Open { channel, agent: text(data)? },
            DATA => Frame::Data { channel, bytes: data },
            CLOSE => Frame::Close { channel },
            CREDIT => Frame::Credit { channel, bytes: length },
            TEXT => Frame::Text(text(data)?),
            _ => Frame::Ping,
        }))
    }

    fn take(&mut self, size: usize) -> Vec<u8> {
        let taken = self.bytes[self.taken..][..size].to_vec();
        self.taken += size;
        taken
    }

    /// Waits for more. Returns false at the end.
    async fn receive(&mut self) -> bool {
        let Some(chunk) = self.chunks.recv().await else { return false };
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend(chunk);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], size: usize) -> (Vec<Frame>, bool) {
        let (sender, chunks) = mpsc::channel(bytes.len().max(1));
        for chunk in bytes.chunks(size) {
            sender.try_send(chunk.to_vec()).unwrap();
        }
        drop(sender);
        let mut incoming = Incoming::new(chunks);
        let mut frames = Vec::new();
        loop {
            match incoming.frame().await {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return (frames, true),
                Err(Broken) => return (frames, false),
            }
        }
    }

    fn some() -> Vec<Frame> {
        vec![
            Frame::Open { channel: 1, agent: "gemini".to_owned() },
            Frame::Data { channel: 1, bytes: vec![7; 300] },
            Frame::Credit { channel: u32::MAX, bytes: u32::MAX },
            Frame::Text("ä".to_owned()),
            Frame::Ping,
            Frame::Data { channel: 2, bytes: Vec::new() },
            Frame::Close { channel: 1 },
        ]
    }

    #[tokio::test]
    async fn frames_come_in_parts_of_any_size() {
        let bytes: Vec<u8> = some().into_iter().flat_map(Frame::into_bytes).collect();
        for size in [1, 2, 8, 9, 10, 100, 10_000] {
            assert_eq!(read(&bytes, size).await, (some(), true));
        }
        let whole = read(&bytes[..bytes.len() - 1], 64).await;
        assert_eq!((whole.0.len(), whole.1), (some().len() - 1, true));
    }

    #[tokio::test]
    async fn what_breaks_the_rules_is_no_frame() {
        for broken in [
            header(6, 0, 0).to_vec(),
            header(b'g', 0, 0).to_vec(),
            header(DATA, 1, MAX_DATA as u32 + 1).to_vec(),
            header(OPEN, 1, MAX_NAME as u32 + 1).to_vec(),
            header(TEXT, 0, u32::MAX).to_vec(),
            header(CLOSE, 1, 1).to_vec(),
            with_data(TEXT, 0, b"\xff"),
        ] {
            let bytes = [Frame::Ping.into_bytes(), broken].concat();
            assert_eq!(read(&bytes, 64).await, (vec![Frame::Ping], false));
        }
    }

    #[tokio::test]
    async fn lines_come_before_frames() {
        let (sender, chunks) = mpsc::channel(8);
        let ping = Frame::Ping.into_bytes();
        for chunk in [b"wel".as_slice(), b"come\n\ngo\n", &ping] {
            sender.try_send(chunk.to_vec()).unwrap();
        }
        sender.try_send(b"rest".to_vec()).unwrap();
        drop(sender);
        let mut incoming = Incoming::new(chunks);
        for line in ["welcome", "", "go"] {
            assert_eq!(incoming.line().await.as_deref(), Some(line));
        }
        assert_eq!(incoming.frame().await, Ok(Some(Frame::Ping)));
        assert_eq!(incoming.line().await.as_deref(), Some("rest"));
        assert_eq!(incoming.line().await, None);
    }
}
