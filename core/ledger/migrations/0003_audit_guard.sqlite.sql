-- The audit log only grows. INSERT OR REPLACE removes rows without asking triggers on DELETE, so
-- INSERT is guarded too.
INSERT INTO audit_head (one, seq, hash) VALUES (1, 0, zeroblob(32));
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_in_order BEFORE INSERT ON audit WHEN NEW.seq <> (SELECT seq FROM audit_head) + 1
  BEGIN SELECT RAISE(ABORT, 'the audit log only grows, one entry after the other'); END;
CREATE TRIGGER audit_head_forward BEFORE UPDATE ON audit_head WHEN NEW.seq <> OLD.seq + 1
  BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_head_kept BEFORE DELETE ON audit_head BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_head_once BEFORE INSERT ON audit_head BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
