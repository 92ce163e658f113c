// SPDX-License-Identifier: Apache-2.0 OR MIT
// Prints one CPython's layout as Rust, from that version's own internal headers: what `table.sh` puts into
// the table.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <internal/pycore_code.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#else
#include <frameobject.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe.h>
#endif

#if PY_VERSION_HEX >= 0x030d0000
// Beside the offset, where the running process publishes it.
#define PUBLISHED(field) offsetof(_Py_DebugOffsets, field)
#else
#define PUBLISHED(field) 0
#endif

static int wants_published;

static void field(const char *name, unsigned long long value, size_t published) {
    printf("        %s: %llu,\n", name, wants_published ? (unsigned long long)published : value);
}

static void word(const char *name, const char *value) {
    printf("        %s: %s,\n", name, value);
}

#define HERE(name, type, member, published) field(name, offsetof(type, member), PUBLISHED(published))
#define ABSENT(name) field(name, 0, 0)

static void runtime(void) {
    HERE("interpreters_head", _PyRuntimeState, interpreters.head, runtime_state.interpreters_head);
#if PY_VERSION_HEX < 0x030c0000
    HERE("tstate_current", _PyRuntimeState, gilstate.tstate_current, none);
#else
    ABSENT("tstate_current");
#endif
    HERE("interp_next", PyInterpreterState, next, interpreter_state.next);
#if PY_VERSION_HEX < 0x030b0000
    HERE("interp_threads_head", PyInterpreterState, tstate_head, none);
#else
    HERE("interp_threads_head", PyInterpreterState, threads.head, interpreter_state.threads_head);
#endif
}

static void thread(void) {
    HERE("tstate_next", PyThreadState, next, thread_state.next);
    HERE("tstate_thread_id", PyThreadState, thread_id, thread_state.thread_id);
#if PY_VERSION_HEX >= 0x030b0000
    HERE("tstate_native_thread_id", PyThreadState, native_thread_id, thread_state.native_thread_id);
#else
    ABSENT("tstate_native_thread_id");
#endif
#if PY_VERSION_HEX >= 0x030c0000
    PyThreadState state;
    unsigned int bits;
    memset(&state, 0, sizeof(state));
    state._status.active = 1;
    memcpy(&bits, &state._status, sizeof(bits));
    HERE("tstate_status", PyThreadState, _status, thread_state.status);
    field("tstate_active_mask", bits, 0);
#else
    ABSENT("tstate_status");
    ABSENT("tstate_active_mask");
#endif
#if PY_VERSION_HEX >= 0x030d0000
    HERE("tstate_frame", PyThreadState, current_frame, thread_state.current_frame);
    word("frame_via", "FrameVia::Direct");
    ABSENT("cframe_current_frame");
#elif PY_VERSION_HEX >= 0x030b0000
    HERE("tstate_frame", PyThreadState, cframe, none);
    word("frame_via", "FrameVia::Cframe");
    HERE("cframe_current_frame", _PyCFrame, current_frame, none);
#else
    HERE("tstate_frame", PyThreadState, frame, none);
    word("frame_via", "FrameVia::FrameObject");
    ABSENT("cframe_current_frame");
#endif
}

static void collector(void) {
    HERE("tstate_interp", PyThreadState, interp, thread_state.interp);
    HERE("interp_gc", PyInterpreterState, gc, interpreter_state.gc);
    HERE("gc_collecting", struct _gc_runtime_state, collecting, gc.collecting);
}

static void frame(void) {
#if PY_VERSION_HEX >= 0x030d0000
    HERE("frame_code", struct _PyInterpreterFrame, f_executable, interpreter_frame.executable);
#elif PY_VERSION_HEX >= 0x030b0000
    HERE("frame_code", struct _PyInterpreterFrame, f_code, none);
#else
    HERE("frame_code", PyFrameObject, f_code, none);
#endif
    // The two lowest bits of a stack reference are a tag, in every build of 3.14.
    word("frame_code_mask", PY_VERSION_HEX >= 0x030e0000 ? "!3" : "!0");
#if PY_VERSION_HEX >= 0x030b0000
    HERE("frame_previous", struct _PyInterpreterFrame, previous, interpreter_frame.previous);
#else
    HERE("frame_previous", PyFrameObject, f_back, none);
#endif
#if PY_VERSION_HEX >= 0x030d0000
    HERE("frame_instr", struct _PyInterpreterFrame, instr_ptr, interpreter_frame.instr_ptr);
    word("instr_kind", "InstrKind::InstrPtr");
#elif PY_VERSION_HEX >= 0x030b0000
    HERE("frame_instr", struct _PyInterpreterFrame, prev_instr, none);
    word("instr_kind", "InstrKind::PrevInstr");
#else
    HERE("frame_instr", PyFrameObject, f_lasti, none);
    word("instr_kind", PY_VERSION_HEX >= 0x030a0000 ? "InstrKind::LastiUnits" : "InstrKind::LastiBytes");
#endif
#if PY_VERSION_HEX >= 0x030e0000 && defined(Py_GIL_DISABLED)
    HERE("frame_tlbc_index", struct _PyInterpreterFrame, tlbc_index, interpreter_frame.tlbc_index);
#else
    ABSENT("frame_tlbc_index");
#endif
#if PY_VERSION_HEX >= 0x030b0000
    HERE("frame_owner", struct _PyInterpreterFrame, owner, interpreter_frame.owner);
#else
    ABSENT("frame_owner");
#endif
#if PY_VERSION_HEX >= 0x030e0000
    field("owner_shim", FRAME_OWNED_BY_INTERPRETER, 0);
#elif PY_VERSION_HEX >= 0x030c0000
    field("owner_shim", FRAME_OWNED_BY_CSTACK, 0);
#else
    word("owner_shim", "u32::MAX");
#endif
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
    HERE("frame_is_entry", struct _PyInterpreterFrame, is_entry, none);
#else
    ABSENT("frame_is_entry");
#endif
}

static void code(void) {
    HERE("code_filename", PyCodeObject, co_filename, code_object.filename);
    HERE("code_name", PyCodeObject, co_name, code_object.name);
#if PY_VERSION_HEX >= 0x030b0000
    HERE("code_qualname", PyCodeObject, co_qualname, code_object.qualname);
#else
    ABSENT("code_qualname");
#endif
    HERE("code_firstlineno", PyCodeObject, co_firstlineno, code_object.firstlineno);
#if PY_VERSION_HEX >= 0x030a0000
    HERE("code_linetable", PyCodeObject, co_linetable, code_object.linetable);
#else
    HERE("code_linetable", PyCodeObject, co_lnotab, none);
#endif
#if PY_VERSION_HEX >= 0x030b0000
    HERE("code_adaptive", PyCodeObject, co_code_adaptive, code_object.co_code_adaptive);
#else
    ABSENT("code_adaptive");
#endif
#if PY_VERSION_HEX >= 0x030e0000 && defined(Py_GIL_DISABLED)
    HERE("code_tlbc", PyCodeObject, co_tlbc, code_object.co_tlbc);
    field("tlbc_entries", offsetof(_PyCodeArray, entries), 0);
#else
    ABSENT("code_tlbc");
    ABSENT("tlbc_entries");
#endif
}

static void objects(void) {
    PyASCIIObject kind, ascii;
    unsigned int kind_word, ascii_word, shift = 0;
    memset(&kind, 0, sizeof(kind));
    memset(&ascii, 0, sizeof(ascii));
    kind.state.kind = 7;
    ascii.state.ascii = 1;
    memcpy(&kind_word, &kind.state, sizeof(kind_word));
    memcpy(&ascii_word, &ascii.state, sizeof(ascii_word));
    while (!(kind_word >> shift & 1))
        shift++;

    HERE("unicode_length", PyASCIIObject, length, unicode_object.length);
    HERE("unicode_state", PyASCIIObject, state, unicode_object.state);
    field("unicode_kind_shift", shift, 0);
    field("unicode_ascii_mask", ascii_word, 0);
    field("unicode_ascii_data", sizeof(PyASCIIObject), PUBLISHED(unicode_object.asciiobject_size));
    field("unicode_compact_data", sizeof(PyCompactUnicodeObject), 0);
    HERE("bytes_size", PyVarObject, ob_size, bytes_object.ob_size);
    HERE("bytes_data", PyBytesObject, ob_sval, bytes_object.ob_sval);
}

static void gil(void) {
#if PY_VERSION_HEX >= 0x030c0000
    HERE("gil", PyInterpreterState, ceval.gil, interpreter_state.ceval_gil);
    field("gil_is_pointer", 1, 0);
#else
    HERE("gil", _PyRuntimeState, ceval.gil, none);
    field("gil_is_pointer", 0, 0);
#endif
    field("gil_bytes", sizeof(struct _gil_runtime_state), 0);
    // What is published of these counts from the start of the interpreter that has the GIL, which need not be
    // this one.
    field("gil_last_holder", offsetof(struct _gil_runtime_state, last_holder), 0);
    field("gil_locked", offsetof(struct _gil_runtime_state, locked), 0);
}

int main(int argc, char **argv) {
    (void)argv;
    wants_published = argc > 1;
    printf("    // From the headers of %s.\n    Layout {\n", PY_VERSION);
    runtime();
    thread();
    collector();
    frame();
    code();
    objects();
    gil();
    printf("    }");
    return 0;
}
