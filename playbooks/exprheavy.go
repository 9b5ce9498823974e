package playbooks

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"

	"github.com/turnus/turnus/core"
)

// Bounds of operations that nothing interrupts.
const (
	maxCompared = 20_000_000 // comparisons of all uniq() in one evaluation
	maxMatch    = 1 << 26    // instructions of a pattern, times the bytes of the text
)

const (
	matchName = "__match"
	uniqName  = "__uniq"
)

var (
	errTooManyCompared = fmt.Errorf("uniq() compares more than %d times", maxCompared)
)

// heavy replaces matches and uniq() by functions with a bound. Operands whose types are wrong stay
// as they are: the library reports them.
type heavy struct{}

// Visit replaces one operation.
func (heavy) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if n.Name == "uniq" && len(n.Arguments) == 1 && mayBe(n.Arguments[0], reflect.Slice) {
			ast.Patch(node, call(uniqName, n.Arguments...))
		}
	case *ast.BinaryNode:
		if n.Operator != "matches" || !mayBe(n.Left, reflect.String) || !mayBe(n.Right, reflect.String) {
			return
		}
		right := n.Right
		if text, ok := right.(*ast.StringNode); ok { // compiled once, not in each evaluation
			p, err := compilePattern(text.Value)
			if err != nil {
				return
			}
			right = &ast.ConstantNode{Value: p}
		}
		ast.Patch(node, call(matchName, n.Left, right))
	}
}

// mayBe reports whether a value is of a kind, or of a type that is not known.
func mayBe(n ast.Node, kind reflect.Kind) bool {
	t := n.Type()
	return t == nil || t.Kind() == reflect.Interface || t.Kind() == kind
}

// pattern is a regular expression with the number of its instructions.
type pattern struct {
	*regexp.Regexp
	size int
}

// compilePattern is core.CompilePattern.
func compilePattern(text string) (*pattern, error) {
	re, size, err := core.CompilePattern(text)
	return &pattern{re, size}, err
}

func matchText(args ...any) (any, error) {
	if args[1] == nil || args[2] == nil {
		return false, nil
	}
	text, ok := args[1].(string)
	if !ok {
		return nil, notText(args[1])
	}
	p, ok := args[2].(*pattern)
	if !ok {
		source, ok := args[2].(string)
		if !ok {
			return nil, notText(args[2])
		}
		var err error
		if p, err = compilePattern(source); err != nil {
			return nil, err
		}
	}
	if len(text) > maxMatch/p.size {
		return nil, fmt.Errorf("a pattern of %d instructions takes too long on a text of %d bytes, expected %d bytes at most", p.size, len(text), maxMatch/p.size)
	}
	if err := args[0].(*allowance).clock(); err != nil {
		return nil, err
	}
	return p.MatchString(text), nil
}

func notText(v any) error {
	return fmt.Errorf("needs text, got %s", typeWord(reflect.TypeOf(v).String()))
}

func uniqueItems(args ...any) (any, error) {
	b, list := args[0].(*allowance), reflect.ValueOf(args[1])
	if list.Kind() != reflect.Slice {
		return nil, errors.New("uniq needs a list")
	}
	out := []any{}
	for i := range list.Len() {
		item := list.Index(i).Interface()
		same := func(other any) bool { b.compared++; return runtime.Equal(item, other) }
		if !slices.ContainsFunc(out, same) {
			out = append(out, item)
		}
		if b.compared > maxCompared {
			return nil, errTooManyCompared
		}
	}
	return out, nil
}
