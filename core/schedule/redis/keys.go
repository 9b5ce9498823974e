package redis

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

// tag puts all keys in one slot. A pool of the queue may have the same one, so no name here is one
// of the queue's.
const tag = "{schedules/0}:"

// pageSize is how many records a page has at most: few enough that its due times stay a listpack (128 by the
// default of zset-max-listpack-entries).
const pageSize = 64

// keys are KEYS of every script, by the names of their Lua locals. The last two are prefixes: a
// page's number follows.
func keys() []struct{ lua, name string } {
	return []struct{ lua, name string }{
		{"kClock", "clock"}, // hash: v the last version, n the last page
		{"kIndex", "index"}, // lexical zset: first key of a page \0 its number
		{"kHeads", "heads"}, // zset: page -> its earliest due time, ms
		{"kWake", "wake"},   // stream: one entry each time the earliest due time becomes earlier; the last is kept
		{"pPage", "p"},      // list: version and data of each record, at its slot; empty where one was deleted
		{"pDue", "d"},       // zset: key -> due time in ms * pageSize + slot
	}
}

// header is the Lua text that names the keys.
func header() string {
	var b strings.Builder
	for i, k := range keys() {
		fmt.Fprintf(&b, "local %s = KEYS[%d]\n", k.lua, i+1)
	}
	fmt.Fprintf(&b, "local PAGE = %d\n", pageSize)
	return b.String()
}

// keyNames are KEYS of every script of a store, and the wake stream's.
func keyNames(space string) (names []string, wake string) {
	for _, k := range keys() {
		name := tag + space + k.name
		names = append(names, name)
		if k.lua == "kWake" {
			wake = name
		}
	}
	return names, wake
}

// A record's key is TENANT blank NAME: neither has a blank, and nothing that they may have sorts before it,
// so a tenant's records stand together, in the order of bytes.
const separator = " "

func recordKey(id schedule.ID) string { return id.Tenant + separator + id.Name }

func recordID(key string) (schedule.ID, error) {
	tenant, name, ok := strings.Cut(key, separator)
	if !ok {
		return schedule.ID{}, fmt.Errorf("record key %q has no blank: %w", key, core.ErrInvalid)
	}
	return schedule.ID{Tenant: tenant, Name: name}, nil
}
