package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// ExportFilter selects what of a history is exported.
type ExportFilter struct {
	Since, Until time.Time // zero is no bound
	Tenant       string    // "" is all that the token sees
	Format       string    // ndjson or csv
}

// Export opens a history: what is runs, jobs or audit. The caller closes it. One that breaks off
// ends with an error other than io.EOF; it is not asked again.
func (c *Client) Export(ctx context.Context, what string, f ExportFilter) (io.ReadCloser, error) {
	q := url.Values{}
	set(q, "tenant", f.Tenant)
	set(q, "format", f.Format)
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	resp, err := c.send(ctx, call{what: "export " + what, method: http.MethodGet, path: path("v1", "export", what), query: q, header: http.Header{"Accept": {"*/*"}}})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
