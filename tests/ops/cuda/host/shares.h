// Which numbers of an event's record are between 0 and 1: the gates (i, f and o of an LSTM, r and z of a GRU) and the openness.
#pragma once

namespace phased {

inline bool is_share(int i) { return i < 2 || (Cell::has_c && i == 3) || i == kRecord - 1; }

}  // namespace phased
