//! What the targets share: how an input is taken apart.

/// The text of `bytes`, if they are one.
pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// `bytes` without the first, which says how the rest is treated.
pub fn choice(bytes: &[u8]) -> Option<(u8, &[u8])> {
    bytes.split_first().map(|(first, rest)| (*first, rest))
}

/// `bytes` in pieces of sizes that follow from `seed`: a stream arrives as the network likes.
pub fn pieces(seed: u8, bytes: &[u8]) -> Vec<&[u8]> {
    // Some seeds stand for the two ends: byte by byte, and everything at once.
    let most = match seed {
        0 => bytes.len().max(1),
        1 => 1,
        seed => usize::from(seed >> 2) + 2,
    };
    let mut state = u32::from(seed).wrapping_mul(0x9E37_79B9) | 1;
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let size = if seed == 0 { most } else { state as usize % most + 1 };
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
