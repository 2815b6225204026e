-- An account's contribution to a node of the reputation graph.
SELECT checks, blocked, reviewed, first_seen, last_seen FROM graph_sightings WHERE node = ?node AND account = ?account
