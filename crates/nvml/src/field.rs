//! Numbered values a GPU has, of which some exist once for each link.

use crate::Error;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::struct_wrappers::device::FieldValueSample;
use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

/// As a scope: the sum over all links.
pub const ALL_LINKS: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// One of [`crate::field_id`]. Numbers from 251 to 273 mean different things in different drivers; none is used.
    pub id: u32,
    /// A link's number, [`ALL_LINKS`], or 0 where the field exists once.
    pub scope: u32,
}

impl Field {
    pub(crate) fn question(&self) -> nvmlFieldValue_t {
        nvmlFieldValue_t {
            fieldId: self.id,
            scopeId: self.scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        }
    }

    pub(crate) fn answer(value: nvmlFieldValue_t) -> Result<u64, Error> {
        Ok(match FieldValueSample::try_from(value)?.value? {
            SampleValue::U32(value) => value.into(),
            SampleValue::U64(value) => value,
            SampleValue::I64(value) => value.max(0) as u64,
            SampleValue::F64(value) => value as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvml_wrapper_sys::bindings::{
        nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
        nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
    };

    #[test]
    fn answers_are_read_by_their_type() {
        let mut value = Field { id: 138, scope: ALL_LINKS }.question();
        assert_eq!((value.fieldId, value.scopeId), (138, u32::MAX));
        value.value.ullVal = (7 << 32) | 5;
        value.valueType = nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT;
        assert_eq!(Field::answer(value).unwrap(), 5);
        value.valueType = nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        assert_eq!(Field::answer(value).unwrap(), (7 << 32) | 5);
        value.nvmlReturn = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED;
        assert!(matches!(Field::answer(value), Err(Error::NotSupported)));
    }
}
