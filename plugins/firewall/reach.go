package firewall

// reachable: see the next commit.
func (p *push) reachable() error { return nil }
