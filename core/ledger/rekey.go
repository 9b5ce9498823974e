package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
)

// KeyUse is how much of one kind is encrypted with one key, or not at all.
type KeyUse struct {
	What      string // "attempts.detail"
	Encrypted bool
	Key       keyring.ID // where Encrypted
	Count     int
}

// encryptedColumn is one of those that are encrypted. Its rows differ by keys, the columns of the
// table's primary key; more are needed to name the place.
type encryptedColumn struct {
	table, name string
	keys, more  []string
	text        bool   // a reason, in sealReason's form
	only        string // a further condition
	batch       int    // rows that are read together, so that memory is bounded
	place       func(run string, v []any) []string
}

// encryptedColumns are all there are.
func encryptedColumns() []encryptedColumn {
	text := func(v any) string {
		switch v := v.(type) {
		case string:
			return v
		case []byte:
			return string(v)
		case int64:
			return strconv.FormatInt(v, 10)
		}
		return fmt.Sprint(v)
	}
	try := func(what string) func(string, []any) []string {
		return func(run string, v []any) []string { return []string{what, run, text(v[1]), text(v[2]), text(v[3])} }
	}
	ofRun := func(what string) func(string, []any) []string {
		return func(run string, _ []any) []string { return []string{what, run} }
	}
	output := func(what string) func(string, []any) []string {
		return func(run string, v []any) []string { return []string{what, run, text(v[1]), text(v[2])} }
	}
	attempt := []string{"run", "idx", "life", "attempt"}
	return []encryptedColumn{
		{table: "materials", name: "snapshot", keys: []string{"run"}, batch: 4, place: ofRun(snapshotOf)},
		{table: "materials", name: "queue", keys: []string{"run"}, batch: 1, place: ofRun(queueOf)},
		{table: "attempts", name: "detail", keys: attempt, batch: 100, place: try(detailOf)},
		{table: "attempts", name: "reason", keys: attempt, batch: 500, text: true, place: try(reasonOf)},
		{table: "jobs", name: "reason", keys: []string{"run", "idx"}, more: []string{"life", "attempt"}, batch: 500, text: true, place: try(reasonOf)},
		{table: "outputs", name: "data", keys: []string{"run", "idx", "name"}, only: "c.object = ''", batch: 8, place: output(outputOf)},
		{table: "outputs", name: "data", keys: []string{"run", "idx", "name"}, only: "c.object <> ''", batch: 500, place: output(objectOf)},
		{table: "documents", name: "data", keys: []string{"kind", "tenant", "name"}, only: "c.kind <> '" + markerKind + "'", batch: 4, place: func(_ string, v []any) []string {
			return []string{documentOf, text(v[0]), text(v[1]), text(v[2])}
		}},
		{table: "schedules", name: "data", keys: []string{"tenant", "name"}, batch: 200, place: func(_ string, v []any) []string {
			return []string{scheduleOf, text(v[0]), text(v[1])}
		}},
		{table: "happenings", name: "data", keys: []string{"seq"}, more: []string{"id", "what", "fold"}, batch: 100, place: func(_ string, v []any) []string {
			return happeningPlace(text(v[1]), text(v[2]), text(v[3]))
		}},
		{table: "notifications", name: "data", keys: []string{"seq"}, more: []string{"id"}, batch: 100, place: func(_ string, v []any) []string {
			return []string{noticeOf, text(v[1])}
		}},
		{table: "facts", name: "data", keys: []string{"tenant", "host"}, batch: 200, place: func(_ string, v []any) []string {
			return []string{factsOf, text(v[0]), text(v[1])}
		}},
		{table: "once", name: "data", keys: []string{"run", "step"}, batch: 50, place: func(run string, v []any) []string {
			return []string{onceOf, run, text(v[1])}
		}},
	}
}

// what names a column to people; large outputs are objects.
func (c *encryptedColumn) what() string {
	if strings.HasSuffix(c.only, "<> ''") && c.table == "outputs" {
		return "objects"
	}
	return c.table + "." + c.name
}

// header is an expression for how a stored value begins.
func (c *encryptedColumn) header() string {
	if c.text {
		return "substr(c." + c.name + ", 1, " + strconv.Itoa(encryptedTextHeader) + ")"
	}
	return "substr(c." + c.name + ", 1, " + strconv.Itoa(keyring.HeaderBytes) + ")"
}

// headerOf returns the beginning of values that are encrypted with a key.
func (c *encryptedColumn) headerOf(id keyring.ID) any {
	if c.text {
		return encryptedText + id.String()
	}
	return id.Header()
}

// present is the condition that there is a value.
func (c *encryptedColumn) present() string {
	cond := "c." + c.name + " IS NOT NULL"
	if c.text {
		cond = "c." + c.name + " <> ''"
	}
	if c.only != "" {
		cond += " AND " + c.only
	}
	return cond
}

// isEncrypted is the condition that a value is encrypted, with the parameter $1.
func (c *encryptedColumn) isEncrypted() (cond string, arg any) {
	if c.text {
		return "substr(c." + c.name + ", 1, " + strconv.Itoa(len(encryptedText)) + ") = $1", encryptedText
	}
	return "substr(c." + c.name + ", 1, 3) = $1", keyring.ID(0).Header()[:3]
}

// KeyUses counts the ledger's values by the key that encrypts them. It reads the beginning of every
// value, which is slow: it is for checks, not for daily work. Reasons that are not encrypted are
// not counted, because the reasons of jobs that were cancelled together never are.
func (l *Ledger) KeyUses(ctx context.Context) ([]KeyUse, error) {
	var all []KeyUse
	for _, c := range encryptedColumns() {
		cond, arg := c.isEncrypted()
		part := "substr(c." + c.name + ", 4, 4)"
		if c.text {
			part = "substr(c." + c.name + ", " + strconv.Itoa(len(encryptedText)+1) + ", 8)"
		}
		rows, err := l.db.rows(ctx, `SELECT `+part+` AS k, count(*) FROM `+c.table+` c WHERE `+c.present()+` AND `+cond+` GROUP BY 1`, arg)
		type use struct {
			key []byte
			n   int
		}
		uses, err := collect(rows, err, func(row scanner) (u use, err error) {
			err = row.Scan(&u.key, &u.n)
			return u, err
		})
		if err != nil {
			return nil, translate("count encrypted values in "+c.what(), err)
		}
		for _, u := range uses {
			id, err := c.parseKey(u.key)
			if err != nil {
				return nil, fmt.Errorf("count encrypted values in %s: %w", c.what(), err)
			}
			all = append(all, KeyUse{What: c.what(), Encrypted: true, Key: id, Count: u.n})
		}
		if c.text {
			continue
		}
		plain, err := l.countPlain(ctx, &c)
		if err != nil {
			return nil, err
		}
		if plain > 0 {
			all = append(all, KeyUse{What: c.what(), Count: plain})
		}
	}
	return all, nil
}

func (l *Ledger) countPlain(ctx context.Context, c *encryptedColumn) (int, error) {
	cond, arg := c.isEncrypted()
	query := `SELECT count(*) FROM ` + c.table + ` c WHERE ` + c.present() + ` AND NOT (` + cond + `)`
	if c.what() == "objects" { // one that is not encrypted has no key in its row
		query = `SELECT count(*) FROM ` + c.table + ` c WHERE ` + c.only + ` AND (c.` + c.name + ` IS NULL OR NOT (` + cond + `))`
	}
	n, err := scanOne[int](l.db.row(ctx, query, arg))
	return n, translate("count values that are not encrypted in "+c.what(), err)
}

func (c *encryptedColumn) parseKey(b []byte) (keyring.ID, error) {
	if c.text {
		return keyring.ParseID(string(b))
	}
	if len(b) != 4 {
		return 0, fmt.Errorf("a value ends in its header: %w", keyring.ErrTampered)
	}
	return keyring.ID(binary.BigEndian.Uint32(b)), nil
}

// Reencrypted is the result of one call of Reencrypt.
type Reencrypted struct {
	Values   int      // that were encrypted again
	Failed   int      // that could not be opened, and stay as they are
	Failures []string // the first of those, and why
}

const maxFailures = 20

// Reencrypt encrypts with the ring's primary key all values that another key encrypts, and, where
// the ring accepts plain bytes, values that are not encrypted. It works in small batches beside a
// service at work. After an error it may be called again; finished values stay as they are. It
// calls progress, if not nil, with the number of values that were encrypted so far.
func (l *Ledger) Reencrypt(ctx context.Context, progress func(values int)) (Reencrypted, error) {
	var out Reencrypted
	if l.ring == nil {
		return out, fmt.Errorf("re-encrypt: the ledger was opened without a key ring: %w", core.ErrInvalid)
	}
	if err := l.mark(ctx); err != nil {
		return out, err
	}
	for _, c := range encryptedColumns() {
		if err := l.reencryptColumn(ctx, &c, &out, progress); err != nil {
			return out, translate("re-encrypt "+c.what(), err)
		}
		if c.what() == "objects" && l.ring.AcceptsPlain() {
			if err := l.encryptObjects(ctx, &out, progress); err != nil {
				return out, translate("encrypt objects", err)
			}
		}
	}
	return out, translate("remove objects that are not encrypted", l.removeReplaced(ctx))
}

// stored is one value to be encrypted again.
type stored struct {
	keys  []any // and behind them the other columns that name the place
	run   string
	value any // []byte or string
}

func (l *Ledger) reencryptColumn(ctx context.Context, c *encryptedColumn, out *Reencrypted, progress func(int)) error {
	var after []any
	for {
		primary, _ := l.ring.Primary()
		rows, err := l.oldValues(ctx, c, primary, after)
		if err != nil || len(rows) == 0 {
			return err
		}
		fresh := make([]any, len(rows))
		for i, r := range rows {
			if fresh[i], err = l.again(c, r); err != nil {
				out.fail(fmt.Sprintf("%s of %s: %v", c.what(), strings.Join(c.place(r.run, r.keys)[1:], "/"), err))
			}
		}
		done := 0
		err = l.db.transact(ctx, "re-encrypt", func(t *tx) error {
			done = 0
			for i, r := range rows {
				if fresh[i] == nil {
					continue
				}
				cond, args := make([]string, 0, len(c.keys)+1), []any{fresh[i]}
				for k, key := range c.keys {
					args = append(args, r.keys[k])
					cond = append(cond, key+" = $"+strconv.Itoa(len(args)))
				}
				args = append(args, r.value)
				cond = append(cond, c.name+" = $"+strconv.Itoa(len(args))) // else it was replaced meanwhile, and is encrypted as it should be
				n, err := t.exec(ctx, `UPDATE `+c.table+` SET `+c.name+` = $1 WHERE `+strings.Join(cond, " AND "), args...)
				if err != nil {
					return err
				}
				done += int(n)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if out.Values += done; progress != nil {
			progress(out.Values)
		}
		after = rows[len(rows)-1].keys[:len(c.keys)]
	}
}

// oldValues reads the next values to encrypt again.
func (l *Ledger) oldValues(ctx context.Context, c *encryptedColumn, primary keyring.ID, after []any) ([]stored, error) {
	var names []string
	for _, n := range slices.Concat(c.keys, c.more) {
		names = append(names, "c."+n)
	}
	from, run := c.table+" c", "''"
	if slices.Contains(c.keys, "run") {
		from, run = from+" JOIN runs r ON r.seq = c.run", "r.id"
	}
	query, args := `SELECT `+run+`, c.`+c.name+`, `+strings.Join(names, ", ")+` FROM `+from+` WHERE `+c.present(), []any{}
	param := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	if !l.ring.AcceptsPlain() {
		cond, arg := c.isEncrypted()
		param(arg)
		query += " AND " + cond
	}
	query += " AND " + c.header() + " <> " + param(c.headerOf(primary))
	keys := strings.Join(names[:len(c.keys)], ", ")
	if after != nil {
		var at []string
		for _, v := range after {
			at = append(at, param(v))
		}
		query += " AND (" + keys + ") > (" + strings.Join(at, ", ") + ")"
	}
	rows, err := l.db.rows(ctx, query+" ORDER BY "+keys+" LIMIT "+param(c.batch), args...)
	return collect(rows, err, func(row scanner) (stored, error) {
		s := stored{keys: make([]any, len(names))}
		var bytes []byte
		dest := []any{&s.run, &bytes}
		for i := range s.keys {
			dest = append(dest, &s.keys[i])
		}
		err := row.Scan(dest...)
		s.value = bytes
		if c.text {
			s.value = string(bytes)
		}
		return s, err
	})
}

// again encrypts one value again.
func (l *Ledger) again(c *encryptedColumn, s stored) (any, error) {
	place := keyring.Context(c.place(s.run, s.keys)...)
	if !c.text {
		plain, err := l.ring.Open(s.value.([]byte), place)
		if err != nil {
			return nil, err
		}
		return l.ring.Encrypt(plain, place), nil
	}
	text := s.value.(string)
	if strings.HasPrefix(text, encryptedText) {
		b, err := openText(l.ring, text, place)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	return encryptText(l.ring, text, place), nil
}

func (r *Reencrypted) fail(text string) {
	if r.Failed++; len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, text)
	}
}
