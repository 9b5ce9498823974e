package catalog_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/ledger"
)

// copied copies a ledger at one moment, and gives a function that fills an empty one from it later.
func (l *lab) copied() (restore func() string) {
	l.Helper()
	rows := map[string][][]any{}
	var tables []ledger.Table
	err := ledger.ReadCopy(l.Context(), l.url, func(ctx context.Context, c *ledger.Copy) error {
		tables = c.Tables
		for _, t := range c.Tables {
			if _, err := c.Rows(ctx, t, func(row []any) error { rows[t.Name] = append(rows[t.Name], slices.Clone(row)); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.Fatal(err)
	}
	return func() string {
		url := "sqlite:" + filepath.Join(l.TempDir(), "restored.db")
		err := ledger.Load(l.Context(), url, ledger.Version(), "backup", func(ctx context.Context, to *ledger.Loader) error {
			for _, t := range tables {
				left := rows[t.Name]
				if _, err := to.Table(ctx, t, func() ([]any, error) {
					if len(left) == 0 {
						return nil, io.EOF
					}
					row := left[0]
					left = left[1:]
					return row, nil
				}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			l.Fatal(err)
		}
		return url
	}
}

// A service comes back from a backup that is three triggers old. Nobody knows which of them were
// launched, so none is made up for, though catch_up asks for all. Later ones are launched as ever.
// The negative control: a ledger that does not know that it is a backup's launches them again.
func TestNoTriggerIsMadeUpForAfterARestore(t *testing.T) {
	for _, known := range []bool{true, false} {
		fake(t, func(l *lab) {
			c, stop := l.server("s1", nil)
			defer l.node()()
			l.apply(c, docs("cron: \"* * * * *\", catch_up: all"), 0)
			<-time.After(2*time.Minute + 30*time.Second)
			restore := l.copied()
			<-time.After(3 * time.Minute)
			stop()
			before := []string{"acme:patch-20000101T0001Z", "acme:patch-20000101T0002Z"}
			if got := l.runs(); len(got) != 5 || !slices.Equal(got[:2], before) {
				t.Fatalf("runs %v, expected five", got)
			}
			url := restore()
			second, err := ledger.Open(t.Context(), url, ledger.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = second.Close() }()
			if !known {
				l.raw(url, "UPDATE schedules SET passed = 0")
			}
			l.ledger = second
			_, stop = l.server("s2", nil)
			defer stop()
			<-time.After(15 * time.Second) // before 00:06
			got := l.runs()
			if known && !slices.Equal(got, before) {
				t.Errorf("runs %v, expected %v", got, before)
			}
			if !known && len(got) < 3 { // one after the other
				t.Errorf("negative control: runs %v: this test cannot fail", got)
			}
			<-time.After(time.Minute)
			if got := l.runs(); known && !slices.Equal(got, append(before, "acme:patch-20000101T0006Z")) {
				t.Errorf("a minute later: runs %v", got)
			}
		})
	}
}

// raw runs SQL behind the back of the ledger at a URL.
func (l *lab) raw(url, query string) {
	l.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")+"?_pragma=busy_timeout(10000)")
	if err == nil {
		_, err = db.ExecContext(l.Context(), query)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		l.Fatal(err)
	}
}
