package server

import (
	"maps"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core/ledger"
)

// Page asks for a part of a list. Structs that requests embed are exported, because huma reads no
// other fields.
type Page struct {
	Cursor string `query:"cursor" doc:"of the page before" maxLength:"1000"`
	Limit  int    `query:"limit" doc:"at most so many" minimum:"1" maximum:"1000" default:"100"`
}

func (p Page) ledger() ledger.Page { return ledger.Page(p) }

// shortPage is a part of the description of lists whose pages check a bounded number of rows.
const shortPage = "A page may have fewer than were asked for, or none, and more behind it."

// list is the answer to a list.
type list[T any] struct {
	Body struct {
		Items []T    `json:"items"`
		Next  string `json:"next,omitempty" doc:"cursor of the next page"`
	}
}

func listOf[T any](items []T, next string) *list[T] {
	out := &list[T]{}
	out.Body.Items, out.Body.Next = items, next
	if items == nil {
		out.Body.Items = []T{}
	}
	return out
}

// body is the answer of one resource.
type body[T any] struct{ Body T }

// versioned is the answer of a resource that is changed by compare-and-set.
type versioned[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

// IfMatch asks that the resource still is what the caller read.
type IfMatch struct {
	Match string `header:"If-Match" maxLength:"200" doc:"the ETag that was seen; * is any"`
}

// matches reports whether the resource with this tag may be changed; 412 otherwise. Without the
// header it may.
func (m IfMatch) matches(tag string) error {
	if m.Match == "" || m.Match == "*" || m.Match == tag {
		return nil
	}
	return huma.Error412PreconditionFailed("it now has the ETag " + tag + ", not " + m.Match + ": read it again")
}

// version is the version of a run that the header names; 0 where any may be changed.
func (m IfMatch) version() (int64, error) {
	if m.Match == "" || m.Match == "*" {
		return 0, nil
	}
	text, err := strconv.Unquote(m.Match)
	if err != nil {
		text = ""
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, huma.Error412PreconditionFailed("If-Match " + m.Match + " is no ETag of a run: read the run again")
	}
	return n, nil
}

// etag quotes a tag as HTTP wants it.
func etag(s string) string { return strconv.Quote(s) }

func etagOf(version int64) string { return etag(strconv.FormatInt(version, 10)) }

// pageOf cuts a sorted list that is in memory: the cursor is the last name of the page before.
func pageOf[T any](all []T, name func(T) string, p Page) (items []T, next string) {
	from := 0
	if p.Cursor != "" {
		for from < len(all) && name(all[from]) <= p.Cursor {
			from++
		}
	}
	all = all[from:]
	if len(all) <= p.Limit {
		return all, ""
	}
	return all[:p.Limit], name(all[p.Limit-1])
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
