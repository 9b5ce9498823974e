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

// otherwiseMade are the functions of the ledger whose transactions TestLabUpKilledAtEachCommit does
// not cut, and why none of its services makes them.
var otherwiseMade = map[string]string{
	"(*Ledger).ImportHandlers":   "turnus run makes it, where a former version left files of pending handlers",
	"(*Ledger).PostponeSchedule": "a schedule whose row cannot be read, or that doctor --repair makes due: no request leads to either",
	"(*Ledger).Prune":            "retention of runs: they are kept for a day or more",
	"(*Ledger).Release":          "a run that the queue refuses: it takes all that up accepts",
	"(*Ledger).ReplaceHandlers":  "turnus run makes it; a service has pending handlers from outcomes, and from runs whose queue was lost",
	"(*Ledger).Writable":         "doctor makes it, in a process of its own, and a service whose ledger refused a write",
	"(*Ledger).checkRun":         "doctor makes it, in a process of its own",
	"(*Ledger).prunable":         "retention: outputs are kept for a day or more. Those over a quota go at a start, and no other start has that duty for 10 minutes",
	"(*Ledger).reencryptColumn":  "turnus admin keys re-encrypt makes it, in a process of its own",
	"(*Ledger).reencryptObject":  "turnus admin keys re-encrypt makes it, in a process of its own",
	"(*Ledger).removeRows":       "retention, as prunable",
}

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

// uncut lists the transactions that were not among those that committed, and the useless entries of
// otherwiseMade: they make no transaction, or one that is cut.
func uncut(all, committed []string) (problems []string) {
	for _, name := range all {
		if !slices.Contains(committed, name) && otherwiseMade[name] == "" {
			problems = append(problems, fmt.Sprintf("the transaction of %s is not cut: have the playbooks of the lab make it, or list it in otherwiseMade", name))
		}
	}
	for name := range otherwiseMade {
		if !slices.Contains(all, name) {
			problems = append(problems, fmt.Sprintf("otherwiseMade lists %s, which makes no transaction", name))
		} else if slices.Contains(committed, name) {
			problems = append(problems, fmt.Sprintf("otherwiseMade lists %s, whose transaction is cut: remove it from the list", name))
		}
	}
	return problems
}

func TestLabUncutTransactionsAreNoticed(t *testing.T) {
	all := transactions(t)
	here := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return otherwiseMade[name] != "" })
	if bad := uncut(all, here); len(bad) > 0 {
		t.Errorf("expected no problem, got %q", bad)
	}
	if bad := uncut(append(slices.Clone(all), "(*Ledger).New"), here); len(bad) != 1 || !strings.Contains(bad[0], "(*Ledger).New is not cut") {
		t.Errorf("a new transaction: %q", bad)
	}
	if bad := uncut(all, append(slices.Clone(here), "(*Ledger).Prune")); len(bad) != 1 || !strings.Contains(bad[0], "(*Ledger).Prune, whose transaction is cut") {
		t.Errorf("a transaction that is listed and cut: %q", bad)
	}
	if bad := uncut(nil, nil); len(bad) != len(otherwiseMade) {
		t.Errorf("functions that are gone: %q", bad)
	}
}
