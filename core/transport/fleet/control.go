package fleet

import (
	"context"
	"maps"
	"regexp"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// command runs what is not a simple command.
func (sh *shell) command(ctx context.Context, c syntax.Command) int {
	switch c := c.(type) {
	case nil: // redirections alone
		return 0
	case *syntax.BinaryCmd:
		return sh.binary(ctx, c)
	case *syntax.Block:
		return sh.statements(ctx, c.Stmts)
	case *syntax.Subshell:
		return sh.fork().statements(ctx, c.Stmts)
	case *syntax.IfClause:
		return sh.ifElse(ctx, c)
	case *syntax.WhileClause:
		return sh.loop(ctx, c.Do, func() bool { return (sh.condition(ctx, c.Cond) == 0) != c.Until })
	case *syntax.ForClause:
		if over, ok := c.Loop.(*syntax.WordIter); ok {
			return sh.loopOver(ctx, over, c.Do)
		}
	case *syntax.CaseClause:
		return sh.choose(ctx, c)
	case *syntax.FuncDecl:
		if sh.funcs == nil {
			sh.funcs = map[string]*syntax.Stmt{}
		}
		sh.funcs[c.Name.Value] = c.Body
		return 0
	}
	return sh.fail("%T is not simulated", c)
}

func (sh *shell) binary(ctx context.Context, c *syntax.BinaryCmd) int {
	if c.Op == syntax.Pipe {
		return sh.pipe(ctx, c.X, c.Y)
	}
	tested := sh.tested
	sh.tested = true
	ok := sh.statement(ctx, c.X) == 0
	sh.tested = tested
	if ok == (c.Op == syntax.AndStmt) && !sh.stopped(ctx) {
		sh.statement(ctx, c.Y)
	}
	return sh.status
}

// condition runs a list whose failure does not end a strict script.
func (sh *shell) condition(ctx context.Context, list []*syntax.Stmt) int {
	tested := sh.tested
	sh.tested = true
	defer func() { sh.tested = tested }()
	return sh.statements(ctx, list)
}

func (sh *shell) ifElse(ctx context.Context, c *syntax.IfClause) int {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 { // else
			return sh.statements(ctx, c.Then)
		}
		ok := sh.condition(ctx, c.Cond) == 0
		if sh.stopped(ctx) {
			return sh.status
		}
		if ok {
			return sh.statements(ctx, c.Then)
		}
	}
	return 0
}

// loop runs a list as long as more returns true; its status is the list's last one.
func (sh *shell) loop(ctx context.Context, list []*syntax.Stmt, more func() bool) int {
	sh.loops++
	defer func() { sh.loops-- }()
	status := 0
	for more() || sh.breaks > 0 {
		if !sh.stopped(ctx) {
			status = sh.statements(ctx, list)
		}
		if sh.breaks > 0 {
			if sh.breaks--; sh.breaks > 0 || !sh.again {
				break
			}
		}
		if sh.stopped(ctx) {
			break
		}
	}
	if sh.done {
		return sh.status
	}
	return status
}

func (sh *shell) loopOver(ctx context.Context, over *syntax.WordIter, list []*syntax.Stmt) int {
	items := sh.args
	if over.InPos.IsValid() {
		var ok bool
		if items, ok = sh.fields(ctx, over.Items); !ok {
			return sh.status
		}
	}
	return sh.loop(ctx, list, func() bool {
		if len(items) == 0 {
			return false
		}
		sh.assign(over.Name.Value, items[0])
		items = items[1:]
		return true
	})
}

func (sh *shell) choose(ctx context.Context, c *syntax.CaseClause) int {
	subject, ok := sh.text(ctx, c.Word)
	for _, item := range c.Items {
		for _, w := range item.Patterns {
			if ok && matches(sh.pattern(ctx, w), subject) {
				if len(item.Stmts) == 0 {
					return 0
				}
				return sh.statements(ctx, item.Stmts)
			}
		}
	}
	if sh.done {
		return sh.status
	}
	return 0
}

// matches reports whether a pattern fits all of a text. A malformed one fits none.
func matches(pat, text string) bool {
	expr, err := pattern.Regexp(pat, pattern.EntireString)
	if err != nil {
		return false
	}
	re, err := regexp.Compile(expr)
	return err == nil && re.MatchString(text)
}

// invoke runs a function with arguments of its own.
func (sh *shell) invoke(ctx context.Context, body *syntax.Stmt, args []string) int {
	if sh.depth >= maxDepth {
		return sh.fail("%v", errNested)
	}
	outer, hidden, loops := sh.args, sh.locals, sh.loops
	sh.args, sh.locals, sh.loops = args, map[string]variable{}, 0
	sh.depth++
	status := sh.statement(ctx, body)
	sh.depth--
	maps.Copy(sh.vars, sh.locals)
	sh.args, sh.locals, sh.loops = outer, hidden, loops
	if sh.leave {
		sh.done, sh.leave = false, false
	}
	return status
}
