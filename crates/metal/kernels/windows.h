// Windows: which cells of a KV region a row sees. The host has checked them.
#pragma once

/// The cells of a row, in up to four runs. A key is counted through all of them.
struct Window {
    uint keys;
    /// Keys up to the end of each run.
    uint4 ends;
    /// What to add to a key of each run to get its cell.
    uint4 shifts;

    uint cell(uint key) const {
        uint shift = shifts.w;
        shift = key < ends.z ? shifts.z : shift;
        shift = key < ends.y ? shifts.y : shift;
        shift = key < ends.x ? shifts.x : shift;
        return key + shift;
    }

    /// Whether another window has the same keys in the same cells, and perhaps more after them.
    bool begins(Window other) const {
        // What is added to a key changes only at the ends of runs.
        bool is_same = keys <= other.keys && cell(0) == other.cell(0);
#pragma clang loop unroll(full)
        for (uint run = 0; run < 4; run++) {
            const uint own = ends[run];
            const uint others = other.ends[run];
            is_same = is_same && (own >= keys || cell(own) == other.cell(own));
            is_same = is_same && (others >= keys || cell(others) == other.cell(others));
        }
        return is_same;
    }
};

/// The window of a row of `width` integers: a position, a span, or a map of four runs.
inline Window window_of(device const int* row, uint width) {
    if (width == 1) {
        const uint keys = uint(row[0]) + 1;
        return Window{keys, uint4(keys), uint4(0)};
    }
    if (width == 2) {
        const uint first = uint(row[0]);
        const uint keys = uint(row[1]) - first;
        return Window{keys, uint4(keys), uint4(first)};
    }
    const uint4 firsts = uint4(row[0], row[2], row[4], row[6]);
    const uint4 lengths = uint4(row[1], row[3], row[5], row[7]);
    uint4 ends = lengths;
    ends.y += ends.x;
    ends.z += ends.y;
    ends.w += ends.z;
    return Window{ends.w, ends, firsts - (ends - lengths)};
}
