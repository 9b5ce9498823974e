-- Runs by the queue that has them: those that the present queue lacks are found without reading the
-- others.
CREATE INDEX runs_unqueued ON runs (incarnation, criticality DESC, seq) WHERE ended = 0 AND phase <> 'awaiting_approval';
-- Servers go through all unfinished runs, oldest first.
CREATE INDEX runs_standing ON runs (seq) WHERE ended = 0;
