-- One transaction may write several entries: rows are above the head and without gaps, and the head
-- becomes the last of them.
DROP TRIGGER audit_in_order;
DROP TRIGGER audit_head_forward;
CREATE TRIGGER audit_in_order BEFORE INSERT ON audit
  WHEN NEW.seq <= (SELECT seq FROM audit_head) OR NEW.seq > (SELECT seq FROM audit_head) + 1 AND NOT EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq - 1)
  BEGIN SELECT RAISE(ABORT, 'the audit log only grows, one entry after the other'); END;
CREATE TRIGGER audit_head_forward BEFORE UPDATE ON audit_head WHEN NEW.seq <= OLD.seq OR NEW.seq <> (SELECT max(seq) FROM audit)
  BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
