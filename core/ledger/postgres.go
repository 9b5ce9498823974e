package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

func postgresDialect() *dialect {
	return &dialect{
		name: "postgres",
		// COLLATE "C": names sort by their bytes, as in SQLite and as cursors need it.
		schema: strings.NewReplacer("{text}", `TEXT COLLATE "C"`, "{bytes}", "BYTEA", "{serial}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
			"{clustered}", ""),
		now:       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
		clock:     true,
		forUpdate: " FOR UPDATE",
		skip:      " FOR UPDATE SKIP LOCKED",
		anyOf:     "= ANY(%s)",
		list:      func(values []string) any { return values },
		anyIndex:  "= ANY(%s::text[]::bigint[])",
		each:      "(SELECT unnest(%s::text[]) AS host) u",
		had:       "had_%s",
		holds:     "position(%[2]s IN %[1]s) > 0",
		inOrder:   true,
		lock:      "SELECT pg_advisory_xact_lock(8315161320)", // any number that other programs do not use
		snapshot:  "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
		columns: `SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL), coalesce(array_position(i.indkey::int2[], a.attnum), -1) + 1, CASE WHEN a.attidentity = '' THEN 0 ELSE 1 END
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
			WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname <> 'migrations' ORDER BY c.relname COLLATE "C", a.attnum`,
		lastSerial: lastPostgres,
		setSerial:  setPostgres,
		unguard:    unguardPostgres,
		load:       loadCopy,
	}
}

func lastPostgres(ctx context.Context, q asker, t *Table) (int64, error) {
	name, err := scanOne[string](q.QueryRowContext(ctx, `SELECT pg_get_serial_sequence($1, $2)`, quoted(t.Name), t.Serial))
	if err != nil {
		return 0, err
	}
	return scanOne[int64](q.QueryRowContext(ctx, `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM `+name)) // as the server quoted it
}

func setPostgres(ctx context.Context, t *tx, table Table) error {
	_, err := t.exec(ctx, `SELECT setval(pg_get_serial_sequence($1, $2), $3)`, quoted(table.Name), table.Serial, table.Last)
	return err
}

// unguardPostgres disables the triggers within the transaction.
func unguardPostgres(ctx context.Context, t *tx) (func() error, error) {
	rows, err := t.rows(ctx, `SELECT DISTINCT c.relname::text FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid WHERE NOT g.tgisinternal AND c.relnamespace = current_schema()::regnamespace`)
	guarded, err := collect(rows, err, scanOne[string])
	if err != nil {
		return nil, err
	}
	turn := func(how string) error {
		for _, name := range guarded {
			if _, err := t.exec(ctx, `ALTER TABLE `+quoted(name)+` `+how+` TRIGGER USER`); err != nil {
				return err
			}
		}
		return nil
	}
	return func() error { return turn("ENABLE") }, turn("DISABLE")
}

func openPostgres(url string, connections int) (*db, error) {
	config, parsed, err := parsePostgres(url)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	pool := sql.OpenDB(stdlib.GetConnector(*config, stdlib.OptionBeforeConnect(newRenewed(parsed, config).connect), stdlib.OptionAfterConnect(setPlanner)))
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return &db{dialect: postgresDialect(), write: pool, read: pool}, nil
}

// setPlanner keeps statements on the indexes that are made for them.
//
// A plan must not outlive the table for which it was made. A statement that was prepared while a
// table was nearly empty scans all of it for as long as the connection lives. With 10,000 runs due
// at the same time this takes 27 s instead of 5 s.
//
// A batch reads a few hundred rows of tables that are in memory. With the default cost of a page,
// which is that of a disk that turns, PostgreSQL scans all of 11,000 schedules to find 128.
func setPlanner(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, "SET plan_cache_mode = force_custom_plan; SET random_page_cost = 1.1"); err != nil {
		return fmt.Errorf("setting the planner: %w", err)
	}
	return nil
}
