-- What happened that somebody may have to be told, in the transaction in which it happened: the
-- outbox. A row that is told by itself goes when it is routed; one that folds others into it stays,
-- so that they find it.
CREATE TABLE happenings (
  seq      {serial},
  id       {text} NOT NULL UNIQUE,
  what     {text} NOT NULL,
  tenant   {text} NOT NULL,
  subject  {text} NOT NULL,           -- what it is about; those of one subject reach a channel in order
  fold     {text} NOT NULL,           -- same what and fold: told once a while; '' folds nothing
  at       BIGINT NOT NULL,
  latest   BIGINT NOT NULL,           -- when it last happened
  due      BIGINT NOT NULL,           -- when it may be told, by the database's clock
  count    BIGINT NOT NULL DEFAULT 1,
  routed   BIGINT NOT NULL DEFAULT 0,
  data     {bytes}
);
CREATE INDEX happenings_due ON happenings (due, seq) WHERE routed = 0;
CREATE UNIQUE INDEX happenings_fold ON happenings (what, fold) WHERE routed = 0 AND fold <> '';
CREATE INDEX happenings_routed ON happenings (what, fold, due) WHERE routed = 1;

-- One notification to one channel.
CREATE TABLE notifications (
  seq      {serial},
  id       {text} NOT NULL UNIQUE,    -- the same however often it is sent
  service  BIGINT NOT NULL,           -- 1: of a channel of the service itself, which sees all tenants
  tenant   {text} NOT NULL,           -- whose channel it is
  channel  {text} NOT NULL,
  medium   {text} NOT NULL,
  kind     {text} NOT NULL,
  subject  {text} NOT NULL,
  run      {text} NOT NULL,
  state    {text} NOT NULL,           -- waiting, sent or dead
  made     BIGINT NOT NULL,
  begun    BIGINT NOT NULL,           -- when the present row of tries began
  due      BIGINT NOT NULL,           -- of the next try, by the database's clock
  tries    BIGINT NOT NULL DEFAULT 0,
  reason   {text} NOT NULL DEFAULT '', -- of the last try that failed
  settled  BIGINT NOT NULL DEFAULT 0, -- when it was sent or given up
  claimed_by    {text} NOT NULL DEFAULT '',
  claimed_until BIGINT NOT NULL DEFAULT 0,
  data     {bytes}
);
CREATE INDEX notifications_waiting ON notifications (service, tenant, channel, due, seq) WHERE state = 'waiting';
CREATE INDEX notifications_order ON notifications (service, tenant, channel, subject, seq) WHERE state = 'waiting';
CREATE INDEX notifications_tenant ON notifications (tenant, seq);
CREATE INDEX notifications_run ON notifications (run, seq) WHERE run <> '';
CREATE INDEX notifications_settled ON notifications (state, settled, seq) WHERE settled > 0;
