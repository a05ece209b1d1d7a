//! Character classes of the splitting expressions.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// The class of a character as the expressions see it: `\s` first, then `\p{L}`, `\p{N}`, `\p{M}`, `\p{P}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Space,
    Letter,
    Number,
    Mark,
    Punctuation,
    Other,
}

const ASCII: [Class; 128] = {
    let mut table = [Class::Other; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'\t'..=b'\r' | b' ' => Class::Space,
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Number,
            // Symbols in Unicode, not punctuation.
            b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~' => Class::Other,
            b if b.is_ascii_punctuation() => Class::Punctuation,
            _ => Class::Other,
        };
        byte += 1;
    }
    table
};

impl Class {
    pub fn of(c: char) -> Self {
        match ASCII.get(c as usize) {
            Some(&class) => class,
            None => Class::of_unicode(c),
        }
    }

    fn of_unicode(c: char) -> Self {
        match c.general_category_group() {
            GeneralCategoryGroup::Letter => Class::Letter,
            GeneralCategoryGroup::Number => Class::Number,
            GeneralCategoryGroup::Mark => Class::Mark,
            GeneralCategoryGroup::Punctuation => Class::Punctuation,
            _ if c.is_whitespace() => Class::Space,
            _ => Class::Other,
        }
    }

    pub fn is_space(self) -> bool {
        self == Class::Space
    }

    pub fn is_letter(self) -> bool {
        self == Class::Letter
    }

    pub fn is_number(self) -> bool {
        self == Class::Number
    }

    pub fn is_mark(self) -> bool {
        self == Class::Mark
    }

    pub fn is_punctuation(self) -> bool {
        self == Class::Punctuation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_agrees_with_unicode() {
        for c in '\0'..='\x7f' {
            assert_eq!(Class::of(c), Class::of_unicode(c), "{c:?}");
        }
    }

    #[test]
    fn characters_of_every_class() {
        assert_eq!(Class::of('中'), Class::Letter);
        assert_eq!(Class::of('²'), Class::Number);
        assert_eq!(Class::of('\u{301}'), Class::Mark);
        assert_eq!(Class::of('。'), Class::Punctuation);
        assert_eq!(Class::of('\u{a0}'), Class::Space);
        assert_eq!(Class::of('\u{85}'), Class::Space);
        assert_eq!(Class::of('€'), Class::Other);
        assert_eq!(Class::of('\u{200b}'), Class::Other);
    }
}
