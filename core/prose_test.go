package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The text of a reason is for people: product code branches on its code. See Reason.
func TestNothingBranchesOnTheTextOfAReason(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "../cmd", "../playbooks", "../windows"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "queuetest" {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, found := range proseBranches(t, path, nil) {
				t.Errorf("%s: reads the text of a reason; give the reason a core.ReasonCode", found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The negative control: what the test above looks for, and what it lets through.
func TestBranchesOnTextAreFound(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		`strings.HasPrefix(r.Reason, "needs")`:          1,
		`strings.Contains(r.Reason.Text(), x)`:          1,
		`strings.CutPrefix(reason, p)`:                  1,
		`func() bool { return e.Reason == held }()`:     1,
		`func() bool { return "x" != e.Reason }()`:      1,
		`func() { switch r.Reason { case "x": } }()`:    1,
		`func() bool { return e.Reason == "" }()`:       0,
		`func() bool { return a.Reason == b.Reason }()`: 0,
		`func() bool { return r.ReasonCode == held }()`: 0,
		`strings.TrimSpace(r.Reason)`:                   0,
	} {
		if got := proseBranches(t, "x.go", "package x\nvar _ = "+code); len(got) != want {
			t.Errorf("%s: found %v, expected %d", code, got, want)
		}
	}
}

// readers are the functions of package strings that look for something in a text.
var readers = []string{"HasPrefix", "HasSuffix", "Contains", "ContainsAny", "Cut", "CutPrefix", "CutSuffix", "TrimPrefix", "TrimSuffix", "Index", "EqualFold", "Split", "Fields"}

// proseBranches lists where a file reads the text of a reason to decide by it.
func proseBranches(t *testing.T, path string, src any) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	note := func(n ast.Node) { found = append(found, files.Position(n.Pos()).String()) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) == 0 || !slices.Contains(readers, f.Sel.Name) {
				return true
			}
			if pkg, ok := f.X.(*ast.Ident); ok && pkg.Name == "strings" && isReason(n.Args[0]) {
				note(n)
			}
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (isReason(n.X) && isText(n.Y) || isReason(n.Y) && isText(n.X)) {
				note(n)
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && isReason(n.Tag) {
				note(n)
			}
		}
		return true
	})
	return found
}

// isReason reports whether an expression is a reason or its text.
func isReason(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "reason"
	case *ast.SelectorExpr:
		return e.Sel.Name == "Reason"
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Text" || f.Sel.Name == "String") && isReason(f.X)
	}
	return false
}

// isText reports whether an expression is a fixed text; "" is none, and another reason may differ
// from one.
func isText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	if ok {
		return lit.Value != `""`
	}
	_, name := e.(*ast.Ident)
	return name && !isReason(e)
}
