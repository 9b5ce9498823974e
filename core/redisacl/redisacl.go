// Package redisacl owns what a user of Redis must be allowed for Turnus to work, and no more: commands, and patterns of keys. Redis 7.0
// or Valkey take it as it stands.
//
// It must not know scripts, nor what keys hold: tests of the rooms that keep things in Redis compare it with what they call.
package redisacl

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// Role is what a process does with Redis.
type Role string

// The roles. A launcher, turnus run --redis, has the rights of a worker.
const (
	Worker   Role = "worker"   // the queues of its pools
	Server   Role = "server"   // the queue, and the schedules of all servers
	Doctor   Role = "doctor"   // a server that may also list keys, which names those of everybody; turnus keys needs it, too
	Sentinel Role = "sentinel" // of the Sentinels themselves: who is the master
)

// Roles lists them.
func Roles() []Role { return []Role{Worker, Server, Doctor, Sentinel} }

// Connection is what the client asks of any server; of a Cluster's also who has which slots.
func Connection() []string {
	return []string{"asking", "client|id", "client|unblock", "cluster|slots", "eval", "evalsha", "select"}
}

// Queue is what the queue of a pool calls, by itself and in its scripts.
func Queue() []string {
	return []string{
		"blpop", "exists", "get", "getrange", "hdel", "hexists", "hget", "hgetall", "hincrby", "hkeys", "hlen", "hmget", "hrandfield", "hscan", "hset", "hsetnx",
		"info", "lpush", "persist", "pexpire", "sadd", "set", "setrange", "sismember", "srem", "strlen", "time", "unlink", "xadd", "xrange", "xread", "xrevrange",
		"xtrim", "zadd", "zcard", "zcount", "zlexcount", "zmscore", "zrange", "zrangebylex", "zrangebyscore", "zrem", "zrevrangebyscore", "zscan", "zscore",
	}
}

// Schedules is what the store of schedules calls.
func Schedules() []string {
	return []string{
		"del", "hmget", "hset", "lindex", "llen", "lrange", "lset", "rpush", "time", "xadd", "xread", "xrevrange", "zadd", "zcard", "zrange", "zrangebylex",
		"zrangebyscore", "zrem", "zrevrangebylex", "zscore",
	}
}

// Listing is what a look at all keys needs: for those that nobody knows of, and for what is sealed with which key.
func Listing() []string { return []string{"scan", "type"} }

// Commands is what a role may call.
func Commands(r Role) []string {
	var all []string
	switch r {
	case Worker:
		all = slices.Concat(Connection(), Queue())
	case Server:
		all = slices.Concat(Connection(), Queue(), Schedules())
	case Doctor:
		all = slices.Concat(Connection(), Queue(), Schedules(), Listing())
	case Sentinel:
		all = []string{"ping", "sentinel|get-master-addr-by-name", "sentinel|sentinels", "subscribe"}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Keys are the patterns of what a role keeps. No pool is every pool.
func Keys(r Role, pools ...string) []string {
	if r == Sentinel {
		return nil
	}
	var all []string
	for _, pool := range pools {
		all = append(all, "{"+Escape(pool)+"/*}:*") // * is the shard
	}
	switch {
	case len(pools) == 0:
		return []string{"{*/*}:*"}
	case r != Worker:
		all = append(all, "{schedules/*}:*")
	}
	return all
}

// Escape makes any name safe inside a hash tag, in a pattern, and readable in a key: letters, digits, '-', '_' and '.' stay, every other byte is %XX.
func Escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// Rules are the words of ACL SETUSER behind the name: the user has what a role needs, this password, and nothing that it had before. An
// empty password leaves the user off.
func Rules(r Role, password string, pools ...string) ([]string, error) {
	commands := Commands(r)
	if len(commands) == 0 {
		return nil, fmt.Errorf("role %q of a Redis user, expected one of %v: %w", r, Roles(), core.ErrInvalid)
	}
	rules := []string{"reset"}
	if password != "" {
		sum := sha256.Sum256([]byte(password))
		rules = append(rules, "on", "#"+hex.EncodeToString(sum[:]))
	}
	for _, k := range Keys(r, pools...) {
		rules = append(rules, "~"+k)
	}
	if r == Sentinel {
		rules = append(rules, "&+switch-master", "&+replica-reconf-done", "&+sdown", "&-sdown")
	}
	for _, c := range commands {
		rules = append(rules, "+"+c)
	}
	return rules, nil
}
