-- What hosts said of themselves last: one row a host. Times are microseconds since 1970.
CREATE TABLE facts (
  tenant {text} NOT NULL,  -- of the host
  host   {text} NOT NULL,
  at     BIGINT NOT NULL,  -- when they were gathered
  run    {text} NOT NULL,  -- that gathered them
  boot   {text} NOT NULL,  -- boot id of the host when it was last seen; '' where it is not known
  data   {bytes} NOT NULL,
  PRIMARY KEY (tenant, host)
);
CREATE INDEX facts_at ON facts (at);
