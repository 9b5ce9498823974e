package redis

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core/redisconn"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is one operation: its libraries and its file as one text.
type script = redisconn.Script

// scripts are those of one Queue.
type scripts struct {
	turn, accept, submit, records, payload, open, beat, shut, adopt, save, wakejob, cancel, adjust, redrive, event, wait, status, awaited, explain, post, posted, names, publish, tidy, pool *script
}

func loadScripts(ttl time.Duration) (*scripts, error) {
	names := luaNames(ttl)
	parts := map[string]string{}
	for _, lib := range []string{"head", "base", "small", "locks", "jobs", "forget"} {
		b, err := luaFiles.ReadFile("lua/" + lib + ".lua")
		if err != nil {
			return nil, fmt.Errorf("read script %s: %w", lib, err)
		}
		parts[lib] = string(b)
	}
	parts["base"] += parts["small"]
	s := &scripts{}
	for _, d := range []struct {
		to   **script
		name string
		libs string
	}{
		{&s.turn, "turn", "base locks jobs"},
		{&s.accept, "accept", "base locks jobs forget"},
		{&s.submit, "submit", "base locks jobs forget"},
		{&s.records, "records", ""},
		{&s.payload, "payload", ""},
		{&s.open, "open", "base locks"},
		{&s.beat, "beat", "base locks jobs forget"},
		{&s.shut, "close", "base locks jobs"},
		{&s.adopt, "adopt", "base locks jobs"},
		{&s.save, "save", "base locks jobs"},
		{&s.wakejob, "wakejob", "base locks jobs"},
		{&s.cancel, "cancel", "base locks jobs"},
		{&s.adjust, "adjust", "base locks"},
		{&s.redrive, "redrive", "base locks jobs"},
		{&s.event, "event", "base locks jobs"},
		{&s.wait, "wait", "base"},
		{&s.status, "status", "base"},
		{&s.awaited, "awaited", "base"},
		{&s.explain, "explain", "base locks jobs"},
		{&s.post, "post", "base"},
		{&s.posted, "posted", "base"},
		{&s.names, "names", "base"},
		{&s.publish, "publish", "base"},
		{&s.tidy, "tidy", "base locks jobs"},
		{&s.pool, "pool", "base locks jobs"},
	} {
		b, err := luaFiles.ReadFile("lua/" + d.name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("read script %s: %w", d.name, err)
		}
		var text strings.Builder
		for lib := range strings.FieldsSeq(d.libs) {
			text.WriteString(parts[lib])
		}
		text.Write(b)
		*d.to = redisconn.NewScript(d.name, assemble(parts["head"], text.String(), names))
	}
	return s, nil
}

// eval runs a script exactly once or not at all; core.ErrUnknown says that it is not known which.
func (q *Queue) eval(ctx context.Context, s *script, args ...any) (any, error) {
	return q.conn.Eval(ctx, s, q.keys.fixed, args...)
}
