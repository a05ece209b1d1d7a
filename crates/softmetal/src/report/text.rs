//! Reports for people.

use std::fmt::{Formatter, Result, Write};

use super::{Access, Kind, Memory, Report, Severity};

/// Severity, kind, memory and place in one line.
pub(super) fn headline(report: &Report) -> String {
    let mut line = format!("{}: {}", severity(report.severity), title(report.kind));
    if let Some(memory) = &report.memory {
        // Writing to a string does not fail.
        let _ = write!(line, ": {}", describe_memory(memory));
    }
    if let Some(place) = &report.now.place {
        let _ = write!(line, " at {}:{}", place.file, place.line);
    }
    line
}

/// The whole report, without a line end.
pub(super) fn write(report: &Report, f: &mut Formatter<'_>) -> Result {
    let title = title(report.kind);
    write!(f, "{}: {title}", severity(report.severity))?;
    if let Some(memory) = &report.memory {
        write!(f, ": {}", describe_memory(memory))?;
    }
    if !report.detail.is_empty() {
        write!(f, "\n  {}", report.detail)?;
    }
    write_access(f, &report.now)?;
    if let Some(before) = &report.before {
        write!(f, "\n  conflicts with the earlier")?;
        write_access(f, before)?;
    }
    if let Some(advice) = advice(report.kind) {
        write!(f, "\n  {advice}")?;
    }
    match report.kernel.as_str() {
        "" => write!(f, "\n  in the {}", report.dispatch)?,
        kernel => write!(
            f,
            "\n  in kernel `{kernel}`, dispatch `{}`",
            report.dispatch
        )?,
    }
    match report.count {
        1 => Ok(()),
        count => write!(f, ", {count} times"),
    }
}

fn write_access(f: &mut Formatter<'_>, access: &Access) -> Result {
    let [x, y, z] = access.thread;
    let [gx, gy, gz] = access.threadgroup;
    if access.place.is_none() {
        write!(f, "\n  {}", access.action)?;
        return match &access.dispatch {
            Some(dispatch) => write!(f, " by the {dispatch}"),
            None => Ok(()),
        };
    }
    write!(
        f,
        "\n  {} by thread ({x}, {y}, {z}) of threadgroup ({gx}, {gy}, {gz}), simdgroup {} lane {}",
        access.action, access.simdgroup, access.lane
    )?;
    if let Some(dispatch) = &access.dispatch {
        write!(f, " of dispatch `{dispatch}`")?;
    }
    let Some(place) = &access.place else {
        return Ok(());
    };
    write!(
        f,
        "\n    --> {}:{}:{}",
        place.file, place.line, place.column
    )?;
    let Some(line) = &access.line else {
        return Ok(());
    };
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let caret = " ".repeat((place.column as usize).saturating_sub(1));
    write!(f, "\n    {number} | {line}\n    {margin} | {caret}^")
}

fn describe_memory(memory: &Memory) -> String {
    let name = match &memory.parameter {
        Some(parameter) => format!("`{}` (parameter `{parameter}`)", memory.name),
        None => format!("`{}`", memory.name),
    };
    let sign = if memory.offset < 0 { "-" } else { "+" };
    format!(
        "{} memory {name} {sign} {}",
        memory.space,
        memory.offset.unsigned_abs()
    )
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

pub(super) fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::OutOfBounds => "access out of bounds",
        Kind::Misaligned => "misaligned access",
        Kind::WriteToReadOnly => "write to memory that may only be read",
        Kind::Uninitialized => "read of uninitialized threadgroup memory",
        Kind::Stale => "read of a buffer without contents",
        Kind::UndefinedConstant => "function constant without a value",
        Kind::RaceInThreadgroup => "race within a threadgroup",
        Kind::OrderedByLockstep => "accesses that only lockstep orders",
        Kind::BarrierWithoutFlag => "barrier without the flag of this memory",
        Kind::RaceBetweenThreadgroups => "race between threadgroups",
        Kind::MissingHazard => "commands that nothing orders",
        Kind::DivergentBarrier => "divergent barrier",
        Kind::DivergentSimd => "divergent simdgroup operation",
        Kind::AbsentLane => "shuffle from an absent lane",
        Kind::Limit => "limit of the device exceeded",
        Kind::DivisionByZero => "integer division by zero",
        Kind::ShiftCount => "shift by more bits than there are",
        Kind::DivisionOverflow => "overflow of an integer division",
    }
}

fn advice(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::RaceInThreadgroup => {
            "a threadgroup_barrier with this memory's flag must stand between them"
        }
        Kind::OrderedByLockstep => {
            "a simdgroup_barrier with this memory's flag must stand between them"
        }
        Kind::BarrierWithoutFlag => {
            "the barrier between them waits, but does not make this memory's writes visible"
        }
        Kind::RaceBetweenThreadgroups => "nothing orders threadgroups of one dispatch",
        Kind::ShiftCount => "mask the count: only its lower bits are meant to matter",
        _ => return None,
    })
}
