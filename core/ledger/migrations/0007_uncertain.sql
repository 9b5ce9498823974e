-- The first so many jobs may have begun in a queue that was lost or came back older.
ALTER TABLE runs ADD COLUMN uncertain BIGINT NOT NULL DEFAULT 0;
