-- 1: a dry run, which changed nothing. Runs of before this column have 0.
ALTER TABLE runs ADD COLUMN check_mode BIGINT NOT NULL DEFAULT 0;
