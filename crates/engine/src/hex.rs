//! Bytes as text.

#[allow(dead_code, reason = "some features have nothing to write like this")]
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()));
    let digits: Vec<u8> = digits.collect::<Option<_>>()?;
    digits.chunks(2).map(|pair| Some(pair[0] << 4 | pair.get(1)?)).collect()
}
