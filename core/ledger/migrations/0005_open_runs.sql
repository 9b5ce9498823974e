-- The unfinished runs of a tenant are counted each time that one is accepted.
CREATE INDEX runs_open_tenant ON runs (tenant) WHERE ended = 0;
