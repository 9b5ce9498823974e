-- Runs that wait, run or stopped are found without reading those that finished, which are most of a
-- large ledger.
CREATE INDEX runs_phase ON runs (phase, created, seq) WHERE phase <> 'finished';
