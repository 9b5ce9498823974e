-- The sources that the hosts of a run come from, with the generation of each: JSON, '' for none.
ALTER TABLE runs ADD COLUMN sources TEXT NOT NULL DEFAULT '';
