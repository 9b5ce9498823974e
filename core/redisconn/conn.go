// Package redisconn owns how a room talks to Redis, standalone, Sentinel or Cluster. It has the
// client that a URL names, scripts that are sent once, commands that block, and the meaning of the
// client's errors. It also has the ACL of each role: the commands and the patterns of keys that its
// user needs.
//
// It must not know scripts, or what keys hold.
package redisconn

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"encoding/hex"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
)

// Script is one operation as a Lua text.
type Script struct {
	Name string // for messages
	text string
	sha  string
}

// NewScript makes a script; name is in the errors of Eval.
func NewScript(name, text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &Script{Name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

// Conn is a client as one room uses it. Its methods are safe for concurrent use.
type Conn struct {
	room   string // starts every error
	client goredis.UniversalClient
}

// New wraps a client, which stays the caller's: a *redis.Client (standalone or Sentinel) or a
// *redis.ClusterClient, else core.ErrInvalid. It sends nothing.
func New(room string, client goredis.UniversalClient) (*Conn, error) {
	switch client.(type) {
	case *goredis.Client, *goredis.ClusterClient:
		return &Conn{room: room, client: client}, nil
	}
	return nil, fmt.Errorf("%s: client is a %T, expected *redis.Client or *redis.ClusterClient: %w", room, client, core.ErrInvalid)
}

// Translate is the function Translate with the room's name before what was done.
func (c *Conn) Translate(ctx context.Context, err error, doing string) error {
	return Translate(ctx, err, c.room+": "+doing)
}

// Node is the client of the server that has a key.
func (c *Conn) Node(ctx context.Context, key string) (*goredis.Client, error) {
	if cluster, ok := c.client.(*goredis.ClusterClient); ok {
		n, err := cluster.MasterForKey(ctx, key)
		return n, c.Translate(ctx, err, "find the server")
	}
	return c.client.(*goredis.Client), nil //nolint:forcetypeassert // New saw to it
}

// once is a command that the client must not send a second time: a script that
// changes something may have run although its reply was lost (go-redis#2339).
type once struct{ *goredis.Cmd }

// NoRetry is asked by go-redis, standalone, failover and cluster alike.
func (once) NoRetry() bool { return true }

// Eval runs a script exactly once or not at all; core.ErrUnknown means that it is not known which.
// A server that does not know the script answers NOSCRIPT and has done nothing: it is given the
// text.
func (c *Conn) Eval(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	reply, err := c.send(ctx, "evalsha", s.sha, keys, args)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = c.send(ctx, "eval", s.text, keys, args)
	}
	if err != nil {
		return nil, c.Translate(ctx, err, s.Name)
	}
	return reply, nil
}

// EvalAll runs a script that changes nothing once for each list of arguments, in one round trip.
func (c *Conn) EvalAll(ctx context.Context, s *Script, keys []string, args [][]any) ([]any, error) {
	replies := make([]any, 0, len(args))
	if len(args) == 0 {
		return replies, nil
	}
	all := func() ([]goredis.Cmder, error) {
		pipe := c.client.Pipeline()
		for _, a := range args {
			pipe.EvalSha(ctx, s.sha, keys, a...)
		}
		return pipe.Exec(ctx)
	}
	commands, err := all()
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		if _, err = c.Eval(ctx, s, keys, args[0]...); err != nil { // gives the text
			return nil, err
		}
		commands, err = all()
	}
	if err != nil {
		return nil, c.Translate(ctx, err, s.Name)
	}
	for _, cmd := range commands {
		if answer, ok := cmd.(*goredis.Cmd); ok { // EvalSha makes nothing else
			replies = append(replies, answer.Val())
		}
	}
	return replies, nil
}

func (c *Conn) send(ctx context.Context, verb, what string, keys []string, args []any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, notSent{err}
	}
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, verb, what, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	all = append(all, args...)
	cmd := once{goredis.NewCmd(ctx, all...)}
	_ = c.client.Process(ctx, cmd)
	return cmd.Result()
}
