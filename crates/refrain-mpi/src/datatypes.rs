//! Sizes of predefined datatypes on 64-bit Linux; those of Fortran with the default options of compilers.

/// Sizes in bytes, and the predefined datatypes of that size.
const PREDEFINED: [(u64, &str); 9] = [
    (0, "LB UB"),
    (
        1,
        "BYTE PACKED CHAR SIGNED_CHAR UNSIGNED_CHAR INT8_T UINT8_T C_BOOL CXX_BOOL \
         CHARACTER LOGICAL1 INTEGER1",
    ),
    (2, "SHORT UNSIGNED_SHORT INT16_T UINT16_T LOGICAL2 INTEGER2 REAL2"),
    (
        4,
        "WCHAR INT UNSIGNED INT32_T UINT32_T FLOAT LOGICAL INTEGER REAL LOGICAL4 \
         INTEGER4 REAL4 COMPLEX4",
    ),
    (6, "SHORT_INT"),
    (
        8,
        "AINT COUNT OFFSET LONG UNSIGNED_LONG LONG_LONG_INT LONG_LONG \
         UNSIGNED_LONG_LONG INT64_T UINT64_T DOUBLE C_FLOAT_COMPLEX C_COMPLEX \
         CXX_FLOAT_COMPLEX CXX_COMPLEX DOUBLE_PRECISION COMPLEX LOGICAL8 INTEGER8 REAL8 \
         COMPLEX8 FLOAT_INT 2INT 2REAL 2INTEGER",
    ),
    (12, "DOUBLE_INT LONG_INT"),
    (
        16,
        "LONG_DOUBLE C_DOUBLE_COMPLEX CXX_DOUBLE_COMPLEX DOUBLE_COMPLEX LOGICAL16 \
         INTEGER16 REAL16 COMPLEX16 2DOUBLE_PRECISION 2COMPLEX",
    ),
    (32, "C_LONG_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX COMPLEX32 2DOUBLE_COMPLEX"),
];

/// The size of a predefined datatype, such as `MPI_INT`.
pub fn predefined_size(name: &str) -> Option<u64> {
    match name {
        "MPI_LONG_DOUBLE_INT" => return Some(20),
        "MPIX_C_FLOAT16" | "MPIX_BFLOAT16" => return Some(2),
        _ => {}
    }
    let name = name.strip_prefix("MPI_")?;
    let has = |(_, names): &&(u64, &str)| names.split(' ').any(|one| one == name);
    PREDEFINED.iter().find(has).map(|(size, _)| *size)
}
