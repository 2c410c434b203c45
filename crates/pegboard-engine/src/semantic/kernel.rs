//! Dot products of 8-bit integers with SIMD.
//!
//! All kernels return the same results to the last bit: products of 8-bit integers are summed in 32
//! bits, without rounding or overflow. The only module with `unsafe` code: loads through pointers,
//! and calls of functions that need certain instructions.
#![allow(unsafe_code)]

use super::vector::Line;

/// An implementation for this processor.
///
/// Only [`best`](Self::best), and `all` for tests, create one, after querying the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel(Instructions);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Kernel {
    /// Returns the fastest kernel of this processor.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if has_vnni() {
                return Self(Instructions::Avx512Vnni);
            }
            if has_avx2() {
                return Self(Instructions::Avx2);
            }
        }
        Self(Instructions::Portable)
    }

    /// Returns all kernels of this processor, to compare them.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut kernels = vec![Self(Instructions::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(has_avx2().then_some(Self(Instructions::Avx2)));
            kernels.extend(has_vnni().then_some(Self(Instructions::Avx512Vnni)));
        }
        kernels
    }

    /// Computes the products of `query` with the first components of rows that are `stride` lines
    /// long, one for each position in `out`. No component is -128.
    pub(crate) fn dots(self, query: &[Line], rows: &[Line], stride: usize, out: &mut [i32]) {
        match self.0 {
            Instructions::Portable => portable(query, rows, stride, out),
            // SAFETY: this value exists only where `has_avx2` has seen the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { x86::avx2(query, rows, stride, out) },
            // SAFETY: this value exists only where `has_vnni` has seen the instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Vnni => unsafe { x86::avx512_vnni(query, rows, stride, out) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
}

/// Simple enough for the compiler to vectorize with the baseline instructions (NEON on ARM).
fn portable(query: &[Line], rows: &[Line], stride: usize, out: &mut [i32]) {
    for (row, out) in rows.chunks(stride).zip(out) {
        *out = query.iter().zip(row).map(|(a, b)| dot(a, b)).sum();
    }
}

/// Returns the dot product of two lines.
pub(crate) fn dot(a: &Line, b: &Line) -> i32 {
    a.0.iter().zip(&b.0).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_shuffle_epi32, _mm256_abs_epi8, _mm256_add_epi32,
        _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_load_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
        _mm256_set1_epi16, _mm256_setzero_si256, _mm256_sign_epi8, _mm512_dpbusd_epi32, _mm512_load_si512,
        _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_xor_si512,
    };

    use super::{super::vector::LINE, Line};

    /// Multiplies unsigned by signed bytes, four products to a sum. Rows are made unsigned by
    /// adding 128 to each component, which adds 128 times the sum of the query to each product.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(crate) fn avx512_vnni(query: &[Line], rows: &[Line], stride: usize, out: &mut [i32]) {
        let sum: i32 = query.iter().flat_map(|line| line.0).map(i32::from).sum();
        match query {
            // Short queries stay in registers.
            [_, _] => vnni_rows::<2>(query, rows, stride, 128 * sum, out),
            [_, _, _, _] => vnni_rows::<4>(query, rows, stride, 128 * sum, out),
            _ => vnni_long_rows(query, rows, stride, 128 * sum, out),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn vnni_rows<const LINES: usize>(query: &[Line], rows: &[Line], stride: usize, extra: i32, out: &mut [i32]) {
        let flip = _mm512_set1_epi8(-128);
        let mut lines = [_mm512_setzero_si512(); LINES];
        for (register, line) in lines.iter_mut().zip(query) {
            *register = load_512(line);
        }
        for (row, out) in rows.chunks(stride).zip(out) {
            let mut sums = _mm512_setzero_si512();
            for (query, line) in lines.iter().zip(row) {
                sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(load_512(line), flip), *query);
            }
            *out = _mm512_reduce_add_epi32(sums) - extra;
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn vnni_long_rows(query: &[Line], rows: &[Line], stride: usize, extra: i32, out: &mut [i32]) {
        let flip = _mm512_set1_epi8(-128);
        for (row, out) in rows.chunks(stride).zip(out) {
            let mut sums = _mm512_setzero_si512();
            for (query, line) in query.iter().zip(row) {
                sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(load_512(line), flip), load_512(query));
            }
            *out = _mm512_reduce_add_epi32(sums) - extra;
        }
    }

    /// Multiplies unsigned by signed bytes: the query's absolute values, with its signs applied to
    /// the row. Two products fit into 16 bits, because no component is beyond ±127.
    #[target_feature(enable = "avx2")]
    pub(crate) fn avx2(query: &[Line], rows: &[Line], stride: usize, out: &mut [i32]) {
        let ones = _mm256_set1_epi16(1);
        for (row, out) in rows.chunks(stride).zip(out) {
            let mut sums = _mm256_setzero_si256();
            for (query, line) in query.iter().zip(row) {
                for half in 0..2 {
                    let (query, row) = (load_256(query, half), load_256(line, half));
                    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(query), _mm256_sign_epi8(row, query));
                    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
                }
            }
            let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
            let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
            *out = _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two)));
        }
    }

    #[target_feature(enable = "avx512f")]
    fn load_512(line: &Line) -> __m512i {
        // SAFETY: a line is 64 bytes that are initialised, and aligned to 64 by its type.
        unsafe { _mm512_load_si512(line.0.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn load_256(line: &Line, half: usize) -> __m256i {
        let half = &line.0.as_chunks::<{ LINE / 2 }>().0[half];
        // SAFETY: half a line is 32 bytes that are initialised, at 0 or 32 bytes from the
        // start of a line, which is aligned to 64 by its type.
        unsafe { _mm256_load_si256(half.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::vector::LINE, *};

    fn lines(count: usize) -> impl Strategy<Value = Vec<Line>> {
        let component = prop_oneof![-127..=127_i8, Just(127), Just(-127), Just(0)];
        let line = prop::collection::vec(component, LINE)
            .prop_map(|components| Line(std::array::from_fn(|at| components[at])));
        prop::collection::vec(line, count)
    }

    fn query_and_rows() -> impl Strategy<Value = (usize, Vec<Line>, Vec<Line>)> {
        (1..=16_usize, 0..6_usize)
            .prop_flat_map(|(stride, rows)| (Just(stride), 1..=stride, Just(rows)))
            .prop_flat_map(|(stride, length, rows)| (Just(stride), lines(length), lines(stride * rows)))
    }

    proptest! {
        #[test]
        fn all_kernels_agree((stride, query, rows) in query_and_rows()) {
            let row = |row: &[Line]| -> i64 {
                let pairs = query.iter().zip(row).flat_map(|(a, b)| a.0.into_iter().zip(b.0));
                pairs.map(|(a, b)| i64::from(a) * i64::from(b)).sum()
            };
            let expected: Vec<i64> = rows.chunks(stride).map(row).collect();
            for kernel in Kernel::all() {
                let mut out = vec![0; expected.len()];
                kernel.dots(&query, &rows, stride, &mut out);
                prop_assert_eq!(out.into_iter().map(i64::from).collect::<Vec<_>>(), expected.clone(), "{:?}", kernel);
            }
        }
    }

    #[test]
    fn the_largest_products_fit() {
        for (query, row) in [(127, 127), (-127, 127), (127, -127), (-127, -127)] {
            let (query, rows) = (vec![Line([query; LINE]); 16], vec![Line([row; LINE]); 16]);
            for kernel in Kernel::all() {
                let mut out = [0];
                kernel.dots(&query, &rows, 16, &mut out);
                assert_eq!(out[0].unsigned_abs(), 127 * 127 * 1024, "{kernel:?}");
            }
        }
    }
}
