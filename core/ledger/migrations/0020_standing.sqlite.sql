-- Each index of runs is written when a run is accepted, queued and ended. One index of unfinished
-- runs does for three, and runs without a key are not among those with one.
DROP INDEX runs_open;
DROP INDEX runs_open_tenant;
DROP INDEX runs_standing;
DROP INDEX runs_idempotency;
CREATE INDEX runs_standing ON runs (tenant, seq) WHERE ended = 0;
CREATE UNIQUE INDEX runs_idempotency ON runs (tenant, idempotency) WHERE idempotency IS NOT NULL;
