//! The time that a template sees.

use jiff::ZonedDateTime;
use jiff::fmt::strtime::BrokenDownTime;

use super::TemplateError;

/// A moment with a time zone.
#[derive(Clone, Debug)]
pub struct RenderTime(ZonedDateTime);

impl RenderTime {
    /// The present, in the time zone of the machine.
    pub fn now() -> Self {
        RenderTime(ZonedDateTime::now())
    }

    /// Parses RFC 3339, for example `2026-11-29T12:00:00Z`; the offset given is the time zone.
    ///
    /// # Errors
    /// [`TemplateError::Time`] if `text` is no such time.
    pub fn from_rfc3339(text: &str) -> Result<Self, TemplateError> {
        let parsed = BrokenDownTime::parse(
            "%Y-%m-%dT%H:%M:%S%.f%:z",
            text.replace(['Z', 'z'], "+00:00"),
        );
        let zoned = parsed.and_then(|time| time.to_zoned_datetime());
        zoned.map(RenderTime).map_err(|e| TemplateError::Time {
            text: text.to_owned(),
            reason: e.to_string(),
        })
    }

    /// The time as [`RenderTime::from_rfc3339`] reads it; of the time zone only the offset remains.
    ///
    /// # Errors
    /// [`TemplateError::Time`] for a year that RFC 3339 cannot write.
    pub fn to_rfc3339(&self) -> Result<String, TemplateError> {
        let written = jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S%.f%:z", &self.0);
        written.map_err(|e| TemplateError::Time {
            text: self.0.to_string(),
            reason: e.to_string(),
        })
    }

    /// Formats like Python's `datetime.strftime`.
    pub(super) fn strftime(&self, format: &str) -> Result<String, String> {
        jiff::fmt::strtime::format(format, &self.0).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_as_python_does() {
        let time = RenderTime::from_rfc3339("2026-11-29T09:05:07+02:00").unwrap();
        let formatted = time
            .strftime("%d %b %Y, %A %B %-d %H:%M:%S %I %p %j %y %%")
            .unwrap();
        assert_eq!(
            formatted,
            "29 Nov 2026, Sunday November 29 09:05:07 09 AM 333 26 %"
        );
    }

    #[test]
    fn fractions_and_utc_are_times_and_other_text_is_not() {
        let time = RenderTime::from_rfc3339("2026-11-29T12:00:00.5Z").unwrap();
        assert_eq!(time.strftime("%H:%M %z").unwrap(), "12:00 +0000");
        for text in ["", "yesterday", "2026-11-29", "2026-13-29T12:00:00Z"] {
            assert!(RenderTime::from_rfc3339(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        for text in ["2026-11-29T09:05:07+02:00", "2026-11-29T12:00:00.5-03:30"] {
            let time = RenderTime::from_rfc3339(text).unwrap();
            assert_eq!(time.to_rfc3339().unwrap(), text);
        }
    }

    #[test]
    fn an_unknown_directive_is_an_error() {
        let time = RenderTime::from_rfc3339("2026-11-29T12:00:00Z").unwrap();
        assert!(time.strftime("%!").is_err());
    }
}
