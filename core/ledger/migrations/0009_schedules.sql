-- Schedules: definition and state in data, and when somebody has to look at them.
CREATE TABLE schedules (
  tenant   {text} NOT NULL,
  name     {text} NOT NULL,
  made_by  {text} NOT NULL,           -- the person; '' for a schedule of the definitions
  version  BIGINT NOT NULL,           -- grows with every change
  edition  BIGINT NOT NULL,           -- version when the definition was last put
  due      BIGINT,                    -- NULL: never
  waits    BIGINT NOT NULL DEFAULT 0, -- 1: the end of a run makes it due
  passed   BIGINT NOT NULL DEFAULT 0, -- not 0: restored from a copy then; no fire before is made up for
  data     {bytes},
  PRIMARY KEY (tenant, name)
);
CREATE INDEX schedules_due ON schedules (due) WHERE due IS NOT NULL;
CREATE INDEX schedules_waits ON schedules (tenant, name) WHERE waits = 1;
