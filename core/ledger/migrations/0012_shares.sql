-- What a run was given after its launch; NULL: as it was launched. max_in_flight 0: no limit.
ALTER TABLE runs ADD COLUMN weight BIGINT;
ALTER TABLE runs ADD COLUMN max_in_flight BIGINT;
