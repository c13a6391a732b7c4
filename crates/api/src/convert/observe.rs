// SPDX-License-Identifier: Apache-2.0
//! The requests and answers of `Observe`.

use std::collections::BTreeSet;
use std::time::Duration;

use model::error::{Error, Result, Within};
use model::name::Tenant;
use model::object::{Kind, ObjectRef};
use model::observe::{
    GapReason, JournalQuery, LogData, LogItem, LogMessage, LogsQuery, MAX_JOURNAL_MATCHES,
    MAX_JOURNAL_TAIL, MAX_LOGS_REFS, Stream, Usage, UsageQuery, UsageSample, WatchUsageQuery,
};
use model::text::{check_count, check_length, check_printable};

use super::object::{reference, to_object_ref};
use super::scalar::{enumeration, maybe_duration, maybe_parse, maybe_timestamp, to_timestamp};
use crate::observe::v0 as wire;
use crate::runtime::v0::{ObjectRef as WireRef, Stream as WireStream};

/// The most objects of one `Usage`; without any, all of the tenant's are meant.
const MAX_USAGE_REFS: usize = 1000;
/// The longest cursor, in bytes; the node makes shorter ones.
const MAX_CURSOR: usize = 256;
/// The longest match of `Journal`, in bytes.
const MAX_MATCH: usize = 4096;
/// The time from one answer of `WatchUsage` to the next where the request has none.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

fn refs(own: &Tenant, messages: Vec<WireRef>, most: usize) -> Result<Vec<ObjectRef>> {
    check_count("refs", messages.len(), most)?;
    let refs = messages.into_iter().enumerate();
    refs.map(|(i, message)| reference(own, message).within(&format!("refs[{i}]")))
        .collect()
}

/// Checks the request of `Logs`.
///
/// # Errors
/// `INVALID_FIELD`: no reference or more than [`MAX_LOGS_REFS`], a malformed one, two tenants, a
/// cursor beside a tail or more than one executable, or a stream or time that can't be.
pub fn logs(own: &Tenant, message: wire::LogsRequest) -> Result<LogsQuery> {
    let refs = refs(own, message.refs, MAX_LOGS_REFS)?;
    if refs.is_empty() {
        return Err(Error::invalid(
            "refs",
            "must name at least one executable or cell",
        ));
    }
    let first = refs.first().map(|one| one.tenant.clone());
    if let Some(i) = refs
        .iter()
        .position(|one| Some(&one.tenant) != first.as_ref())
    {
        let problem = "must be of the same tenant as the first";
        return Err(Error::invalid(format!("refs[{i}].tenant"), problem));
    }
    let streams = message.streams.iter().enumerate();
    let streams = streams.map(|(i, number)| stream(&format!("streams[{i}]"), *number));
    check_length("cursor", &message.cursor, MAX_CURSOR)?;
    check_printable("cursor", &message.cursor)?;
    let cursor = Some(message.cursor).filter(|cursor| !cursor.is_empty());
    if cursor.is_some() && (refs.len() > 1 || names_a_cell(&refs)) {
        let problem = "has a meaning only with exactly one executable";
        return Err(Error::invalid("cursor", problem));
    }
    if cursor.is_some() && message.tail.is_some() {
        return Err(Error::invalid(
            "tail",
            "has no meaning together with a cursor",
        ));
    }
    Ok(LogsQuery {
        refs,
        streams: streams.collect::<Result<BTreeSet<_>>>()?,
        since: maybe_timestamp("since", message.since.as_ref())?,
        until: maybe_timestamp("until", message.until.as_ref())?,
        tail: message.tail,
        follow: message.follow,
        cursor,
    })
}

fn names_a_cell(refs: &[ObjectRef]) -> bool {
    refs.iter().any(|one| one.kind == Some(Kind::Cell))
}

fn stream(field: &str, number: i32) -> Result<Stream> {
    match enumeration(field, number)? {
        WireStream::Unspecified => Err(Error::invalid(field, "must be STDOUT or STDERR")),
        WireStream::Stdout => Ok(Stream::Stdout),
        WireStream::Stderr => Ok(Stream::Stderr),
    }
}

/// A stream for the wire.
pub fn to_stream(stream: Stream) -> WireStream {
    match stream {
        Stream::Stdout => WireStream::Stdout,
        Stream::Stderr => WireStream::Stderr,
    }
}

/// One message of a log.
pub fn to_logs_response(item: LogItem) -> wire::LogsResponse {
    use wire::logs_response::Message;
    let message = match item.message {
        LogMessage::Data(data) => Message::Data(to_data(data)),
        LogMessage::Gap(gap) => Message::Gap(wire::LogGap {
            bytes: gap.bytes,
            reason: to_reason(gap.reason).into(),
        }),
        LogMessage::End => Message::End(wire::LogEnd {}),
    };
    wire::LogsResponse {
        r#ref: Some(to_object_ref(&item.object)),
        message: Some(message),
        cursor: item.cursor,
    }
}

fn to_data(data: LogData) -> wire::LogData {
    wire::LogData {
        stream: to_stream(data.stream).into(),
        time: Some(to_timestamp(data.time)),
        data: data.data,
        offset: data.offset,
    }
}

fn to_reason(reason: GapReason) -> wire::log_gap::Reason {
    match reason {
        GapReason::Retention => wire::log_gap::Reason::Retention,
        GapReason::DiskFull => wire::log_gap::Reason::DiskFull,
        GapReason::PowerLoss => wire::log_gap::Reason::PowerLoss,
        GapReason::IoError => wire::log_gap::Reason::IoError,
    }
}

/// Checks the request of `Journal`.
///
/// # Errors
/// `INVALID_FIELD`: more than [`MAX_JOURNAL_MATCHES`] matches, one that isn't `FIELD=VALUE`, a tail
/// beyond [`MAX_JOURNAL_TAIL`], or a cursor that none was.
pub fn journal(message: wire::JournalRequest) -> Result<JournalQuery> {
    check_count("matches", message.matches.len(), MAX_JOURNAL_MATCHES)?;
    let mut matches = Vec::new();
    for (i, text) in message.matches.iter().enumerate() {
        let field = format!("matches[{i}]");
        check_length(&field, text, MAX_MATCH)?;
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Error::invalid(field, "must be FIELD=VALUE"));
        };
        matches.push((name.to_owned(), value.as_bytes().to_vec()));
    }
    if message.tail.is_some_and(|tail| tail > MAX_JOURNAL_TAIL) {
        let problem = format!("must be at most {MAX_JOURNAL_TAIL}");
        return Err(Error::invalid("tail", problem));
    }
    let cursor = match message.cursor.as_str() {
        "" => None,
        text => Some(journal_offset(text)?),
    };
    if message.past {
        let words = "is not to be had of the past, to which nothing comes";
        let has = [
            ("follow", message.follow),
            ("cursor", cursor.is_some()),
            ("sync", message.sync),
        ];
        if let Some((field, _)) = has.into_iter().find(|(_, has)| *has) {
            return Err(Error::invalid(field, words));
        }
    }
    Ok(JournalQuery {
        matches,
        since: maybe_timestamp("since", message.since.as_ref())?,
        until: maybe_timestamp("until", message.until.as_ref())?,
        tail: message.tail,
        follow: message.follow,
        cursor,
        sync: message.sync,
        past: message.past,
    })
}

/// The cursor of a journal's entry is an offset, in hexadecimal digits behind a word.
const CURSOR: &str = "journal.";

fn journal_offset(text: &str) -> Result<u64> {
    let digits = text.strip_prefix(CURSOR).filter(|it| it.len() <= 16);
    let offset = digits.and_then(|it| u64::from_str_radix(it, 16).ok());
    offset.ok_or_else(|| Error::invalid("cursor", "is none of the journal's"))
}

/// An entry of the journal, and the offset behind it.
pub fn to_journal_entry(
    time: model::time::Timestamp,
    fields: Vec<(String, Vec<u8>)>,
    behind: u64,
) -> wire::JournalEntry {
    let field = |(name, value)| wire::JournalField { name, value };
    wire::JournalEntry {
        time: Some(to_timestamp(time)),
        fields: fields.into_iter().map(field).collect(),
        cursor: format!("{CURSOR}{behind:x}"),
    }
}

/// Checks the request of `Usage`.
///
/// # Errors
/// `INVALID_FIELD`: more than 1,000 references, a malformed one, or one of another tenant than the
/// request's.
pub fn usage(own: &Tenant, message: wire::UsageRequest) -> Result<UsageQuery> {
    usage_query(own, message.refs, &message.tenant)
}

fn usage_query(own: &Tenant, messages: Vec<WireRef>, tenant: &str) -> Result<UsageQuery> {
    let tenant = maybe_parse("tenant", tenant)?.unwrap_or_else(|| own.clone());
    // A reference without a tenant is of the request's tenant.
    let refs = refs(&tenant, messages, MAX_USAGE_REFS)?;
    if let Some(i) = refs.iter().position(|one| one.tenant != tenant) {
        let problem = "must be of the tenant that the request is about";
        return Err(Error::invalid(format!("refs[{i}].tenant"), problem));
    }
    Ok(UsageQuery { refs, tenant })
}

/// Checks the request of `WatchUsage`; without an interval it is 1 s.
///
/// # Errors
/// `INVALID_FIELD`: those of [`usage`], or an interval that is not from 100 ms to 1 h.
pub fn watch_usage(own: &Tenant, message: wire::WatchUsageRequest) -> Result<WatchUsageQuery> {
    let interval = maybe_duration("interval", message.interval.as_ref())?;
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        return Err(Error::invalid("interval", "must be from 100 ms to 1 h"));
    }
    Ok(WatchUsageQuery {
        query: usage_query(own, message.refs, &message.tenant)?,
        interval,
    })
}

/// Usage at one time.
pub fn to_usage_response(sample: UsageSample) -> wire::UsageResponse {
    wire::UsageResponse {
        time: Some(to_timestamp(sample.time)),
        usage: sample.usage.into_iter().map(to_usage).collect(),
    }
}

fn to_usage(usage: Usage) -> wire::Usage {
    wire::Usage {
        r#ref: Some(to_object_ref(&usage.object)),
        cpu_usage_usec: usage.cpu_usage_us,
        cpu_user_usec: usage.cpu_user_us,
        cpu_system_usec: usage.cpu_system_us,
        cpu_throttled_usec: usage.cpu_throttled_us,
        memory_bytes: usage.memory_bytes,
        memory_peak_bytes: usage.memory_peak_bytes,
        swap_bytes: usage.swap_bytes,
        oom_kills: usage.oom_kills,
        pids: usage.pids,
        pids_peak: usage.pids_peak,
        io_read_bytes: usage.io_read_bytes,
        io_write_bytes: usage.io_write_bytes,
        log_bytes: usage.log_bytes,
        unavailable: usage.unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Tenant {
        "acme".parse().unwrap()
    }

    fn named(path: &str) -> WireRef {
        WireRef {
            path: path.into(),
            ..Default::default()
        }
    }

    #[test]
    fn logs_are_of_something_and_a_cursor_of_one_thing() {
        let none = wire::LogsRequest::default();
        assert_eq!(
            logs(&own(), none).unwrap_err().field.as_deref(),
            Some("refs")
        );
        let many = wire::LogsRequest {
            refs: vec![named("web/a"); 65],
            ..Default::default()
        };
        assert_eq!(
            logs(&own(), many).unwrap_err().field.as_deref(),
            Some("refs")
        );
        let two = wire::LogsRequest {
            refs: vec![named("web/a"), named("web/b")],
            cursor: "c".into(),
            ..Default::default()
        };
        assert_eq!(
            logs(&own(), two).unwrap_err().field.as_deref(),
            Some("cursor")
        );
        let bad = wire::LogsRequest {
            refs: vec![named("web/a"), named("../b")],
            ..Default::default()
        };
        assert_eq!(
            logs(&own(), bad).unwrap_err().field.as_deref(),
            Some("refs[1].path")
        );
        let stream = wire::LogsRequest {
            refs: vec![named("web/a")],
            streams: vec![1, 7],
            ..Default::default()
        };
        assert_eq!(
            logs(&own(), stream).unwrap_err().field.as_deref(),
            Some("streams[1]")
        );
    }

    #[test]
    fn usage_is_of_one_tenant() {
        let mut message = wire::UsageRequest {
            refs: vec![named("web")],
            tenant: "other".into(),
        };
        let query = usage(&own(), message.clone()).unwrap();
        assert_eq!(query.refs[0].tenant, query.tenant);
        message.refs[0].tenant = "third".into();
        assert_eq!(
            usage(&own(), message).unwrap_err().field.as_deref(),
            Some("refs[0].tenant")
        );
    }

    #[test]
    fn intervals_are_bounded() {
        let of = |seconds, nanos| {
            let interval = Some(prost_types::Duration { seconds, nanos });
            let message = wire::WatchUsageRequest {
                interval,
                ..Default::default()
            };
            watch_usage(&own(), message)
        };
        assert!(of(0, 1).is_err());
        assert!(of(3601, 0).is_err());
        assert_eq!(
            of(0, 100_000_000).unwrap().interval,
            Duration::from_millis(100)
        );
    }
}
