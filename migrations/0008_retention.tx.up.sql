-- Where the audit chains were cut when records were past their retention (spec section 8). An anchor stays for ever: what is left of its
-- chain is verified from it on. A record of kind "pruning" behind it names its number and hash.
CREATE TABLE audit_anchors (
    chain integer NOT NULL,
    seq   bigint NOT NULL, -- of the last record that was pruned
    note  text NOT NULL,   -- signed by a host, see audit.OpenAnchor
    PRIMARY KEY (chain, seq)
);
