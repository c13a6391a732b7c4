// SPDX-License-Identifier: Apache-2.0
//! A registry of an image that does as it is told: each request goes to the test's own function
//! first, which may answer it in any way that bytes on a socket can. One request a connection.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use image::Digest;

use super::images::Image;

/// What was asked.
pub(crate) struct Request {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    headers: HashMap<String, String>,
    /// How many bytes its body had.
    pub(crate) body: u64,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn is_blob(&self, digest: &Digest) -> bool {
        self.path.ends_with(&format!("/blobs/{digest}"))
    }
}

/// What is served where the test's function doesn't answer.
#[derive(Clone, Default)]
pub(crate) struct Content {
    documents: HashMap<String, (String, Vec<u8>)>,
    blobs: HashMap<String, Vec<u8>>,
}

impl Content {
    /// All of an image, with the tag `v1`.
    pub(crate) fn of(image: &Image) -> Self {
        let mut content = Self::default();
        content.add(image, &image.target);
        let top = content.documents[&image.target.to_string()].clone();
        content.documents.insert("v1".to_owned(), top);
        content
    }

    fn add(&mut self, image: &Image, digest: &Digest) {
        use image::manifest::Document;
        let bytes = image.store.read_document(digest).unwrap();
        let media_type = match Document::parse(&bytes, None).unwrap() {
            Document::Index(index) => {
                index
                    .manifests
                    .iter()
                    .for_each(|it| self.add(image, &it.digest));
                index.media_type
            }
            Document::Manifest(manifest) => {
                for blob in manifest.blobs() {
                    if let Some(bytes) = image.blob(&blob.digest) {
                        self.blobs.insert(blob.digest.to_string(), bytes);
                    }
                }
                manifest.media_type
            }
        };
        self.documents
            .insert(digest.to_string(), (media_type, bytes));
    }

    /// A document under a tag or digest, whatever it is.
    pub(crate) fn document(mut self, name: &str, media_type: &str, bytes: &[u8]) -> Self {
        let document = (media_type.to_owned(), bytes.to_owned());
        self.documents.insert(name.to_owned(), document);
        self
    }

    /// Bytes under a digest, whatever they hash to.
    pub(crate) fn blob(mut self, digest: &Digest, bytes: &[u8]) -> Self {
        self.blobs.insert(digest.to_string(), bytes.to_owned());
        self
    }

    fn answer(&self, request: &Request, out: &mut TcpStream) {
        let name = request.path.rsplit('/').next().unwrap();
        if request.path.contains("/manifests/") {
            let Some((media_type, bytes)) = self.documents.get(name) else {
                return reply(out, request, "404 Not Found", &[], b"");
            };
            let digest = Digest::of(bytes).to_string();
            let headers = [
                ("Content-Type", &**media_type),
                ("Docker-Content-Digest", &digest),
            ];
            return reply(out, request, "200 OK", &headers, bytes);
        }
        match self.blobs.get(name) {
            None => reply(out, request, "404 Not Found", &[], b""),
            Some(bytes) => part(out, request, bytes),
        }
    }
}

fn part(out: &mut TcpStream, request: &Request, bytes: &[u8]) {
    let range = request
        .header("range")
        .and_then(|it| it.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|it| it.split_once('-')) else {
        return reply(out, request, "200 OK", &[], bytes);
    };
    let first: usize = first.parse().unwrap();
    let end = last.parse().map_or(bytes.len(), |last: usize| last + 1);
    let range = format!("bytes {first}-{}/{}", end - 1, bytes.len());
    let headers = [("Content-Range", range.as_str())];
    reply(
        out,
        request,
        "206 Partial Content",
        &headers,
        &bytes[first..end],
    );
}

/// An answer; without its body to HEAD.
pub(crate) fn reply(
    out: &mut TcpStream,
    request: &Request,
    status: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    // The client may have had enough.
    let _ = out.write_all(head.as_bytes());
    if request.method != "HEAD" {
        let _ = out.write_all(body);
    }
}

/// Bytes without end, until the client hangs up.
pub(crate) fn flood(out: &mut TcpStream, head: &str) -> u64 {
    let mut sent = 0;
    let piece = [b'x'; 16 << 10];
    if out.write_all(head.as_bytes()).is_err() {
        return sent;
    }
    while out.write_all(&piece).is_ok() {
        sent += 16 << 10;
    }
    sent
}

/// A server until this is dropped.
pub(crate) struct Hostile {
    port: u16,
    ended: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Hostile {
    /// Serves the content, but for what `first` answers: it says whether it did.
    pub(crate) fn start(
        content: Content,
        first: impl Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let hostile = Self {
            port: listener.local_addr().unwrap().port(),
            ended: Arc::default(),
            seen: Arc::default(),
        };
        let (ended, seen) = (hostile.ended.clone(), hostile.seen.clone());
        let shared = Arc::new((content, first));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, seen) = (shared.clone(), seen.clone());
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let Some(request) = read(&stream) else {
                        return;
                    };
                    seen.lock()
                        .unwrap()
                        .push(format!("{} {}", request.method, request.path));
                    if !(shared.1)(&request, &mut stream) {
                        shared.0.answer(&request, &mut stream);
                    }
                });
            }
        });
        hostile
    }

    /// Serves the content as it is.
    pub(crate) fn honest(content: Content) -> Self {
        Self::start(content, |_, _| false)
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// How many requests were of this kind: a part of `METHOD PATH`.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|it| it.contains(part))
            .count()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|it| it.parse().ok());
    let body = std::io::copy(&mut input.take(length.unwrap_or(0)), &mut std::io::sink());
    Some(Request {
        method,
        path,
        headers,
        body: body.ok()?,
    })
}
