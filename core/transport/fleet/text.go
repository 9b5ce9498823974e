package fleet

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

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
