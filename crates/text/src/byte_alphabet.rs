//! The printable alphabet in which byte-level BPE vocabularies spell bytes (GPT-2's `bytes_to_unicode`).

/// The character that stands for each byte: itself where it is printable Latin-1, otherwise the next
/// character from U+0100 on.
const CHARACTERS: [char; 256] = characters();

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

const fn characters() -> [char; 256] {
    let mut table = ['\0'; 256];
    let mut shifted = 0x100;
    let mut byte = 0;
    while byte < 256 {
        table[byte] = if is_printable(byte as u8) {
            byte as u8 as char
        } else {
            shifted += 1;
            match char::from_u32(shifted - 1) {
                Some(c) => c,
                None => unreachable!(),
            }
        };
        byte += 1;
    }
    table
}

/// The character that stands for `byte`.
pub fn character_of(byte: u8) -> char {
    CHARACTERS[usize::from(byte)]
}

/// Appends the bytes that `text` spells. A character outside the alphabet stands for itself.
pub fn push_bytes(text: &str, bytes: &mut Vec<u8>) {
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ 0..=0xFF => {
            let byte = code as u8;
            is_printable(byte).then_some(byte)
        }
        code @ 0x100..=0x143 => SHIFTED.get(code as usize - 0x100).copied(),
        _ => None,
    }
}

/// The bytes that U+0100, U+0101, … stand for.
const SHIFTED: [u8; 68] = {
    let mut table = [0; 68];
    let mut len = 0;
    let mut byte = 0;
    while byte < 256 {
        if !is_printable(byte as u8) {
            table[len] = byte as u8;
            len += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_known_from_gpt2() {
        assert_eq!(character_of(b' '), 'Ġ');
        assert_eq!(character_of(b'\n'), 'Ċ');
        assert_eq!(character_of(b'a'), 'a');
        assert_eq!(character_of(0xAD), '\u{143}');
        assert_eq!(character_of(0xE9), 'é');
    }

    #[test]
    fn every_byte_survives() {
        let all: Vec<u8> = (0..=255).collect();
        let text: String = all.iter().map(|&b| character_of(b)).collect();
        let mut back = Vec::new();
        push_bytes(&text, &mut back);
        assert_eq!(back, all);
    }

    #[test]
    fn characters_outside_the_alphabet_stand_for_themselves() {
        let mut bytes = Vec::new();
        push_bytes("日Ġ\n", &mut bytes);
        assert_eq!(bytes, "日 \n".as_bytes());
    }
}
