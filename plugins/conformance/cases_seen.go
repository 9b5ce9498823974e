package conformance

import (
	"context"
	"slices"
	"strings"
)

// The cases below judge what was seen of all processes and calls of the cases before.

func (s *suite) secrets(context.Context) result {
	if len(s.seen.leaks) > 0 {
		return fault("hand secrets to a command by its stdin, and leave them out of everything that is recorded", "the value of a secret is in %s", s.seen.leaks[0])
	}
	if !slices.ContainsFunc(s.calls, func(r *record) bool { return r.secrets }) {
		return notApplicable("no example resolves a secret")
	}
	return passed("")
}

func (s *suite) environment(context.Context) result {
	if len(s.seen.private) > 0 {
		return fault("print and send no environment of the plugin's own: the socket's path is half the way to the host services", "%s", s.seen.private[0])
	}
	return passed("")
}

func (s *suite) leases(context.Context) result {
	if len(s.seen.stray) > 0 {
		return fault("put the lease of the request into the metadata turnus-lease of each call", "%q was called without a lease", s.seen.stray[0].what)
	}
	return passed("")
}

func (s *suite) noiseBefore(context.Context) result {
	if s.seen.before != "" {
		return fault("print to stderr; in other languages than Go, point file descriptor 1 at stderr before anything is imported",
			"stdout holds %q before the handshake line", s.seen.before)
	}
	return passed("")
}

func (s *suite) noiseAfter(context.Context) result {
	hint := "print to stderr, or send events: nobody reads it"
	switch {
	case s.seen.longest > maxLine:
		return fault(hint, "stdout holds a line of %d bytes after the handshake: over 64 KiB, a reader by lines stops", s.seen.longest)
	case s.seen.after != "":
		return fault(hint, "stdout holds %q after the handshake", s.seen.after)
	}
	return passed("")
}

func (s *suite) badLogs(context.Context) result {
	if s.seen.badLog != "" {
		return fault("the keys @message, @level and @timestamp of a JSON line are strings: go-plugin's readers panic on others", "stderr holds %s, where %s", s.seen.badLog, s.seen.badWhy)
	}
	return passed("")
}

func (s *suite) stops(context.Context) result {
	if s.seen.forced > 0 {
		return fault("end after SIGTERM; DRAIN has come before it", "%d of %d processes had to be killed, %v after DRAIN and SIGTERM", s.seen.forced, s.seen.stopped, s.cfg.Grace)
	}
	return passed("%d processes ended when they were told to", s.seen.stopped)
}

func (s *suite) descendants(context.Context) result {
	if len(s.seen.left) > 0 {
		how := ""
		if s.seen.held {
			how = " and holds its stdout or stderr"
		}
		return fault("wait for the programs that the plugin starts, and end them with it", "%s outlives the plugin%s", strings.Join(s.seen.left[:1], ""), how)
	}
	if s.seen.held {
		return fault("wait for the programs that the plugin starts, and end them with it", "somebody holds the plugin's stdout or stderr after its end")
	}
	return passed("")
}
