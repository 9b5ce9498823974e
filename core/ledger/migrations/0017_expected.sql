-- What was expected of a run when it was launched: JSON, '' where nobody has estimated it.
ALTER TABLE runs ADD COLUMN expected {text} NOT NULL DEFAULT '';
