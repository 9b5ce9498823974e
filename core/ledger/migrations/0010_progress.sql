-- How far the engine has come with a run: JSON, '' at its beginning.
ALTER TABLE runs ADD COLUMN progress TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_ending ON runs (seq) WHERE ended = 0 AND phase = 'cancelled';
