package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/redisconn"
)

// CalledRedis notes the commands that a client sends.
type CalledRedis struct {
	mu    sync.Mutex
	names map[string]bool
}

func (c *CalledRedis) note(cmds ...goredis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		name := cmd.Name()
		if args := cmd.Args(); name == "client" && len(args) > 1 {
			name += "|" + fmt.Sprint(args[1])
		}
		c.names[name] = true
	}
}

// DialHook implements goredis.Hook.
func (c *CalledRedis) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements goredis.Hook.
func (c *CalledRedis) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error { c.note(cmd); return next(ctx, cmd) }
}

// ProcessPipelineHook implements goredis.Hook.
func (c *CalledRedis) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error { c.note(cmds...); return next(ctx, cmds) }
}

// inScripts are the commands of all scripts of a folder.
func inScripts(tb testing.TB, dir string) map[string]bool {
	tb.Helper()
	files, err := filepath.Glob(dir + "/*.lua")
	if err != nil || len(files) == 0 {
		tb.Fatal(files, err)
	}
	names := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`call\(([^,)]*)`).FindAllStringSubmatch(string(text), -1) {
			name := strings.Trim(m[1], `'" `)
			if strings.ToUpper(name) != name || name == "" {
				tb.Fatalf("%s calls %s: commands are written out, so that this test finds them", f, m[0])
			}
			names[strings.ToLower(name)] = true
		}
	}
	return names
}

// RecordRedis has a client's commands noted.
func RecordRedis(client goredis.UniversalClient) *CalledRedis {
	c := &CalledRedis{names: map[string]bool{}}
	client.AddHook(c)
	return c
}

// WantLeastOfRedis compares the commands that a folder's scripts and the client call with the
// allowed commands of a room: all called commands are allowed, and no others. Commands of seldom
// are allowed and not called here: of a Cluster, or of another database. It asks the server which
// commands it refused, also where the caller ignored that.
func WantLeastOfRedis(tb testing.TB, c *CalledRedis, server *Redis, scripts string, room []string, seldom ...string) {
	tb.Helper()
	names := inScripts(tb, scripts)
	c.mu.Lock()
	for name := range c.names {
		names[name] = true
	}
	c.mu.Unlock()
	allowed := slices.Concat(room, redisconn.ConnectionCommands())
	for name := range names {
		// Any connection may send HELLO; only the doctor lists keys.
		if !slices.Contains(allowed, name) && name != "hello" && !slices.Contains(redisconn.ListCommands(), name) {
			tb.Errorf("%s is called, and the user may not", name)
		}
	}
	admin := server.Client()
	defer func() { _ = admin.Close() }()
	for _, name := range allowed {
		// Commands that block have a connection of their own: only the server knows them.
		if !names[name] && countCalls(tb, admin, name) == 0 && !slices.Contains(append([]string{"asking", "cluster|slots", "select"}, seldom...), name) {
			tb.Errorf("the user may call %s, and nobody does", name)
		}
	}
	if refused, err := admin.Do(context.Background(), "acl", "log").Slice(); err != nil || len(refused) > 0 {
		tb.Errorf("the server refused: %v, %v", refused, err)
	}
}
