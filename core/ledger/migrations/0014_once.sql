-- Steps of a run that one of its hosts calls for all. Times are microseconds since 1970.
CREATE TABLE once (
  run  BIGINT NOT NULL,
  step BIGINT NOT NULL,  -- index in the playbook
  idx  BIGINT NOT NULL,  -- of the job whose host calls it
  at   BIGINT NOT NULL,  -- when that was written down
  data {bytes},          -- the result; NULL until the host has called it
  PRIMARY KEY (run, step)
);
