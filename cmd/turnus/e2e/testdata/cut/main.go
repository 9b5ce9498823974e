// The program cut is turnus that kills itself at the n-th commit of its ledger, given as
// CUT_AT: before SQLite writes it, or with CUT_AFTER=1 as soon as another connection sees it.
// It appends a byte to CUT_COUNT for each commit.
package main

import (
	"context"
	"database/sql"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
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
	var commits atomic.Int64
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		if !strings.Contains(dsn, "/ledger.db") {
			return nil
		}
		conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			_, _ = count.Write([]byte{'.'})
			if commits.Add(1) == at {
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
