package fleet

import (
	"context"
	"slices"
	"strconv"
)

// testExpr is test with one or two operands, ! before them, and -a or -o between.
func testExpr(ctx context.Context, c *call) int {
	args := c.args
	if c.name == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			return c.fail(2, "missing ]")
		}
		args = args[:len(args)-1]
	}
	for _, op := range []string{"-o", "-a"} {
		if i := slices.Index(args, op); i > 0 && len(args) > 3 {
			left := testExpr(ctx, &call{sh: c.sh, name: "test", args: args[:i], stdio: c.stdio}) == 0
			right := testExpr(ctx, &call{sh: c.sh, name: "test", args: args[i+1:], stdio: c.stdio}) == 0
			return status(op == "-o" && (left || right) || op == "-a" && left && right)
		}
	}
	if len(args) > 1 && args[0] == "!" && (len(args) != 3 || !slices.Contains(comparisons, args[1])) {
		return 1 - min(testExpr(ctx, &call{sh: c.sh, name: "test", args: args[1:], stdio: c.stdio}), 1)
	}
	switch len(args) {
	case 0:
		return 1
	case 1:
		return status(args[0] != "")
	case 2:
		return status(c.testOne(args[0], args[1]))
	case 3:
		return c.testTwo(args[0], args[1], args[2])
	}
	return c.fail(2, "too many arguments")
}

// comparisons are the operators between two operands, which also [ ! = x ] has.
var comparisons = []string{"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"}

func status(ok bool) int {
	if ok {
		return 0
	}
	return 1
}

func (c *call) testOne(op, arg string) bool {
	switch op {
	case "-n":
		return arg != ""
	case "-z":
		return arg == ""
	}
	if op == "-L" || op == "-h" {
		n, err := c.fs().lstat(c.sh.abs(arg))
		return err == nil && n.link
	}
	n, err := c.fs().stat(c.sh.abs(arg))
	if err != nil {
		return false
	}
	switch op {
	case "-d", "-f":
		return "-"+n.kind() == op
	case "-r":
		return c.sh.reads(&n)
	case "-O":
		return n.uid == c.sh.uid
	case "-s":
		return len(n.data) > 0
	case "-x":
		return n.mode&0o111 != 0
	case "-p", "-S", "-b", "-c":
		return false
	}
	return true // -e, -w
}

func (c *call) testTwo(a, op, b string) int {
	switch op {
	case "=", "==":
		return status(a == b)
	case "!=":
		return status(a != b)
	}
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	if err1 != nil || err2 != nil {
		return c.fail(2, "Illegal number")
	}
	switch op {
	case "-eq":
		return status(x == y)
	case "-ne":
		return status(x != y)
	case "-lt":
		return status(x < y)
	case "-le":
		return status(x <= y)
	case "-gt":
		return status(x > y)
	case "-ge":
		return status(x >= y)
	}
	return c.fail(2, "%s: unexpected operator", op)
}
