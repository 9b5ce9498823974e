package redis

// Remember has q know the leases that its process was given before its connections broke.
func Remember(q, before *Queue) { q.seen.Store(before.seen.Load()) }
