package redis

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

// TestScriptsHaveAContract: each says what it needs, takes and returns, and names no key but those of keys.go.
func TestScriptsHaveAContract(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) != 6 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		head := regexp.MustCompile(`(?m)^(--.*\n)+`).FindString(string(b))
		words := []string{filepath.Base(f) + ":", "Needs:", "ARGV:", "Returns:"}
		if filepath.Base(f) == "base.lua" {
			words = []string{"base.lua:", "Needs:", "Does:"}
		}
		for _, word := range words {
			if !strings.Contains(head, word) {
				t.Errorf("%s: its header has no %q", f, word)
			}
		}
		for _, m := range regexp.MustCompile(`call\('\w+', ([^,)]+)`).FindAllStringSubmatch(string(b), -1) {
			if !regexp.MustCompile(`^(k[A-Z]|pPage|pDue|p\.k|page\.k|list)`).MatchString(m[1]) {
				t.Errorf("%s calls with the key %s, expected one that is declared", f, m[1])
			}
		}
	}
}

// TestKeysAreInOneSlot: and no two are the same.
func TestKeysAreInOneSlot(t *testing.T) {
	t.Parallel()
	names, wake := keyNames("space:")
	seen := map[string]bool{}
	for _, n := range names {
		if !strings.HasPrefix(n, "{schedules/0}:space:") || seen[n] {
			t.Errorf("key %q", n)
		}
		seen[n] = true
	}
	if !seen[wake] {
		t.Errorf("the wake stream %q is none of %v", wake, names)
	}
}

func TestRecordKeys(t *testing.T) {
	t.Parallel()
	for _, id := range []schedule.ID{{Name: "x"}, {Tenant: "a", Name: "b"}, {Tenant: "ü", Name: "!"}} {
		if got, err := recordID(recordKey(id)); err != nil || got != id {
			t.Errorf("%v came back as %v, %v", id, got, err)
		}
	}
	if recordKey(schedule.ID{Tenant: "a", Name: "z"}) > recordKey(schedule.ID{Tenant: "a!", Name: "a"}) {
		t.Error("a tenant's keys do not stand together")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	c := goredis.NewClient(&goredis.Options{})
	defer func() { _ = c.Close() }()
	for _, space := range []string{"a b", "{", "a:", strings.Repeat("a", maxSpace+1)} {
		if _, err := New(c, Options{Space: space}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("space %q: %v", space, err)
		}
	}
	if _, err := New(nil, Options{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
}

// clockUses finds calls of time.Now in Go files; spans by time.Since of it would be no harm, but
// the store needs none.
func clockUses(t *testing.T, name string, src any) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && (s.Sel.Name == "Now" || s.Sel.Name == "Until") {
				found = append(found, set.Position(n.Pos()).String())
			}
		}
		return true
	})
	return found
}

// TestNoClockButTheServers: a machine whose clock is an hour off changes nothing, for this package
// never reads it.
func TestNoClockButTheServers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			if at := clockUses(t, f, nil); len(at) > 0 {
				t.Errorf("reads the machine's clock: %v", at)
			}
		}
	}
	if at := clockUses(t, "control.go", "package p\nimport \"time\"\nvar now = time.Now()\n"); len(at) != 1 {
		t.Errorf("negative control: found %v", at)
	}
}
