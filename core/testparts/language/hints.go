package language

import (
	"go/ast"
	"go/token"
	"strings"
)

// Hint is a text that a Go file shows after "hint: ". Each verb of a format is VALUE.
type Hint struct {
	Line int
	Text string
}

// Hints returns the hints of a Go file: literals behind "hint: ", and those of variables, fields
// and keys that are named hint. It leaves out a hint whose first part is known at runtime only.
func Hints(path string, src []byte) ([]Hint, error) {
	fset, f, err := parse(path, src)
	if err != nil {
		return nil, err
	}
	var found []Hint
	add := func(at token.Pos, text string) {
		text, _, _ = strings.Cut(strings.TrimSpace(verb.ReplaceAllString(text, "VALUE")), "\n\n")
		if text != "" && !strings.HasPrefix(text, "VALUE") {
			found = append(found, Hint{fset.Position(at).Line, text})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit, *ast.BinaryExpr:
			if _, text, ok := strings.Cut(rendered(n.(ast.Expr)), "hint: "); ok {
				add(n.Pos(), text)
				return false
			}
		case *ast.KeyValueExpr:
			if isHint(n.Key) {
				add(n.Value.Pos(), rendered(n.Value))
			}
		case *ast.CallExpr: // of core/transport: unreachable(op, hint, err)
			if fun, ok := n.Fun.(*ast.SelectorExpr); ok && fun.Sel.Name == "unreachable" && len(n.Args) == 3 {
				add(n.Args[1].Pos(), rendered(n.Args[1]))
			}
		case *ast.AssignStmt: // += adds to a hint that was checked, or will be
			if n.Tok == token.ADD_ASSIGN {
				break
			}
			for i, left := range n.Lhs {
				if len(n.Rhs) == len(n.Lhs) && isHint(left) {
					add(n.Rhs[i].Pos(), rendered(n.Rhs[i]))
				}
			}
		}
		return true
	})
	return found, nil
}

// rendered returns the text of an expression, or of the format of a call. A part that is known at
// runtime only is VALUE.
func rendered(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return rendered(e.X) + rendered(e.Y)
	case *ast.BasicLit:
		return literal(e)
	case *ast.CallExpr:
		if text := written(e); text != "" {
			return text
		}
	}
	return "VALUE"
}

// isHint reports whether an expression is a variable, a field or a key that is named hint.
func isHint(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "hint")
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "hint")
	}
	return false
}
