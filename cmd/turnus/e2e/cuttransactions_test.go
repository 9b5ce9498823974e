//go:build linux && labs

package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// transactions are the functions of the ledger that make a transaction.
func transactions(t *testing.T) (names []string) {
	t.Helper()
	const dir = "../../../core/ledger"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && callsTransact(fn) {
				names = append(names, nameOf(fn))
			}
		}
	}
	return names
}

func callsTransact(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "transact" {
				found = true
			}
		}
		return true
	})
	return found
}

// nameOf is a function as the runtime names it.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		return fmt.Sprintf("(*%s).%s", p.X, fn.Name.Name)
	}
	return fmt.Sprintf("%s.%s", of, fn.Name.Name)
}

// uncut lists the transactions that were not among those that are cut.
func uncut(all, cut []string) (problems []string) {
	for _, name := range all {
		if !slices.Contains(cut, name) {
			problems = append(problems, fmt.Sprintf("the transaction of %s is not cut: have the playbooks of the lab make it, or a command of cutCommands", name))
		}
	}
	return problems
}

func TestLabUncutTransactionsAreNoticed(t *testing.T) {
	all := transactions(t)
	if bad := uncut(all, all); len(bad) > 0 {
		t.Errorf("expected no problem, got %q", bad)
	}
	if bad := uncut(append(slices.Clone(all), "(*Ledger).New"), all); len(bad) != 1 || !strings.Contains(bad[0], "(*Ledger).New is not cut") {
		t.Errorf("a new transaction: %q", bad)
	}
	if !slices.Contains(all, "(*Ledger).Prune") || !slices.Contains(all, "(*db).migrate") {
		t.Errorf("not all transactions are found: %q", all)
	}
}
