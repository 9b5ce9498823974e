package ledger

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
)

// Bounds of a page.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// Page asks for a part of a list.
type Page struct {
	Cursor string // that came with the page before; "" for the first
	Limit  int    // at most MaxPage; DefaultPage when zero
}

// limit is how many are asked for. Over MaxPage it is MaxPage.
func (p Page) limit() int {
	if p.Limit <= 0 {
		return DefaultPage
	}
	return min(p.Limit, MaxPage)
}

// cursor is a place in a list: the values of its sort key, behind the list's name. It is not
// signed, because it opens nothing: the scope is asked for with each page.
type cursor struct {
	List string   `json:"l"`
	Key  []int64  `json:"k,omitempty"`
	Name []string `json:"n,omitempty"`
}

func (c cursor) String() string {
	data, _ := json.Marshal(c) // numbers and strings always marshal
	return base64.RawURLEncoding.EncodeToString(data)
}

// at reads a cursor of a list with so many numbers and names; ok is false for "".
func (p Page) at(list string, numbers, names int) (c cursor, ok bool, err error) {
	if p.Cursor == "" {
		return cursor{}, false, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil || c.List != list || len(c.Key) != numbers || len(c.Name) != names {
		return cursor{}, false, p.foreign(list)
	}
	for _, n := range c.Name {
		if clean(n, maxText) != n {
			return cursor{}, false, p.foreign(list)
		}
	}
	return c, true, nil
}

// foreign is the error of a cursor that no page of a list came with.
func (p Page) foreign(list string) error {
	return fmt.Errorf("cursor %q is not one of the list of %s: use what came with the page before: %w", p.Cursor, list, core.ErrInvalid)
}

// cut takes the extra row off that reports whether there is more, and makes the cursor of the last
// one.
func cut[T any](all []T, p Page, at func(T) cursor) ([]T, string) {
	if n := p.limit(); len(all) > n {
		all = all[:n]
		return all, at(all[n-1]).String()
	}
	return all, ""
}

// Each returns the entries of a list, size of them a page. An error is the last.
func Each[T any](ctx context.Context, size int, list func(context.Context, Page) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for p := (Page{Limit: size}); ; {
			all, next, err := list(ctx, p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range all {
				if !yield(one, nil) {
					return
				}
			}
			if p.Cursor = next; next == "" {
				return
			}
		}
	}
}

// First returns the first n entries of a list, which may be in several pages.
func First[T any](ctx context.Context, n int, list func(context.Context, Page) ([]T, string, error)) (all []T, err error) {
	for one, err := range Each(ctx, n, list) {
		if err != nil {
			return nil, err
		}
		if all = append(all, one); len(all) == n {
			break
		}
	}
	return all, nil
}

// listing is a list that is read by pages.
type listing[T any] struct {
	what                 string // what it does, for errors
	columns, from, order string // of the SELECT
	scan                 func(scanner) (T, error)
	at                   func(T) cursor       // behind a row; it has the same form for each, also the zero one
	after                func(*query, cursor) // adds the condition of what is behind it
}

// list reads a page of what meets the conditions of q. next is "" at the end. With sifts a page may
// have fewer rows than p asks for, or none, and more behind it.
func list[T any](ctx context.Context, l *Ledger, q *query, p Page, of listing[T]) (all []T, next string, err error) {
	var zero T
	form := of.at(zero)
	at, more, err := p.at(form.List, len(form.Key), len(form.Name))
	if err != nil {
		return nil, "", err
	}
	if more {
		of.after(q, at)
	}
	text, args := q.page(of.columns, of.from, of.order, p)
	if len(q.sifts) == 0 {
		rows, err := l.db.rows(ctx, text, args...)
		if all, err = collect(rows, err, of.scan); err != nil {
			return nil, "", translate(of.what, err)
		}
		all, next = cut(all, p, of.at)
		return all, next, nil
	}
	// The last row that was checked is one of those: a later moment may have others before it.
	err = l.db.atOneMoment(ctx, func(c *sql.Conn) error {
		rows, err := c.QueryContext(ctx, preparedOnce(text), args...)
		if all, err = collect(rows, err, of.scan); err != nil {
			return err
		}
		if all, next = cut(all, p, of.at); next != "" {
			return nil
		}
		last, err := of.scan(c.QueryRowContext(ctx, q.rows(of.columns, of.from, of.order, "1")+" OFFSET "+strconv.Itoa(sifted-1), q.args...))
		if err == nil && q.own.text != "" {
			mine := &query{d: q.d}
			mine.where(q.own.text, q.own.args...)
			of.after(mine, of.at(last))
			from, _, _ := strings.Cut(of.from, " ")
			last, err = of.scan(c.QueryRowContext(ctx, mine.rows(of.columns, from, of.order, "1"), mine.args...))
		}
		if none(err) {
			return nil
		}
		at := of.at(last)
		if q.own.text != "" { // a list that descends: one more is in front of the row
			at.Key[len(at.Key)-1]++
		}
		next = at.String()
		return err
	})
	if err != nil {
		return nil, "", translate(of.what, err)
	}
	return all, next, nil
}

// sifted is how many rows a page with sifts checks at most. A condition may read more of each.
const sifted = 10_000

// query builds a SELECT whose conditions depend on what is asked.
type query struct {
	d     *dialect
	conds []string
	args  []any
	sifts []cond // of rows that meet conds; no index has them
	// own, if not zero, is the sifted condition that a row is the reader's. A cursor then names no row
	// of others: it is in front of the reader's next row behind those that were checked.
	own cond
}

// cond is a condition; each ? in text is the next of args.
type cond struct {
	text string
	args []any
}

// number replaces each ? by its place behind those of args, and adds its value to them.
func (c cond) number(args []any) (string, []any) {
	text := c.text
	for _, a := range c.args {
		args = append(args, a)
		text = strings.Replace(text, "?", "$"+strconv.Itoa(len(args)), 1)
	}
	return text, args
}

// where adds a condition by which rows are found: an index has it, or the table is small. Each ? in
// it is the next of args.
func (q *query) where(text string, args ...any) {
	text, q.args = cond{text, args}.number(q.args)
	q.conds = append(q.conds, text)
}

// sift adds a condition that no index has. Such a query checks at most sifted rows, see list.
func (q *query) sift(text string, args ...any) {
	q.sifts = append(q.sifts, cond{text, args})
}

// equals adds a condition by where or sift, unless the value is "".
func (q *query) equals(add func(text string, args ...any), column, value string) {
	if value != "" {
		add(column+" = ?", clean(value, maxText))
	}
}

// anyOf is the condition that a column has one of these values.
func (q *query) anyOf(column string, values []string) cond {
	if values == nil {
		values = []string{}
	}
	return cond{column + " " + fmt.Sprintf(q.d.anyOf, "?"), []any{q.d.list(values)}}
}

func (q *query) whereAny(column string, values []string) {
	c := q.anyOf(column, values)
	q.where(c.text, c.args...)
}

func (q *query) whereNone(column string, values []string) {
	c := q.anyOf(column, values)
	q.where("NOT ("+c.text+")", c.args...)
}

// page is the SELECT of a page, which reads one row more than the page has.
func (q *query) page(columns, from, order string, p Page) (text string, args []any) {
	args = q.args
	var sifts []string
	for _, c := range q.sifts {
		text, args = c.number(args)
		sifts = append(sifts, text)
	}
	args = append(args, p.limit()+1)
	limit := "$" + strconv.Itoa(len(args))
	if len(sifts) == 0 {
		return q.rows(columns, from, order, limit), args
	}
	table, _, _ := strings.Cut(from, " ")
	text = "SELECT " + columns + " FROM (" + q.rows("*", from, order, strconv.Itoa(sifted)) + ") " + table + " WHERE " + strings.Join(sifts, " AND ")
	if q.d.inOrder {
		text += " ORDER BY " + order
	}
	return text + " LIMIT " + limit, args
}

// rows is the SELECT of the first rows that meet the conditions, without sifts.
func (q *query) rows(columns, from, order, limit string) string {
	text := "SELECT " + columns + " FROM " + from
	if len(q.conds) > 0 {
		text += " WHERE " + strings.Join(q.conds, " AND ")
	}
	return text + " ORDER BY " + order + " LIMIT " + limit
}
