package ledger

import (
	"database/sql"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

func postgresDialect() *dialect {
	return &dialect{
		name: "postgres",
		// COLLATE "C": names sort by their bytes, as in SQLite and as cursors need it.
		schema: strings.NewReplacer("{text}", `TEXT COLLATE "C"`, "{bytes}", "BYTEA", "{serial}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
			"{clustered}", ""),
		now:       "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
		forUpdate: " FOR UPDATE",
		skip:      " FOR UPDATE SKIP LOCKED",
		anyOf:     "= ANY(%s)",
		list:      func(values []string) any { return values },
		lock:      "SELECT pg_advisory_xact_lock(8315161320)", // any number that other programs do not use
		insert:    insertUnnest,
	}
}

func openPostgres(url string, connections int) (*db, error) {
	config, parsed, err := parsePostgres(url)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	pool := sql.OpenDB(stdlib.GetConnector(*config, stdlib.OptionBeforeConnect(newRenewed(parsed, config).connect)))
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return &db{dialect: postgresDialect(), write: pool, read: pool}, nil
}
