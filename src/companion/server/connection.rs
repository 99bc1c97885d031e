//! One connection, which hyper serves until it is closed.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::peer::Peer;

/// Serves a connection until its client hangs up, it has to make room for another, or `closing`
/// changes. It keeps `closing` as long as it is open.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    from: Peer,
    endpoint: Arc<Endpoint>,
    mut closing: watch::Receiver<()>,
) {
    let (admission, header_time) = (from.admission.clone(), endpoint.limits.header_time);
    let service = service_fn(|request| {
        let answer = endpoint.clone().respond(request, from.clone());
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut serving = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_time)
            .serve_connection(TokioIo::new(stream), service)
    );
    loop {
        tokio::select! {
            biased;
            () = admission.evicted() => return,
            _ = serving.as_mut() => return, // a client that hangs up is no error
            Ok(()) = closing.changed() => serving.as_mut().graceful_shutdown(),
        }
    }
}
