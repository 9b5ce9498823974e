package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Page asks for a part of a list.
type Page struct {
	Cursor string // of the page before; "" begins
	Limit  int    // at most; the server's choice when zero
}

func (p Page) into(q url.Values) url.Values {
	if q == nil {
		q = url.Values{}
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	return q
}

// set adds what is not empty.
func set(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

// List is a part of a list.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"` // cursor of the next page; "" is the end
}

const pageSize = 1000

// All reads pages until the end, or until most items are there; 0 is no bound.
func All[T any](ctx context.Context, most int, read func(context.Context, Page) (List[T], error)) ([]T, error) {
	items := []T{}
	for p := (Page{}); ; {
		p.Limit = pageSize
		if most > 0 {
			p.Limit = min(pageSize, most-len(items))
		}
		page, err := read(ctx, p)
		if err != nil {
			return items, err
		}
		items = append(items, page.Items...)
		if page.Next == "" || most > 0 && len(items) >= most {
			return items, nil
		}
		p.Cursor = page.Next
	}
}

func get[T any](ctx context.Context, c *Client, what, path string, query url.Values) (T, error) {
	var out T
	err := c.do(ctx, call{what: what, method: http.MethodGet, path: path, query: query, again: true}, &out)
	return out, err
}

func post[T any](ctx context.Context, c *Client, what, path string, body any) (T, error) {
	var out T
	err := c.do(ctx, call{what: what, method: http.MethodPost, path: path, body: body}, &out)
	return out, err
}
