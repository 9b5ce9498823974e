package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is one operation: its libraries and its file as one text.
type script struct {
	name string
	text string
	sha  string
}

// scripts are those of one Queue.
type scripts struct {
	turn, accept, open, beat, shut, adopt, cancel, adjust, redrive, event, wait, status, explain, post, posted, names, publish, tidy, pool *script
}

func loadScripts() (*scripts, error) {
	head := header()
	parts := map[string]string{}
	for _, lib := range []string{"base", "locks", "jobs", "forget"} {
		b, err := luaFiles.ReadFile("lua/" + lib + ".lua")
		if err != nil {
			return nil, fmt.Errorf("read script %s: %w", lib, err)
		}
		parts[lib] = string(b)
	}
	s := &scripts{}
	for _, d := range []struct {
		to   **script
		name string
		libs string
	}{
		{&s.turn, "turn", "base locks jobs"},
		{&s.accept, "accept", "base locks jobs forget"},
		{&s.open, "open", "base locks"},
		{&s.beat, "beat", "base locks jobs forget"},
		{&s.shut, "close", "base locks jobs"},
		{&s.adopt, "adopt", "base locks jobs"},
		{&s.cancel, "cancel", "base locks jobs"},
		{&s.adjust, "adjust", "base locks"},
		{&s.redrive, "redrive", "base locks jobs"},
		{&s.event, "event", "base locks jobs"},
		{&s.wait, "wait", "base"},
		{&s.status, "status", "base"},
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
		text.WriteString(head)
		for lib := range strings.FieldsSeq(d.libs) {
			text.WriteString(parts[lib])
		}
		text.Write(b)
		sum := sha1.Sum([]byte(text.String())) //nolint:gosec // as above
		*d.to = &script{name: d.name, text: text.String(), sha: hex.EncodeToString(sum[:])}
	}
	return s, nil
}

// once is a command that the client must not send a second time: a script that
// changes the queue may have run although its reply was lost (go-redis#2339).
type once struct{ *goredis.Cmd }

// NoRetry is asked by go-redis, standalone, failover and cluster alike.
func (once) NoRetry() bool { return true }

// eval runs a script exactly once or not at all; core.ErrUnknown says that it is not known which.
// A server that does not know the script answers NOSCRIPT and has done nothing: it is given the text.
func (q *Queue) eval(ctx context.Context, s *script, args ...any) (any, error) {
	reply, err := q.send(ctx, "evalsha", s.sha, args)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = q.send(ctx, "eval", s.text, args)
	}
	if err != nil {
		return nil, translate(ctx, err, s.name)
	}
	return reply, nil
}

func (q *Queue) send(ctx context.Context, verb, what string, args []any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent{err}
	}
	all := make([]any, 0, 3+len(q.keys.fixed)+len(args))
	all = append(all, verb, what, len(q.keys.fixed))
	for _, k := range q.keys.fixed {
		all = append(all, k)
	}
	all = append(all, args...)
	cmd := once{goredis.NewCmd(ctx, all...)}
	_ = q.client.Process(ctx, cmd)
	return cmd.Result()
}
