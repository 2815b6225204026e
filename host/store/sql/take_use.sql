-- Counts a client's use and returns the number of uses in the window. Returns no row if the client has reached the
-- limit. The row lock serialises the uses of one client, so the condition sees every earlier use.
INSERT INTO public_uses AS p (client, uses, expires_at)
VALUES (?client, ARRAY[?now::timestamptz], ?expires)
ON CONFLICT (client) DO UPDATE SET
    expires_at = ?expires,
    uses = array_append(times_after(p.uses, ?since), ?now::timestamptz)
WHERE cardinality(times_after(p.uses, ?since)) < ?limit
RETURNING cardinality(uses)
