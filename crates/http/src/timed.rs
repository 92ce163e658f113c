//! Writing to somebody who may not read: what nobody takes ends the connection.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Whoever takes less than this in [`Timed`]'s time does not read.
const PROGRESS: usize = 16 << 10;

/// A stream whose writes must go on: of what waits to be sent something is taken within a time, or the write fails.
#[derive(Debug)]
pub struct Timed<S> {
    stream: S,
    limit: Duration,
    /// Runs while something waits.
    timer: Option<Pin<Box<Sleep>>>,
    /// Taken since the timer began.
    taken: usize,
}

impl<S> Timed<S> {
    pub fn new(stream: S, limit: Duration) -> Timed<S> {
        Timed { stream, limit, timer: None, taken: 0 }
    }

    /// A write that took so much of `wanted`, or waits.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        wanted: usize,
        write: Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(taken)) = write {
            self.taken += taken;
            if taken == wanted || self.taken >= PROGRESS {
                (self.timer, self.taken) = (None, 0);
            }
        }
        if write.is_ready() {
            return write;
        }
        ready!(self.wait(context));
        Poll::Ready(Err(late()))
    }

    /// Ready when the time is over.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit;
        self.timer.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(context)
    }
}

fn late() -> Error {
    Error::new(ErrorKind::TimedOut, "the other side does not read")
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, bytes.len(), write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, parts.iter().map(|part| part.len()).sum(), write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(context) {
            return Poll::Ready(flushed);
        }
        ready!(self.wait(context));
        Poll::Ready(Err(late()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Poll::Ready(shut) = Pin::new(&mut self.stream).poll_shutdown(context) {
            return Poll::Ready(shut);
        }
        ready!(self.wait(context));
        Poll::Ready(Err(late()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_ends_the_write() {
        let (near, _far) = duplex(1000);
        let began = Instant::now();
        let failed = Timed::new(near, LIMIT).write_all(&[7; 100_000]).await.unwrap_err();
        assert_eq!((failed.kind(), began.elapsed().as_secs()), (ErrorKind::TimedOut, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_a_byte_at_a_time_ends_the_write() {
        let (near, mut far) = duplex(1000);
        tokio::spawn(async move {
            while far.read_u8().await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let failed = Timed::new(near, LIMIT).write_all(&[7; 100_000]).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_reads_gets_everything_however_long_it_takes() {
        let (near, mut far) = duplex(20_000);
        let reader = tokio::spawn(async move {
            let (mut part, mut taken) = (vec![0; 20_000], 0);
            loop {
                match far.read(&mut part).await.unwrap() {
                    0 => return taken,
                    some => taken += some,
                }
                sleep(Duration::from_secs(20)).await;
            }
        });
        let mut near = Timed::new(near, LIMIT);
        near.write_all(&[7; 1_000_000]).await.unwrap();
        near.shutdown().await.unwrap();
        drop(near);
        assert_eq!(reader.await.unwrap(), 1_000_000);
    }
}
