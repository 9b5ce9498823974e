-- Lists of the pending handlers of a host, and of dead-lettered notifications, read no others.
CREATE INDEX handlers_host ON handlers (host, seq);
CREATE INDEX notifications_dead ON notifications (seq) WHERE state = 'dead';
