-- Runs with an outcome are found without reading the others. The indexes are not on the counts:
-- these change with each batch, and PostgreSQL would write the run into all its indexes each time.
ALTER TABLE runs
  ADD COLUMN had_unchanged BOOLEAN GENERATED ALWAYS AS (unchanged > 0) STORED,
  ADD COLUMN had_changed BOOLEAN GENERATED ALWAYS AS (changed > 0) STORED,
  ADD COLUMN had_skipped BOOLEAN GENERATED ALWAYS AS (skipped > 0) STORED,
  ADD COLUMN had_rolled_back BOOLEAN GENERATED ALWAYS AS (rolled_back > 0) STORED,
  ADD COLUMN had_failed BOOLEAN GENERATED ALWAYS AS (failed > 0) STORED,
  ADD COLUMN had_unreachable BOOLEAN GENERATED ALWAYS AS (unreachable > 0) STORED,
  ADD COLUMN had_lost BOOLEAN GENERATED ALWAYS AS (lost > 0) STORED,
  ADD COLUMN had_cancelled BOOLEAN GENERATED ALWAYS AS (cancelled > 0) STORED;
CREATE INDEX runs_unchanged ON runs (created, seq, tenant) WHERE had_unchanged;
CREATE INDEX runs_changed ON runs (created, seq, tenant) WHERE had_changed;
CREATE INDEX runs_skipped ON runs (created, seq, tenant) WHERE had_skipped;
CREATE INDEX runs_rolled_back ON runs (created, seq, tenant) WHERE had_rolled_back;
CREATE INDEX runs_failed ON runs (created, seq, tenant) WHERE had_failed;
CREATE INDEX runs_unreachable ON runs (created, seq, tenant) WHERE had_unreachable;
CREATE INDEX runs_lost ON runs (created, seq, tenant) WHERE had_lost;
CREATE INDEX runs_cancelled ON runs (created, seq, tenant) WHERE had_cancelled;
