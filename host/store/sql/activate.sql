-- Puts a signed activation in force. Returns the reason if it cannot, otherwise an empty text.
SELECT activate(
    base => ?base, new_number => ?number, new_signed => ?signed, new_hash => ?hash, new_revision => ?revision,
    new_canary => ?canary, new_share => ?share, new_reason => ?reason, at_time => ?at, entries => ?entries
)
