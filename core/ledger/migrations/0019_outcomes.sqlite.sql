-- Runs with an outcome are found without reading the others.
CREATE INDEX runs_unchanged ON runs (created, seq, tenant) WHERE unchanged > 0;
CREATE INDEX runs_changed ON runs (created, seq, tenant) WHERE changed > 0;
CREATE INDEX runs_skipped ON runs (created, seq, tenant) WHERE skipped > 0;
CREATE INDEX runs_rolled_back ON runs (created, seq, tenant) WHERE rolled_back > 0;
CREATE INDEX runs_failed ON runs (created, seq, tenant) WHERE failed > 0;
CREATE INDEX runs_unreachable ON runs (created, seq, tenant) WHERE unreachable > 0;
CREATE INDEX runs_lost ON runs (created, seq, tenant) WHERE lost > 0;
CREATE INDEX runs_cancelled ON runs (created, seq, tenant) WHERE cancelled > 0;
