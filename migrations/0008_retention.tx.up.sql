-- Points at which audit chains were cut after records' retention (contract section 8). Anchors are kept permanently:
-- the rest of a chain is verified from its newest anchor. A later record of kind "pruning" has the anchor's number and
-- hash.
CREATE TABLE audit_anchors (
    chain integer NOT NULL,
    seq   bigint NOT NULL, -- of the last pruned record
    note  text NOT NULL,   -- the signed anchor, see audit.OpenAnchor
    PRIMARY KEY (chain, seq)
);
