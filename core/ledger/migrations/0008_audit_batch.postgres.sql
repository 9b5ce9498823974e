-- One transaction may write several entries: the head becomes the last of them.
CREATE OR REPLACE FUNCTION audit_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.seq <= OLD.seq OR NEW.seq <> (SELECT max(seq) FROM audit) THEN
    RAISE EXCEPTION 'the audit log only grows' USING ERRCODE = 'TU001';
  END IF;
  RETURN NEW;
END $$;
