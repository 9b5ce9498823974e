package redis

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core/redisconn"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is one operation: its libraries and its file as one text.
type script = redisconn.Script

// scripts are those of one Queue.
type scripts struct {
	turn, accept, submit, payload, open, beat, shut, format, adopt, save, guest, signaljob, recovery, drop, cancel, adjust, event, wait, awaited, poll, news, explain, leased, holders, post, posted, names, publish, tidy, pool *script
}

// loaded holds the scripts by the life of sessions, which is the same for all queues of a process
// outside of tests. Scripts do not change; making them takes longer than all else that a queue
// begins with.
var loaded sync.Map

// loadScripts returns the scripts of queues whose sessions live for ttl.
func loadScripts(ttl time.Duration) (*scripts, error) {
	if s, ok := loaded.Load(ttl); ok {
		return s.(*scripts), nil //nolint:forcetypeassert // nothing else is kept there
	}
	s, err := makeScripts(ttl)
	if err == nil {
		loaded.Store(ttl, s)
	}
	return s, err
}

func makeScripts(ttl time.Duration) (*scripts, error) {
	names, libraries := luaNames(ttl), map[string][]part{}
	for _, lib := range []string{"base", "small", "locks", "jobs", "forget", "progress", "trust"} {
		text, err := luaFile(lib)
		if err != nil {
			return nil, err
		}
		libraries[lib] = split(text, names)
	}
	for _, parts := range libraries { // once all names are known
		writeOut(parts, names)
	}
	head, err := luaFile("head")
	if err != nil {
		return nil, err
	}
	s := &scripts{}
	for _, d := range []struct {
		to   **script
		name string
		libs string
	}{
		{&s.turn, "turn", "base small locks jobs trust"},
		{&s.accept, "accept", "base small locks jobs forget"},
		{&s.submit, "submit", "base small locks jobs forget"},
		{&s.payload, "payload", ""},
		{&s.format, "format", "trust"},
		{&s.open, "open", "base small locks"},
		{&s.beat, "beat", "base small locks jobs forget trust"},
		{&s.shut, "close", "base small locks jobs"},
		{&s.adopt, "adopt", "base small locks jobs"},
		{&s.save, "save", "base small locks jobs"},
		{&s.guest, "guest", "base small locks jobs trust"},
		{&s.signaljob, "signaljob", "base small locks jobs"},
		{&s.recovery, "recovery", "base small trust"},
		{&s.drop, "drop", "base small locks jobs"},
		{&s.cancel, "cancel", "base small locks jobs"},
		{&s.adjust, "adjust", "base small locks"},
		{&s.event, "event", "base small locks jobs"},
		{&s.wait, "wait", "base small"},
		{&s.poll, "look", "base small progress"},
		{&s.awaited, "awaited", "base small progress"},
		{&s.news, "news", ""},
		{&s.explain, "explain", "base small locks jobs"},
		{&s.leased, "leased", "base small locks jobs"},
		{&s.holders, "holders", "base small locks jobs"},
		{&s.post, "post", "base small"},
		{&s.posted, "posted", "base small"},
		{&s.names, "names", "base small"},
		{&s.publish, "publish", "base small"},
		{&s.tidy, "tidy", "base small locks jobs"},
		{&s.pool, "pool", "base small locks jobs"},
	} {
		text, err := luaFile(d.name)
		if err != nil {
			return nil, err
		}
		var parts [][]part
		for lib := range strings.FieldsSeq(d.libs) {
			parts = append(parts, libraries[lib])
		}
		*d.to = redisconn.NewScript(d.name, assemble(head, text, names, parts...))
	}
	return s, nil
}

func luaFile(name string) (string, error) {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		return "", fmt.Errorf("read script %s: %w", name, err)
	}
	return string(text), nil
}

// eval runs a script exactly once or not at all; core.ErrUnknown means that it is not known which.
func (q *Queue) eval(ctx context.Context, s *script, args ...any) (any, error) {
	v, err := q.conn.Eval(ctx, s, q.keys.fixed, args...)
	again, err := q.mend(ctx, v, err)
	if again {
		return q.conn.Eval(ctx, s, q.keys.fixed, args...)
	}
	return v, err
}

// evalAll is eval of a script that changes nothing, once for each list of arguments.
func (q *Queue) evalAll(ctx context.Context, s *script, args [][]any) ([]any, error) {
	all, err := q.conn.EvalAll(ctx, s, q.keys.fixed, args)
	var first any
	if len(all) > 0 {
		first = all[0]
	}
	again, err := q.mend(ctx, first, err)
	if again {
		return q.conn.EvalAll(ctx, s, q.keys.fixed, args)
	}
	return all, err
}
