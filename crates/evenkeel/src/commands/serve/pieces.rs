//! `Pieces`: the body of an answer, from pieces that all clients share. A client that reads slowly then holds no memory of its own.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A body of known length.
pub(super) struct Pieces {
    pieces: std::vec::IntoIter<Bytes>,
    bytes_left: u64,
}

impl Pieces {
    /// The JSON object with these fields and a list of JSON values. `fields` ends with the name of the list and its bracket.
    pub(super) fn list(fields: String, values: Vec<Bytes>) -> Pieces {
        let mut pieces = Vec::with_capacity(values.len() * 2 + 2);
        pieces.push(Bytes::from(fields));
        for (at, value) in values.into_iter().enumerate() {
            if at > 0 {
                pieces.push(Bytes::from_static(b","));
            }
            pieces.push(value);
        }
        pieces.push(Bytes::from_static(b"]}"));
        let bytes_left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Pieces { pieces: pieces.into_iter(), bytes_left }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.pieces.next();
        self.bytes_left -= next.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes_left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(mut body: Pieces) -> (u64, String) {
        let (said, mut text) = (body.size_hint().exact().unwrap(), String::new());
        let mut context = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        assert!(body.is_end_stream());
        (said, text)
    }

    #[test]
    fn a_list_is_json_of_the_announced_length() {
        let of = |values: &[&'static str]| {
            let values = values.iter().map(|value| Bytes::from_static(value.as_bytes())).collect();
            text(Pieces::list("{\"format\":1,\"points\":[".to_owned(), values))
        };
        for (values, expected) in [
            (&[][..], "{\"format\":1,\"points\":[]}"),
            (&["{}"], "{\"format\":1,\"points\":[{}]}"),
            (&["1", "2", "3"], "{\"format\":1,\"points\":[1,2,3]}"),
        ] {
            assert_eq!(of(values), (expected.len() as u64, expected.to_owned()));
        }
    }
}
