// The program cut is turnus that kills itself at the n-th commit of its ledger, given as
// CUT_AT: before SQLite writes it, or with CUT_AFTER=1 as soon as another connection sees it.
// With CUT_IN it is the n-th commit in this function of the ledger. For each commit it appends the
// name of the function to CUT_COUNT. With CUT_SLOW each commit takes so long. With CUT_HOLD a
// commit in this function of the ledger makes the file CUT_HELD, and waits for CUT_HELD.end.
package main

import (
	"context"
	"database/sql"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata"

	"modernc.org/sqlite"

	"github.com/turnus/turnus/cmd/turnus/cli"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && strings.HasSuffix(args[0], "/turnus") { // the tests start what they would start without cut
		args = args[1:]
		hook()
	}
	os.Exit(cli.Main(args, os.Stdin, os.Stdout, os.Stderr))
}

func hook() {
	at, _ := strconv.ParseInt(os.Getenv("CUT_AT"), 10, 64)
	count, err := os.OpenFile(os.Getenv("CUT_COUNT"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	slow, _ := time.ParseDuration(os.Getenv("CUT_SLOW"))
	only, hold, held := os.Getenv("CUT_IN"), os.Getenv("CUT_HOLD"), os.Getenv("CUT_HELD")
	var commits atomic.Int64
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		if !strings.Contains(dsn, "/ledger.db") {
			return nil
		}
		conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			in := committing()
			_, _ = count.WriteString(in + "\n")
			<-time.After(slow)
			if in == hold {
				await(held)
			}
			if (only == "" || only == in) && commits.Add(1) == at {
				if os.Getenv("CUT_AFTER") == "" {
					die()
				}
				seen := watch(dsn)
				go func() {
					for !seen() { //nolint:revive // it is to die at once
					}
					die()
				}()
			}
			return 0
		})
		return nil
	})
}

// committing is the function of the ledger whose transaction is being committed.
func committing() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	const ledger = "/core/ledger."
	for within := false; ; {
		f, more := frames.Next()
		_, name, _ := strings.Cut(f.Function, ledger)
		if within && name != "(*db).transact" {
			name, _, _ = strings.Cut(name, ".func")
			return name
		}
		within = within || name == "(*db).transact"
		if !more {
			return "?"
		}
	}
}

// await makes the file held, and waits until the one is there that ends this.
func await(held string) {
	if err := os.WriteFile(held, nil, 0o600); err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(held + ".end"); err == nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// watch returns a function that reports whether a transaction was committed since.
func watch(dsn string) func() bool {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		panic(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		panic(err)
	}
	version := func() (n int64) {
		if err := conn.QueryRowContext(context.Background(), "PRAGMA data_version").Scan(&n); err != nil {
			panic(err)
		}
		return n
	}
	before := version()
	return func() bool { return version() != before }
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
