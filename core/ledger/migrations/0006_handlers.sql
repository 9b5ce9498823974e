-- Handlers that did not succeed after a change on a host. A run replaces what it took over, and
-- leaves its own.
CREATE TABLE handlers (
  seq      {serial},
  tenant   {text} NOT NULL,           -- of the run
  playbook {text} NOT NULL,
  host     {text} NOT NULL,
  handler  {text} NOT NULL,
  run      {text} NOT NULL,           -- that left it
  since    BIGINT NOT NULL
);
CREATE UNIQUE INDEX handlers_one ON handlers (tenant, playbook, host, handler, run);
CREATE INDEX handlers_run ON handlers (run);
