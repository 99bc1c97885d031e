//! One connection. hyper serves its requests until one asks for an event stream, for which hyper
//! would keep buffers of 16 kB. A stream needs none: it is sent from here, and with its end, or when
//! the client hangs up, the connection is closed.

use std::convert::Infallible;
use std::fmt::Write;
use std::future::poll_fn;
use std::io::Result;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::SystemTime;

use http_body_util::BodyExt;
use hyper::body::{Body, Buf, Incoming};
use hyper::server::conn::http1;
use hyper::{Method, Request, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};

use super::answer::Sending;
use super::endpoint::Endpoint;
use super::peer::Peer;
use crate::lock::lock;

/// What hyper calls for each request of a connection.
struct Service {
    endpoint: Arc<Endpoint>,
    from: Peer,
    stream: NewStream,
}

/// The answer that begins an event stream.
type NewStream = Arc<Mutex<Option<Response<Sending>>>>;

type Serving = http1::Connection<TokioIo<TcpStream>, Service>;

/// Serves a connection until it is closed. `_open` shows that it is not.
pub async fn serve(
    socket: TcpStream,
    from: Peer,
    endpoint: Arc<Endpoint>,
    closing: watch::Receiver<()>,
    _open: mpsc::Sender<()>,
) {
    if let Some((socket, answer)) = serve_requests(socket, from, endpoint, closing).await {
        serve_stream(socket, answer).await;
    }
}

/// Serves the requests of a connection until it has to be closed, or one of them asks for an event
/// stream: then returns the answer to that.
async fn serve_requests(
    socket: TcpStream,
    from: Peer,
    endpoint: Arc<Endpoint>,
    mut closing: watch::Receiver<()>,
) -> Option<(TcpStream, Response<Sending>)> {
    let (admission, stream) = (from.admission.clone(), NewStream::default());
    let header_time = endpoint.limits().header_time;
    let service = Service { endpoint, from, stream: stream.clone() };
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .serve_connection(TokioIo::new(socket), service);
    loop {
        tokio::select! {
            biased;
            () = admission.evicted() => return None,
            answer = until_stream(&mut serving, &stream) => {
                return answer.map(|answer| (serving.into_parts().io.into_inner(), answer));
            }
            Ok(()) = closing.changed() => Pin::new(&mut serving).graceful_shutdown(),
        }
    }
}

/// Lets hyper serve a connection until it is closed, or a stream begins.
async fn until_stream(serving: &mut Serving, stream: &NewStream) -> Option<Response<Sending>> {
    poll_fn(|context| {
        // A client that hangs up is no error.
        if Pin::new(&mut *serving).poll(context).is_ready() {
            return Poll::Ready(None);
        }
        match lock(stream).take() {
            Some(answer) => Poll::Ready(Some(answer)),
            None => Poll::Pending,
        }
    })
    .await
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Sending>;
    type Error = Infallible;
    type Future =
        Pin<Box<dyn Future<Output = std::result::Result<Response<Sending>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let may_stream = *request.method() == Method::GET && request.version() == Version::HTTP_11;
        let stream = self.stream.clone();
        let answer = self.endpoint.clone().respond(request, self.from.clone());
        Box::pin(async move {
            let answer = answer.await;
            if !may_stream || answer.body().size_hint().exact().is_some() {
                return Ok(answer);
            }
            *lock(&stream) = Some(answer);
            std::future::pending().await // this connection is hyper's no longer
        })
    }
}

/// Sends an event stream, until it ends or the client hangs up.
async fn serve_stream(mut socket: TcpStream, answer: Response<Sending>) {
    let (reader, writer) = socket.split();
    tokio::select! {
        _ = send(writer, head_of(&answer), answer.into_body()) => {}
        () = hung_up(reader) => {}
    }
}

/// The head of an answer as it goes over the wire. The body is sent in chunks.
fn head_of(answer: &Response<Sending>) -> String {
    let mut head = format!("HTTP/1.1 {}\r\n", answer.status());
    for (name, value) in answer.headers() {
        let _ = write!(head, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    let date = httpdate::fmt_http_date(SystemTime::now());
    head + "connection: close\r\ntransfer-encoding: chunked\r\ndate: " + &date + "\r\n\r\n"
}

async fn send(mut writer: WriteHalf<'_>, head: String, mut body: Sending) -> Result<()> {
    let mut before = head;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) else { continue };
        let _ = write!(before, "{:x}\r\n", data.len());
        let mut chunk = before.as_bytes().chain(data).chain(&b"\r\n"[..]);
        writer.write_all_buf(&mut chunk).await?;
        before = String::new();
    }
    writer.write_all(format!("{before}0\r\n\r\n").as_bytes()).await?;
    writer.shutdown().await
}

/// Waits until the client hangs up. What it sends is dropped: it was told that the connection will
/// be closed.
async fn hung_up(reader: ReadHalf<'_>) {
    loop {
        let _ = reader.readable().await;
        let read = reader.try_read(&mut [0; 512]);
        match read {
            Ok(1..) => tokio::task::yield_now().await,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}
