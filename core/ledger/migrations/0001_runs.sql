-- Runs and the outcomes of their jobs. Times are microseconds since 1970, 0 for none.
-- No foreign keys: rows of a run are written under the lock of its row, and PostgreSQL would
-- take that lock again for each row of a batch.
CREATE TABLE runs (
  seq          {serial},
  id           {text} NOT NULL UNIQUE,
  tenant       {text} NOT NULL,
  playbook     {text} NOT NULL,
  revision     {text} NOT NULL,
  launched_by  {text} NOT NULL,
  created      BIGINT NOT NULL,
  ended        BIGINT NOT NULL DEFAULT 0,
  criticality  BIGINT NOT NULL,
  phase        {text} NOT NULL,
  reason       {text} NOT NULL DEFAULT '',
  version      BIGINT NOT NULL DEFAULT 1,
  idempotency  {text},               -- the caller's key, unique in its tenant; NULL for none
  request      {bytes} NOT NULL,     -- hash of what was asked for
  total        BIGINT NOT NULL,
  recorded     BIGINT NOT NULL DEFAULT 0, -- jobs with an outcome: the sum of the eight below
  unchanged    BIGINT NOT NULL DEFAULT 0,
  changed      BIGINT NOT NULL DEFAULT 0,
  skipped      BIGINT NOT NULL DEFAULT 0,
  rolled_back  BIGINT NOT NULL DEFAULT 0,
  failed       BIGINT NOT NULL DEFAULT 0,
  unreachable  BIGINT NOT NULL DEFAULT 0,
  lost         BIGINT NOT NULL DEFAULT 0,
  cancelled    BIGINT NOT NULL DEFAULT 0,
  ranges       BIGINT NOT NULL DEFAULT 0, -- rows of this run in the table ranges
  position     {text} NOT NULL DEFAULT '', -- the queue's cursor behind what is recorded
  incarnation  {text} NOT NULL DEFAULT '', -- of the queue that has the run; '' for none
  claimed_by   {text} NOT NULL DEFAULT '',
  claimed_until BIGINT NOT NULL DEFAULT 0,
  content      BIGINT NOT NULL DEFAULT 1, -- grows when the run is amended; approvals are of one content
  amended_by   {text} NOT NULL DEFAULT '',
  approvals    BIGINT NOT NULL DEFAULT 0  -- how many it needs before it may be queued
);
CREATE UNIQUE INDEX runs_idempotency ON runs (tenant, idempotency);
CREATE INDEX runs_created ON runs (created, seq);
CREATE INDEX runs_tenant ON runs (tenant, created, seq);
CREATE INDEX runs_playbook ON runs (playbook, created, seq);
CREATE INDEX runs_open ON runs (criticality DESC, seq) WHERE ended = 0;
CREATE INDEX runs_ended ON runs (ended, seq) WHERE ended > 0;

-- What is needed to run a run again, apart from the rows that lists read.
CREATE TABLE materials (
  run      BIGINT PRIMARY KEY,
  snapshot {bytes},
  queue    {bytes},
  hosts    {bytes}
);

-- The present outcome of each job that has one. A job without a row may stand in ranges.
-- outcome is '' while a redriven job waits for the outcome of its new life.
CREATE TABLE jobs (
  run      BIGINT NOT NULL,
  idx      BIGINT NOT NULL,
  life     BIGINT NOT NULL,
  host     {text} NOT NULL,
  tenant   {text} NOT NULL,
  outcome  {text} NOT NULL,
  reason   {text} NOT NULL,
  step     {text} NOT NULL,
  attempt  BIGINT NOT NULL,
  worker   {text} NOT NULL,
  started  BIGINT NOT NULL,
  took     BIGINT NOT NULL, -- microseconds
  recorded BIGINT NOT NULL,
  PRIMARY KEY (run, idx)
) {clustered};
CREATE INDEX jobs_host ON jobs (host, recorded, run, idx);
CREATE INDEX jobs_outcome ON jobs (run, outcome, idx); -- what failed, in a run of a million

-- Jobs that ended together without having been started.
CREATE TABLE ranges (
  run      BIGINT NOT NULL,
  first    BIGINT NOT NULL,
  count    BIGINT NOT NULL,
  outcome  {text} NOT NULL,
  reason   {text} NOT NULL,
  recorded BIGINT NOT NULL,
  PRIMARY KEY (run, first)
) {clustered};

-- Every attempt that was reported, with its detail. The last one of a life is its outcome.
CREATE TABLE attempts (
  run      BIGINT NOT NULL,
  idx      BIGINT NOT NULL,
  life     BIGINT NOT NULL,
  attempt  BIGINT NOT NULL,
  outcome  {text} NOT NULL,
  reason   {text} NOT NULL,
  step     {text} NOT NULL,
  worker   {text} NOT NULL,
  started  BIGINT NOT NULL,
  took     BIGINT NOT NULL,
  recorded BIGINT NOT NULL,
  detail   {bytes},
  PRIMARY KEY (run, idx, life, attempt)
);
