/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The Python stack of the current thread: read from the interpreter's memory, with the offsets user space
 * found. What a code object is (file, function, line table) is sent once; a frame names it by a number. */
#pragma once

#include "event.h"
#include "thread_state.h"

#define PYTHON_FRAMES 64 /* a power of two */
#define TEXT_BYTES 256   /* a power of two */
#define LINES_BYTES 4096

enum frame_flags {
    FRAME_ENTRY = 1, /* the outermost Python frame of one run of the eval loop */
};

struct python_frame {
    u64 code;    /* its number, see code_number() */
    u64 address; /* of the code object */
    u32 instr;   /* byte offset of the executing instruction */
    u32 flags;   /* enum frame_flags */
    u64 foot;    /* of an entry: where on the native stack its run of the eval loop is; 0 where not known */
};

struct python_stack {
    struct python_frame frames[PYTHON_FRAMES];
};

/* A str object as it is: user space knows how to read it. */
struct python_text {
    u64 length;
    u32 state;
    u32 bytes;
    u8 data[TEXT_BYTES];
};

/* A code object, when it is first seen on a stack that is sent. */
struct code_record {
    struct record head;
    u64 code;
    u64 address;
    u32 first_line;
    u32 lines_bytes; /* of the table; user space reads on where it is longer than there is room */
    struct python_text file;
    struct python_text name;
    u8 lines[LINES_BYTES];
};

struct code_key {
    u64 code;
    u32 tgid;
    u32 reserved;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct code_key);
    __type(value, u8);
} codes_seen SEC(".maps");

/* All that is read of a frame lies at its beginning: read at once, as every read by itself takes as long. */
#define FRAME_BYTES 128 /* a power of two */

struct frame_copy {
    u64 words[FRAME_BYTES / 8];
    u64 address;
    bool is_there; /* not at the end of a mapping, where fields are read one by one */
};

static __always_inline void copy_frame(struct frame_copy *copy, u64 frame) {
    copy->address = frame;
    copy->is_there = !bpf_probe_read_user(copy->words, sizeof(copy->words), (void *)frame);
}

static __always_inline u64 frame_word(const struct frame_copy *copy, u32 offset) {
    if (!copy->is_there || offset >= FRAME_BYTES)
        return user_word(copy->address + offset);
    barrier_var(offset);
    return copy->words[offset / 8 & (FRAME_BYTES / 8 - 1)];
}

static __always_inline u32 frame_half(const struct frame_copy *copy, u32 offset) {
    if (!copy->is_there || offset >= FRAME_BYTES)
        return user_half(copy->address + offset);
    barrier_var(offset);
    return ((const u32 *)copy->words)[offset / 4 & (FRAME_BYTES / 4 - 1)];
}

static __always_inline u8 frame_byte(const struct frame_copy *copy, u32 offset) {
    if (!copy->is_there || offset >= FRAME_BYTES)
        return user_byte(copy->address + offset);
    barrier_var(offset);
    return ((const u8 *)copy->words)[offset & (FRAME_BYTES - 1)];
}

/* Where the instructions begin that a frame points into. */
static __always_inline u64 first_instruction(const struct python *python, const struct frame_copy *frame,
                                             u64 code) {
    u64 first = code + python->code_adaptive;
    if (python->code_tlbc) {
        u32 copy = frame_half(frame, python->frame_tlbc_index);
        u64 copies = user_word(code + python->code_tlbc);
        if (copy && copies)
            return user_word(copies + python->tlbc_entries + (u64)copy * 8);
    }
    return first;
}

static __always_inline u32 executing(const struct python *python, const struct frame_copy *frame, u64 code) {
    switch (python->instr_kind) {
    case INSTR_LASTI_BYTES:
        return frame_half(frame, python->frame_instr);
    case INSTR_LASTI_UNITS:
        return frame_half(frame, python->frame_instr) * 2;
    default:
        return frame_word(frame, python->frame_instr) - first_instruction(python, frame, code);
    }
}

/* A code object's number: its address, and that of its line table, as addresses are used again. */
static __always_inline u64 code_number(const struct python *python, u64 code) {
    u64 lines = user_word(code + python->code_linetable);
    return (code ^ (lines << 20 | lines >> 44)) * 0x9e3779b97f4a7c15ULL;
}

/* One frame of the chain into `out`: 0 where it is no Python function, else 1. */
static __always_inline bool read_frame(const struct python *python, const struct frame_copy *frame,
                                       struct python_frame *out) {
    if (python->owner_shim != ~0u && frame_byte(frame, python->frame_owner) >= python->owner_shim)
        return false;
    u64 code = frame_word(frame, python->frame_code) & python->code_mask;
    out->address = code;
    out->code = code_number(python, code);
    out->instr = executing(python, frame, code);
    out->flags = 0;
    if (python->frame_via == FRAME_OBJECT ||
        (python->frame_is_entry && frame_byte(frame, python->frame_is_entry)))
        out->flags = FRAME_ENTRY;
    return true;
}

/* On the way outwards. */
struct walk {
    u64 frame;
    u32 count; /* frames taken */
    u32 reserved;
};

/* Takes one frame and goes to the next; whether there is one. Global, and so are others below: the verifier
 * then goes through it once, and not once for every way through those before. */
__noinline int take_frame(struct python *python, struct python_stack *stack, struct walk *walk) {
    if (!python || !stack || !walk || !walk->frame || walk->count >= PYTHON_FRAMES)
        return 0;
    struct python_frame read = {};
    struct frame_copy copy;
    copy_frame(&copy, walk->frame);
    bool is_function = read_frame(python, &copy, &read);
    u64 previous = frame_word(&copy, python->frame_previous);
    u32 count = walk->count;
    if (is_function) {
        if (!previous)
            read.flags |= FRAME_ENTRY;
        stack->frames[count & (PYTHON_FRAMES - 1)] = read;
        walk->count = count + 1;
    } else if (count) {
        /* From 3.12 on a run of the loop has a frame of its own among its variables. The thread state may
         * have another one beyond. */
        struct python_frame *entry = &stack->frames[(count - 1) & (PYTHON_FRAMES - 1)];
        entry->flags |= FRAME_ENTRY;
        if (!entry->foot)
            entry->foot = walk->frame;
    }
    walk->frame = previous;
    return 1;
}

/* The frames from `frame` outwards; gives how many. */
__noinline u32 walk_frames(struct python *python, struct python_stack *stack, u64 frame) {
    if (!python || !stack)
        return 0;
    struct walk walk = {.frame = frame};
    for (u32 i = 0; i < 2 * PYTHON_FRAMES; i++)
        if (!take_frame(python, stack, &walk))
            break;
    return walk.count;
}

static __always_inline void read_text(const struct python *python, u64 object, struct python_text *out) {
    out->length = user_word(object + python->unicode_length);
    out->state = user_half(object + python->unicode_state);
    u64 data = object + (out->state & python->unicode_ascii_mask ? python->unicode_ascii_data
                                                                 : python->unicode_compact_data);
    /* Room for what it may be, at four bytes a character; the rest of the room says nothing. */
    u64 bytes = out->length * (out->state & python->unicode_ascii_mask ? 1 : 4);
    out->bytes = bytes < TEXT_BYTES ? bytes : TEXT_BYTES;
    if (bpf_probe_read_user(out->data, sizeof(out->data), (void *)data)) {
        /* At the end of a mapping: as much as there is. */
        u32 exact = out->bytes & (TEXT_BYTES - 1);
        if (bpf_probe_read_user(out->data, exact, (void *)data))
            out->bytes = 0;
    }
}

__noinline int send_code(struct python *python, struct python_frame *frame, u32 cpu) {
    if (!python || !frame)
        return 0;
    struct code_key key = {.code = frame->code, .tgid = bpf_get_current_pid_tgid() >> 32};
    if (bpf_map_lookup_elem(&codes_seen, &key))
        return 0;
    void *ring = ring_of_cpu(cpu);
    struct code_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_STACK_RING);
        return 0;
    }
    fill_header(&out->head, RECORD_CODE, bpf_ktime_get_ns());
    out->code = frame->code;
    out->address = frame->address;
    out->first_line = user_half(frame->address + python->code_firstlineno);
    read_text(python, user_word(frame->address + python->code_filename), &out->file);
    read_text(python, user_word(frame->address + python->code_name), &out->name);
    u64 lines = user_word(frame->address + python->code_linetable);
    u64 bytes = user_word(lines + python->bytes_size);
    out->lines_bytes = bytes < (1u << 31) ? bytes : 0;
    if (bpf_probe_read_user(out->lines, sizeof(out->lines), (void *)(lines + python->bytes_data))) {
        u32 exact = out->lines_bytes & (LINES_BYTES - 1);
        if (bpf_probe_read_user(out->lines, exact, (void *)(lines + python->bytes_data)))
            out->lines_bytes = 0;
    }
    bpf_ringbuf_submit(out, submit_flags(ring));
    u8 sent = 1;
    bpf_map_update_elem(&codes_seen, &key, &sent, BPF_ANY);
    return 0;
}

KEEP_TYPE(enum, frame_flags);
KEEP_TYPE(struct, python_frame);
KEEP_TYPE(struct, code_record);
