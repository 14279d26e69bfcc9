//! What can go wrong at a code host, and what may help.
