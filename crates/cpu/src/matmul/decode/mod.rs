//! Products for generated rows: weights stream through once for up to 16 rows.
