-- The audit log only grows. TU001 is the error code that the ledger takes for a conflict.
INSERT INTO audit_head (one, seq, hash) VALUES (1, 0, decode(repeat('00', 32), 'hex'));
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit log only grows' USING ERRCODE = 'TU001';
END $$;
CREATE FUNCTION audit_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.seq <> OLD.seq + 1 THEN
    RAISE EXCEPTION 'the audit log only grows' USING ERRCODE = 'TU001';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_head_forward BEFORE UPDATE ON audit_head FOR EACH ROW EXECUTE FUNCTION audit_forward();
CREATE TRIGGER audit_head_kept BEFORE INSERT OR DELETE ON audit_head FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_head_not_emptied BEFORE TRUNCATE ON audit_head FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
