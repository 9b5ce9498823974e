package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
)

// Kind is the type of a column of a Table.
type Kind string

// The kinds. A value of each may be NULL, which is nil.
const (
	Integer Kind = "integer" // int64
	Text    Kind = "text"    // string
	Bytes   Kind = "bytes"   // []byte, as it is stored: packed, or encrypted
)

// Column is one column of a Table.
type Column struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
}

// Table is one table of a ledger, described alike for both databases.
type Table struct {
	Name    string   `json:"name"`
	Columns []Column `json:"columns"`
	Serial  string   `json:"serial,omitempty"` // the column that the database numbers automatically
	Last    int64    `json:"last,omitempty"`   // the last number that it gave out

	key []string // its rows come in the order of these
}

// Copy is the whole content of a ledger at one moment, without later writes.
type Copy struct {
	Version  int     // of the tables
	Database string  // sqlite or postgres
	Tables   []Table // by name
	Audit    Anchor  // the end of the audit log

	d    *db
	conn *sql.Conn
	keys map[keyring.ID]bool
}

// ReadCopy calls do with a copy of the ledger at a URL. It changes nothing, works beside other
// users of the ledger, and reads tables of any version. While do runs, the database keeps what was
// removed since. So do must not wait for people or slow networks.
func ReadCopy(ctx context.Context, url string, do func(context.Context, *Copy) error) (err error) {
	if path, ok := FileOf(url); ok { // opening would make an empty one
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("there is no ledger: %w: %w", core.ErrInvalid, err)
		}
	}
	d, err := connect(url, 1)
	if err != nil {
		return fmt.Errorf("open ledger %s: %w", redact(url), err)
	}
	defer d.close()
	var done bool
	err = d.atOneMoment(ctx, func(conn *sql.Conn) error {
		c := &Copy{Database: d.name, d: d, conn: conn, keys: map[keyring.ID]bool{}}
		if err := c.describe(ctx); err != nil {
			return err
		}
		done = true
		return do(ctx, c)
	})
	if done {
		return err
	}
	return translate("copy the ledger", err)
}

// describe reads what there is. Its first query fixes the moment.
func (c *Copy) describe(ctx context.Context) error {
	if err := c.conn.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&c.Version); err != nil {
		return fmt.Errorf("it has no tables of a ledger: %w: %w", core.ErrInvalid, err)
	}
	var err error
	if c.Tables, err = tables(ctx, c.conn, c.d.dialect); err != nil {
		return err
	}
	for i := range c.Tables {
		if t := &c.Tables[i]; t.Serial != "" {
			if t.Last, err = c.d.lastSerial(ctx, c.conn, t); err != nil {
				return err
			}
		}
	}
	if !slices.ContainsFunc(c.Tables, func(t Table) bool { return t.Name == "audit_head" }) {
		return nil // of a version before
	}
	return c.conn.QueryRowContext(ctx, `SELECT seq, hash FROM audit_head WHERE one = 1`).Scan(&c.Audit.Seq, &c.Audit.Hash)
}

// Rows hands every row of a table to each, in the order of its key, and returns how many there
// were. A row is used again for the next one; what it refers to is not.
func (c *Copy) Rows(ctx context.Context, t Table, each func(row []any) error) (n int64, err error) {
	names := make([]string, len(t.Columns))
	for i, col := range t.Columns {
		names[i] = quoted(col.Name)
	}
	query := `SELECT ` + strings.Join(names, ", ") + ` FROM ` + quoted(t.Name) //nolint:gosec // names of the schema, quoted
	if len(t.key) > 0 {
		query += ` ORDER BY ` + strings.Join(t.key, ", ")
	}
	rows, err := c.conn.QueryContext(ctx, query)
	if err != nil {
		return 0, translate("copy table "+t.Name, err)
	}
	defer func() { _ = rows.Close() }()
	note := c.noting(t)
	row, into := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, translate("copy table "+t.Name, err)
		}
		for i, col := range t.Columns {
			if row[i], err = col.normal(row[i]); err != nil {
				return n, fmt.Errorf("copy table %s, row %d: %w", t.Name, n+1, err)
			}
		}
		note(row)
		if err := each(row); err != nil {
			return n, err
		}
		n++
	}
	return n, translate("copy table "+t.Name, rows.Err())
}

// Keys returns the keys of encrypted values in the rows that Rows has returned so far: reading them
// needs these keys. No ring is asked.
func (c *Copy) Keys() []keyring.ID { return slices.Sorted(maps.Keys(c.keys)) }

// noting notes the keys that the rows of a table are encrypted with.
func (c *Copy) noting(t Table) func(row []any) {
	var at []int
	for i, col := range t.Columns {
		if slices.ContainsFunc(encryptedColumns(), func(s encryptedColumn) bool { return s.table == t.Name && s.name == col.Name }) {
			at = append(at, i)
		}
	}
	return func(row []any) {
		for _, i := range at {
			switch v := row[i].(type) {
			case []byte:
				if id, ok := keyring.KeyOf(v); ok {
					c.keys[id] = true
				}
			case string:
				if id, ok := keyOfText(v); ok {
					c.keys[id] = true
				}
			}
		}
	}
}

// normal is a value as Kind promises it: SQLite gives back what was put in.
func (c Column) normal(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil //nolint:nilnil // NULL
	case int64:
		if c.Kind == Integer {
			return v, nil
		}
	case string:
		switch c.Kind {
		case Text:
			return v, nil
		case Bytes:
			return []byte(v), nil
		}
	case []byte:
		switch c.Kind {
		case Text:
			return string(v), nil
		case Bytes:
			if v == nil {
				v = []byte{}
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("column %s holds a %T, expected %s", c.Name, v, c.Kind)
}

// asker is a connection or a transaction.
type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// tables lists the ledger's tables by name, except that of migrations: the version determines what
// is in it.
func tables(ctx context.Context, q asker, d *dialect) (list []Table, err error) {
	rows, err := q.QueryContext(ctx, d.columns)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var table, column, kind string
		var key, serial int
		if err := rows.Scan(&table, &column, &kind, &key, &serial); err != nil {
			return nil, err
		}
		if len(list) == 0 || list[len(list)-1].Name != table {
			list = append(list, Table{Name: table})
		}
		t := &list[len(list)-1]
		k, ok := map[string]Kind{"bigint": Integer, "integer": Integer, "text": Text, "blob": Bytes, "bytea": Bytes}[strings.ToLower(kind)]
		if !ok {
			return nil, fmt.Errorf("table %s has a column %s of a kind that is not copied: %s: %w", table, column, kind, core.ErrInvalid)
		}
		t.Columns = append(t.Columns, Column{column, k})
		if serial == 1 {
			t.Serial = column
		}
		if key > 0 { // columns of a key come in its order, as far as they are in the table's: 0001 keeps both the same
			t.key = append(t.key, quoted(column))
		}
	}
	return list, rows.Err()
}

// quoted is a name as both databases take it. Names come from their own catalogues, or were
// compared with those.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
