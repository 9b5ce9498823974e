package fleet

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
)

// findTest is one test of find, or its action.
type findTest struct {
	not  bool
	op   string
	args []string
}

// find lists what is below folders and passes all tests.
func find(ctx context.Context, c *call, _ options) int {
	var roots []string
	for len(c.args) > 0 && c.args[0] != "!" && !strings.HasPrefix(c.args[0], "-") {
		roots, c.args = append(roots, c.args[0]), c.args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	tests, problem := findTests(c.args)
	if problem != "" {
		return c.fail(1, "%s", problem)
	}
	code := 0
	for _, root := range roots {
		all := c.fs().tree(c.sh.abs(root))
		if len(all) == 0 {
			code = c.fail(1, "‘%s’: No such file or directory", root)
		}
		for _, e := range all {
			if ctx.Err() != nil {
				return 143
			}
			shown := root
			if below := strings.TrimPrefix(e.path[len(all[0].path):], "/"); below != "" {
				shown = strings.TrimSuffix(root, "/") + "/" + below
			}
			c.found(ctx, tests, shown, &e)
		}
	}
	return code
}

// findTests reads the tests; a problem is why they cannot be read.
func findTests(args []string) (tests []findTest, problem string) {
	for not := false; len(args) > 0; {
		op := args[0]
		args = args[1:]
		t := findTest{not: not, op: op}
		switch op {
		case "!":
			not = !not
			continue
		case "-print":
		case "-type", "-name", "-path", "-links":
			if len(args) == 0 {
				return nil, "missing argument to '" + op + "'"
			}
			t.args, args = args[:1], args[1:]
		case "-exec":
			end := slices.Index(args, ";")
			if end < 1 {
				return nil, "missing argument to '-exec'"
			}
			t.args, args = args[:end], args[end+1:]
		default:
			return nil, "unknown predicate '" + op + "' on a simulated host"
		}
		tests, not = append(tests, t), false
	}
	return tests, ""
}

// found prints a path if it passes all tests, unless one of them is an action that did its own.
func (c *call) found(ctx context.Context, tests []findTest, shown string, e *entry) {
	acted := false
	for _, t := range tests {
		ok := true
		switch t.op {
		case "-type":
			ok = t.args[0] == e.kind()
		case "-name":
			ok = matches(t.args[0], path.Base(shown))
		case "-path":
			ok = matches(t.args[0], shown)
		case "-links":
			ok = t.links(e.linkCount())
		case "-print":
			acted = true
			c.print(shown + "\n")
		case "-exec":
			acted = true
			words := slices.Clone(t.args)
			for i, w := range words {
				words[i] = strings.ReplaceAll(w, "{}", shown)
			}
			ok = c.sh.fork().run(ctx, words) == 0
		}
		if ok == t.not {
			return
		}
	}
	if !acted {
		c.print(shown + "\n")
	}
}

// links compares a number with +N, -N or N.
func (t *findTest) links(n int) bool {
	want, err := strconv.Atoi(strings.TrimLeft(t.args[0], "+-"))
	switch {
	case err != nil:
		return false
	case t.args[0][0] == '+':
		return n > want
	case t.args[0][0] == '-':
		return n < want
	}
	return n == want
}
