//! Files of prices in JSON. The names at the top level show which cloud a file is from. The parser skips all other data while it reads.

use std::fmt;
use std::io::{self, Read};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::amazon::{Products, Terms, stop};
use super::book::{PriceBook, PriceError};
use super::{amazon, azure, google};

/// The maximum length of a string, in bytes. The longest descriptions have about a thousand.
const STRING_BYTES_MAX: usize = 1 << 20;
/// The maximum depth of nesting. Price lists have eight levels.
const DEPTH_MAX: usize = 100;
/// The details of a product or of a price are nested deeper than this.
const DETAILS_DEPTH: usize = 3;
/// The maximum length of these details, in bytes, because the parser keeps those of one product in memory.
/// Those of real products take some kilobytes.
const DETAILS_BYTES_MAX: usize = 16 << 20;

pub(super) fn read(source: impl Read, book: &mut PriceBook) -> Result<(), PriceError> {
    let mut file = File { book, refused: None, is_known: false };
    let mut parser = serde_json::Deserializer::from_reader(io::BufReader::new(Bounded::new(source)));
    let read = file.deserialize(&mut parser).and_then(|()| parser.end());
    // `stop` ended the parser, so the parser's own error has only the position. The reason is in `refused`.
    if let Some(refused) = file.refused.take() {
        return Err(refused);
    }
    read?;
    if file.is_known { Ok(()) } else { Err(PriceError::NoList) }
}

/// The whole file.
struct File<'a> {
    book: &'a mut PriceBook,
    refused: Option<PriceError>,
    is_known: bool,
}

impl<'de> File<'_> {
    fn deserialize<D: Deserializer<'de>>(&mut self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut File<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object with prices")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut products = None;
        while let Some(name) = map.next_key::<String>()? {
            let File { book, refused, is_known } = &mut *self;
            match name.as_str() {
                "publicationDate" => book.date(&map.next_value::<String>()?),
                // Azure, Google and Amazon's command line cut long lists into pages.
                "NextPageLink" | "nextPageLink" | "nextPageToken" | "NextToken" => {
                    book.file().is_continued = map.next_value::<Option<String>>()?.is_some_and(|next| !next.is_empty());
                }
                "products" => {
                    let known = Products::seed(book);
                    products = Some(map.next_value_seed(known)?);
                }
                "terms" => {
                    let Some(products) = &products else {
                        *refused = Some(PriceError::TermsFirst);
                        return Err(stop());
                    };
                    *is_known = true;
                    book.format("Amazon's price list, JSON");
                    map.next_value_seed(Terms { products, book, refused })?;
                }
                "PriceList" => {
                    *is_known = true;
                    book.format("Amazon's price list, JSON");
                    map.next_value_seed(each(amazon::take_listed, book, refused))?;
                }
                "Items" => {
                    *is_known = true;
                    book.format("Azure's retail prices, JSON");
                    map.next_value_seed(each(azure::take, book, refused))?;
                }
                "skus" => {
                    *is_known = true;
                    book.format("Google's SKUs, JSON");
                    map.next_value_seed(each(google::take, book, refused))?;
                }
                "SpotPriceHistory" => {
                    *is_known = true;
                    book.format("Amazon's spot price history, JSON");
                    let mut zones = amazon::Zones::default();
                    let take = |one, book: &mut PriceBook| zones.add(one, book);
                    map.next_value_seed(each(take, book, refused))?;
                    if let Err(error) = zones.finish(book) {
                        *refused = Some(error);
                        return Err(stop());
                    }
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A list whose members are read one by one.
struct Each<'a, T, F> {
    take: F,
    book: &'a mut PriceBook,
    refused: &'a mut Option<PriceError>,
    member: PhantomData<fn() -> T>,
}

fn each<'a, T, F>(take: F, book: &'a mut PriceBook, refused: &'a mut Option<PriceError>) -> Each<'a, T, F> {
    Each { take, book, refused, member: PhantomData }
}

impl<'de, T, F> DeserializeSeed<'de> for Each<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T, &mut PriceBook) -> Result<(), PriceError>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_seq(self)
    }
}

impl<'de, T, F> Visitor<'de> for Each<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T, &mut PriceBook) -> Result<(), PriceError>,
{
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of prices")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(member) = list.next_element::<T>()? {
            if let Err(error) = (self.take)(member, self.book) {
                *self.refused = Some(error);
                return Err(stop());
            }
        }
        Ok(())
    }
}

/// Refuses endless strings, nesting and lists of details, because the parser would keep all of them in memory.
struct Bounded<R> {
    source: R,
    is_in_string: bool,
    is_escaped: bool,
    /// The length of the current string, in bytes.
    length: usize,
    depth: usize,
    /// The length of the current details, in bytes.
    details: usize,
}

impl<R> Bounded<R> {
    fn new(source: R) -> Bounded<R> {
        Bounded { source, is_in_string: false, is_escaped: false, length: 0, depth: 0, details: 0 }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        for byte in &buffer[..length] {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_string => self.is_escaped = true,
                b'"' => (self.is_in_string, self.length) = (!self.is_in_string, 0),
                b'[' | b'{' if !self.is_in_string => self.depth += 1,
                b']' | b'}' if !self.is_in_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.length += usize::from(self.is_in_string);
            self.details = if self.depth > DETAILS_DEPTH { self.details + 1 } else { 0 };
            let refused = if self.depth > DEPTH_MAX {
                "it is nested more than 100 deep; is it a file of prices?"
            } else if self.length > STRING_BYTES_MAX {
                "a string is longer than 1 MiB; is it a file of prices?"
            } else if self.details > DETAILS_BYTES_MAX {
                "the details of one product or price are longer than 16 MiB; is it a file of prices?"
            } else {
                continue;
            };
            return Err(io::Error::new(io::ErrorKind::InvalidData, refused));
        }
        Ok(length)
    }
}
