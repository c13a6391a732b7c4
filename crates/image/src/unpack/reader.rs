// SPDX-License-Identifier: Apache-2.0
//! The entries of a tar stream, one after the other: header, pax records and GNU's long names put
//! together as Go's `archive/tar` does it, so that a layer means here what it means to every other
//! engine. Everything that is kept in memory has a bound. Knows no file system.

use super::error::UnpackError;
use super::header::{BLOCK, Header, sparse_block};
use super::pax::{MAX_HEADER, Records};
use super::sparse::{Form, Map, MapInData};
use super::stream::{TarStream, cut};

/// The longest name that GNU's own entries may hold, with its NUL.
const MAX_LONG_NAME: u64 = 4096;

/// The most headers that are about one entry: a global one, pax records, a long name and a long
/// link make four.
const MAX_BEFORE: u32 = 16;

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A regular file.
    File(Data),
    Folder,
    Symlink,
    HardLink,
    Character,
    Block,
    Fifo,
}

/// Where the data of a file goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Data {
    /// All of it one after the other; so many bytes.
    Plain(u64),
    /// In pieces.
    Sparse(Map),
}

/// One entry, with nothing but the ids and the type checked: paths are an allegation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    /// What a link points to.
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    /// At most `0o7777`.
    pub(crate) mode: u32,
    /// Never the highest number, which chown(2) takes for "as it is".
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds and nanoseconds.
    pub(crate) mtime: (i64, u32),
    /// Major and minor.
    pub(crate) device: (u32, u32),
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What stands before an entry and is about it.
#[derive(Default)]
struct Before {
    records: Records,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    any: bool,
    headers: u32,
}

/// Reads entries.
pub(crate) struct Reader<'a> {
    stream: TarStream<'a>,
    /// Bytes of the current entry's data that weren't read, and of the padding behind them.
    left: u64,
    padding: u64,
    entries: u64,
    max_entries: u64,
    scratch: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Reads at most `max_entries`.
    pub(crate) fn new(stream: TarStream<'a>, max_entries: u64) -> Self {
        Self {
            stream,
            left: 0,
            padding: 0,
            entries: 0,
            max_entries,
            scratch: vec![0; 32 << 10],
        }
    }

    /// How many entries there were.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// The next entry; `None` when the stream has been read to its end. Data of the one before
    /// that wasn't read is skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, UnpackError> {
        let mut before = Before::default();
        loop {
            let block = match self.skip()? {
                true => self.stream.block()?,
                false => None,
            };
            let Some(block) = block else {
                return Self::end(&before);
            };
            let Some(header) = Header::parse(&block)? else {
                self.trailer()?;
                return Self::end(&before);
            };
            if !self.about_next(&header, &mut before)? {
                return self.entry(&header, before).map(Some);
            }
        }
    }

    /// Behind a block of zeros: the end, or a second one and then what no engine reads.
    fn trailer(&mut self) -> Result<(), UnpackError> {
        let Some(block) = self.stream.block()? else {
            return Ok(());
        };
        if block.iter().any(|byte| *byte != 0) {
            return Err(UnpackError::stream(
                "something follows the end of its tar stream",
            ));
        }
        self.stream.drain(&mut self.scratch)
    }

    fn end(before: &Before) -> Result<Option<Entry>, UnpackError> {
        match before.any {
            true => Err(cut()),
            false => Ok(None),
        }
    }

    /// Takes a header that is about the next entry, or about none; whether it was such a one.
    fn about_next(
        &mut self,
        header: &Header<'_>,
        before: &mut Before,
    ) -> Result<bool, UnpackError> {
        let kind = header.kind();
        if !matches!(kind, b'x' | b'X' | b'g' | b'L' | b'K') {
            return Ok(false);
        }
        before.headers += 1;
        if before.headers > MAX_BEFORE {
            let what = "the headers before one entry";
            return Err(UnpackError::too_much(what, MAX_BEFORE.to_string()));
        }
        let size = natural(header.size()?, "size")?;
        self.data_follows(size)?;
        match kind {
            b'x' | b'X' => {
                let data = self.whole(size, MAX_HEADER, "a pax header")?;
                before.records = Records::default();
                before.records.read(&data)?;
            }
            b'L' => before.long_name = Some(self.long_name(size)?),
            b'K' => before.long_link = Some(self.long_name(size)?),
            // What holds for all entries: every other engine leaves it out, and so it must be
            // here. (Go's archive/tar hands it over; nothing applies it.)
            _ => return Ok(true),
        }
        before.any = true;
        Ok(true)
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, UnpackError> {
        let mut name = self.whole(size, MAX_LONG_NAME, "the path of an entry")?;
        if let Some(end) = name.iter().position(|byte| *byte == 0) {
            name.truncate(end);
        }
        Ok(name)
    }

    fn count(&mut self) -> Result<(), UnpackError> {
        self.entries += 1;
        if self.entries > self.max_entries {
            return Err(UnpackError::too_much(
                "its number of entries",
                self.max_entries.to_string(),
            ));
        }
        Ok(())
    }

    fn entry(&mut self, header: &Header<'_>, before: Before) -> Result<Entry, UnpackError> {
        self.count()?;
        let Before {
            records,
            long_name,
            long_link,
            ..
        } = before;
        let path = long_name
            .or_else(|| records.sparse.name.clone())
            .or_else(|| records.path.clone())
            .unwrap_or_else(|| header.path());
        let link = long_link
            .or_else(|| records.link.clone())
            .unwrap_or_else(|| header.link());
        let kind = self.kind(header, &records, &path)?;
        let device = match kind {
            Kind::Character | Kind::Block => header.device()?,
            _ => (0, 0),
        };
        Ok(Entry {
            kind,
            mode: header.mode()?,
            uid: id(records.uid, || header.uid(), &path)?,
            gid: id(records.gid, || header.gid(), &path)?,
            mtime: match records.mtime {
                Some(mtime) => mtime,
                None => (header.mtime()?, 0),
            },
            device: (number(device.0, &path)?, number(device.1, &path)?),
            xattrs: records.xattrs,
            path,
            link,
        })
    }

    fn kind(
        &mut self,
        header: &Header<'_>,
        records: &Records,
        path: &[u8],
    ) -> Result<Kind, UnpackError> {
        match header.kind() {
            // The oldest form: a folder is a file whose name ends with a slash.
            0 if path.ends_with(b"/") => Ok(Kind::Folder),
            0 | b'0' | b'7' => self.file(header, records).map(Kind::File),
            b'S' => self.old_sparse(header, records).map(Kind::File),
            b'1' => Ok(Kind::HardLink),
            b'2' => Ok(Kind::Symlink),
            b'3' => Ok(Kind::Character),
            b'4' => Ok(Kind::Block),
            b'5' => Ok(Kind::Folder),
            b'6' => Ok(Kind::Fifo),
            other => {
                let flag = char::from(other).escape_default().to_string();
                Err(UnpackError::entry(
                    path,
                    format!("its type {flag:?} isn't known"),
                ))
            }
        }
    }

    fn file(&mut self, header: &Header<'_>, records: &Records) -> Result<Data, UnpackError> {
        let size = natural(records.size.map_or_else(|| header.size(), Ok)?, "size")?;
        self.data_follows(size)?;
        match records.sparse.form()? {
            Form::Plain => Ok(Data::Plain(size)),
            Form::Records => records.sparse.map(size).map(Data::Sparse),
            Form::Data => {
                let mut map = MapInData::default();
                loop {
                    let block = self.data_block()?;
                    if let Some(pieces) = map.block(&block)? {
                        return records.sparse.map_of(pieces, self.left).map(Data::Sparse);
                    }
                }
            }
        }
    }

    fn old_sparse(&mut self, header: &Header<'_>, records: &Records) -> Result<Data, UnpackError> {
        let size = natural(records.size.map_or_else(|| header.size(), Ok)?, "size")?;
        let sparse = header.old_sparse()?;
        let (mut pieces, mut more) = (sparse.pieces, sparse.more);
        while more {
            let block = self.stream.block()?.ok_or_else(cut)?;
            let (next, further) = sparse_block(&block)?;
            // Without a piece in it a chain of blocks would have no end but the stream's.
            if next.is_empty() {
                return Err(UnpackError::stream("the map of a sparse entry is wrong"));
            }
            pieces.extend(next);
            if pieces.len() > 1 << 18 {
                return Err(UnpackError::too_much(
                    "the pieces of a sparse entry",
                    "262144",
                ));
            }
            more = further;
        }
        self.data_follows(size)?;
        Map::new(pieces.into_iter(), Some(sparse.size), size).map(Data::Sparse)
    }

    fn data_follows(&mut self, size: u64) -> Result<(), UnpackError> {
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
        match size.checked_add(self.padding) {
            Some(_) => Ok(()),
            None => Err(UnpackError::stream("the size of an entry is wrong")),
        }
    }

    /// How many bytes of the current entry's data weren't read yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Reads some of the current entry's data; 0 when there is no more.
    pub(crate) fn data(&mut self, buffer: &mut [u8]) -> Result<usize, UnpackError> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let Some(part) = buffer.get_mut(..most).filter(|part| !part.is_empty()) else {
            return Ok(0);
        };
        match self.stream.read(part)? {
            0 => Err(cut()),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }

    fn data_block(&mut self) -> Result<[u8; BLOCK], UnpackError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.data(rest)? {
                0 => return Err(cut()),
                read => filled += read,
            }
        }
        Ok(block)
    }

    /// All data of an entry that is about another one.
    fn whole(&mut self, size: u64, limit: u64, what: &str) -> Result<Vec<u8>, UnpackError> {
        if size > limit {
            return Err(UnpackError::too_much(what, format!("{limit} bytes")));
        }
        let mut data = Vec::new();
        let mut buffer = [0; BLOCK];
        loop {
            match self.data(&mut buffer)? {
                0 => return Ok(data),
                read => data.extend_from_slice(buffer.get(..read).unwrap_or_default()),
            }
        }
    }

    /// Passes over what is left of the current entry. Whether there may be another one. Where
    /// nothing but padding is missing the stream has ended: umoci's `insert` writes such layers,
    /// and Go's `archive/tar` reads them. All data of the last entry is there.
    fn skip(&mut self) -> Result<bool, UnpackError> {
        let (data, padding) = (self.left, self.padding);
        (self.left, self.padding) = (0, 0);
        if self.pass(data)? > 0 {
            return Err(cut());
        }
        Ok(self.pass(padding)? == 0)
    }

    /// Passes over so many bytes; how many of them the stream hasn't got.
    fn pass(&mut self, mut left: u64) -> Result<u64, UnpackError> {
        while left > 0 {
            let most = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(self.scratch.len());
            let part = self.scratch.get_mut(..most).unwrap_or_default();
            match self.stream.read(part)? {
                0 => break,
                read => left -= read as u64,
            }
        }
        Ok(left)
    }

    /// The stream, when it was read to its end.
    pub(crate) fn into_stream(self) -> TarStream<'a> {
        self.stream
    }
}

fn natural(number: i64, name: &str) -> Result<u64, UnpackError> {
    u64::try_from(number)
        .map_err(|_| UnpackError::stream(format!("the {name} of an entry is negative")))
}

fn id(
    record: Option<i64>,
    header: impl Fn() -> Result<i64, UnpackError>,
    path: &[u8],
) -> Result<u32, UnpackError> {
    let id = record.map_or_else(header, Ok)?;
    u32::try_from(id)
        .ok()
        .filter(|id| *id != u32::MAX)
        .ok_or_else(|| UnpackError::entry(path, format!("{id} is no uid or gid")))
}

fn number(number: i64, path: &[u8]) -> Result<u32, UnpackError> {
    u32::try_from(number)
        .map_err(|_| UnpackError::entry(path, format!("{number} is no device number")))
}
