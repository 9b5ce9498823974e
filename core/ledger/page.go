package ledger

import (
	"context"
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

// listing is a list that is read by pages.
type listing[T any] struct {
	what        string // what it does, for errors
	head, order string // of the SELECT
	scan        func(scanner) (T, error)
	at          func(T) cursor       // behind a row; it has the same form for each, also the zero one
	after       func(*query, cursor) // adds the condition of what is behind it
}

// list reads a page of what meets the conditions of q. next is "" at the end.
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
	rows, err := l.db.rows(ctx, q.text(of.head, of.order, p), q.args...)
	if all, err = collect(rows, err, of.scan); err != nil {
		return nil, "", translate(of.what, err)
	}
	all, next = cut(all, p, of.at)
	return all, next, nil
}

// query builds a SELECT whose conditions depend on what is asked.
type query struct {
	d     *dialect
	conds []string
	args  []any
}

// where adds a condition; each ? in it is the next of args.
func (q *query) where(cond string, args ...any) {
	for _, a := range args {
		q.args = append(q.args, a)
		cond = strings.Replace(cond, "?", "$"+strconv.Itoa(len(q.args)), 1)
	}
	q.conds = append(q.conds, cond)
}

func (q *query) whereAny(column string, values []string) {
	q.conds = append(q.conds, q.anyOf(column, values))
}

func (q *query) whereNone(column string, values []string) {
	q.conds = append(q.conds, "NOT ("+q.anyOf(column, values)+")")
}

func (q *query) anyOf(column string, values []string) string {
	if values == nil {
		values = []string{}
	}
	q.args = append(q.args, q.d.list(values))
	return column + " " + fmt.Sprintf(q.d.anyOf, "$"+strconv.Itoa(len(q.args)))
}

// text joins head, the conditions, and order with the limit, one more than the page has.
func (q *query) text(head, order string, p Page) string {
	var b strings.Builder
	b.WriteString(head)
	if len(q.conds) > 0 {
		b.WriteString(" WHERE " + strings.Join(q.conds, " AND "))
	}
	q.args = append(q.args, p.limit()+1)
	b.WriteString(" ORDER BY " + order + " LIMIT $" + strconv.Itoa(len(q.args)))
	return b.String()
}
