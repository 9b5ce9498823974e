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

// xargs runs a command with the words of its standard input, which end with NUL.
func xargs(ctx context.Context, c *call, o options) int {
	if !o.has('0') {
		return c.misused("xargs -0 COMMAND [WORD]...")
	}
	const most = 1000 // words of one command
	sub := c.sh.fork()
	sub.in = strings.NewReader("")
	code, ran, words := 0, false, slices.Clip(c.args)
	run := func() {
		if ran = true; sub.run(ctx, words) != 0 {
			code = 123
		}
		words = slices.Clip(c.args)
	}
	for word := range until(ctxReader{ctx, c.in}, 0) {
		if words = append(words, strings.TrimSuffix(word, "\x00")); len(words) >= most {
			run()
		}
	}
	if !ran || len(words) > len(c.args) {
		run()
	}
	return code
}

const trUsage = "tr SET1 SET2, tr -d SET"

// tr puts the letters of one set in the place of those of another, or removes them.
func tr(ctx context.Context, c *call, o options) int {
	from, to := letters(c.args[0]), letters(c.args[len(c.args)-1])
	switch {
	case o.has('d') != (len(c.args) == 1), to == "":
		return c.misused(trUsage)
	case strings.Contains(from+to, "[:"):
		return c.fail(1, "a simulated host has no classes of letters such as [:upper:]")
	case o.has('d'):
		to = ""
	}
	for line := range linesOf(ctxReader{ctx, c.in}) {
		out := make([]byte, 0, len(line))
		for i := range len(line) {
			switch at := strings.IndexByte(from, line[i]); {
			case at < 0:
				out = append(out, line[i])
			case to != "":
				out = append(out, to[min(at, len(to)-1)])
			}
		}
		if code := c.print(string(out)); code != 0 {
			return code
		}
	}
	return 0
}

// letters is a set of tr: letters, a-z and escapes.
func letters(set string) string {
	set = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\0`, "\x00", `\\`, `\`).Replace(set)
	var out []byte
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			for l := int(set[i]); l <= int(set[i+2]); l++ {
				out = append(out, byte(l))
			}
			i += 2
			continue
		}
		out = append(out, set[i])
	}
	return string(out)
}

// cut prints one field of each line.
func cut(ctx context.Context, c *call, o options) int {
	n, err := strconv.Atoi(o['f'])
	if err != nil || n < 1 || len(o['d']) != 1 {
		return c.misused("cut -d DELIMITER -f FIELD <FILE")
	}
	for line := range linesOf(ctxReader{ctx, c.in}) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), o['d'])
		switch {
		case len(fields) == 1: // without a delimiter the whole line
			c.print(fields[0] + "\n")
		case n <= len(fields):
			c.print(fields[n-1] + "\n")
		default:
			c.print("\n")
		}
	}
	return 0
}
