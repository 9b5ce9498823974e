package redisconn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// A user of Redis gets the commands and the patterns of keys that its role needs, and no more.
// Redis 7.0 and Valkey accept the rules. Tests compare the lists with the commands that rooms call.

// Role is the work of a process with Redis.
type Role string

// The roles. A launcher, turnus run --redis, has the rights of a worker.
const (
	WorkerRole   Role = "worker"   // the queues of its pools
	ServerRole   Role = "server"   // the queue; the same as a worker
	DoctorRole   Role = "doctor"   // a server that may also list keys, which shows the names of all users' keys; turnus admin keys also needs it
	SentinelRole Role = "sentinel" // of the Sentinels themselves, to ask for the master
)

// Roles lists them.
func Roles() []Role { return []Role{WorkerRole, ServerRole, DoctorRole, SentinelRole} }

// ConnectionCommands returns the commands that the client sends to any server; of a Cluster's also
// the query of its slots.
func ConnectionCommands() []string {
	return []string{"asking", "client|id", "client|unblock", "cluster|slots", "eval", "evalsha", "select"}
}

// QueueCommands returns the commands that the queue of a pool calls, directly and in its scripts.
func QueueCommands() []string {
	return []string{
		"blpop", "exists", "get", "getrange", "hdel", "hexists", "hget", "hgetall", "hincrby", "hkeys", "hlen", "hmget", "hrandfield", "hscan", "hset", "hsetnx",
		"info", "lpush", "persist", "pexpire", "sadd", "set", "setrange", "sismember", "srem", "strlen", "time", "unlink", "xadd", "xrange", "xread", "xrevrange",
		"xtrim", "zadd", "zcard", "zcount", "zlexcount", "zmscore", "zrange", "zrangebylex", "zrangebyscore", "zrem", "zrevrangebyscore", "zscan", "zscore",
	}
}

// ListCommands returns the commands of a scan of all keys: it finds keys that nobody knows of, and
// the key with which bytes are encrypted.
func ListCommands() []string { return []string{"scan", "type"} }

// RoleCommands returns the commands that a role may call.
func RoleCommands(r Role) []string {
	var all []string
	switch r {
	case WorkerRole, ServerRole:
		all = slices.Concat(ConnectionCommands(), QueueCommands())
	case DoctorRole:
		all = slices.Concat(ConnectionCommands(), QueueCommands(), ListCommands())
	case SentinelRole:
		all = []string{"ping", "sentinel|get-master-addr-by-name", "sentinel|sentinels", "subscribe"}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// RoleKeys are the patterns of what a role keeps. No pool is every pool.
func RoleKeys(r Role, pools ...string) []string {
	if r == SentinelRole {
		return nil
	}
	var all []string
	for _, pool := range pools {
		all = append(all, "{"+EscapeKey(pool)+"/*}:*") // * is the shard
	}
	if len(pools) == 0 {
		return []string{"{*/*}:*"}
	}
	return all
}

// EscapeKey makes any name safe inside a hash tag, in a pattern, and readable in a key: letters,
// digits, '-', '_' and '.' stay, every other byte is %XX.
func EscapeKey(s string) string {
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

// ACLRules are the words of ACL SETUSER behind the name: the user has what a role needs, this
// password, and nothing that it had before. An empty password leaves the user off.
func ACLRules(r Role, password string, pools ...string) ([]string, error) {
	commands := RoleCommands(r)
	if len(commands) == 0 {
		return nil, fmt.Errorf("role %q of a Redis user, expected one of %v: %w", r, Roles(), core.ErrInvalid)
	}
	rules := []string{"reset"}
	if password != "" {
		sum := sha256.Sum256([]byte(password))
		rules = append(rules, "on", "#"+hex.EncodeToString(sum[:]))
	}
	for _, k := range RoleKeys(r, pools...) {
		rules = append(rules, "~"+k)
	}
	if r == SentinelRole {
		rules = append(rules, "&+switch-master", "&+replica-reconf-done", "&+sdown", "&-sdown")
	}
	for _, c := range commands {
		rules = append(rules, "+"+c)
	}
	return rules, nil
}
