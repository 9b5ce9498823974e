package redis

import (
	"embed"
	"fmt"

	"github.com/turnus/turnus/core/redisconn"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// scripts are those of one Store.
type scripts struct {
	take, write, get, list, wait *redisconn.Script
}

func loadScripts() (*scripts, error) {
	base, err := luaFiles.ReadFile("lua/base.lua")
	if err != nil {
		return nil, fmt.Errorf("read script base: %w", err)
	}
	s := &scripts{}
	for _, d := range []struct {
		to   **redisconn.Script
		name string
	}{{&s.take, "take"}, {&s.write, "write"}, {&s.get, "get"}, {&s.list, "list"}, {&s.wait, "wait"}} {
		text, err := luaFiles.ReadFile("lua/" + d.name + ".lua")
		if err != nil {
			return nil, fmt.Errorf("read script %s: %w", d.name, err)
		}
		*d.to = redisconn.NewScript(d.name, header()+string(base)+string(text))
	}
	return s, nil
}
