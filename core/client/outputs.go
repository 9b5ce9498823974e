package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Outputs lists what the steps of a job wrote.
func (c *Client) Outputs(ctx context.Context, id core.JobID) (List[api.Output], error) {
	return get[List[api.Output]](ctx, c, "list the outputs of job "+id.String(), outputPath(id, ""), nil)
}

// Output opens an output by its name, as Outputs has it. The caller closes it. It is not asked
// again where it breaks off.
func (c *Client) Output(ctx context.Context, id core.JobID, name string) (io.ReadCloser, error) {
	return c.output(ctx, id, name, http.Header{"Accept": {"text/plain"}})
}

// OutputPart is Output from one byte up to another, which is behind it.
func (c *Client) OutputPart(ctx context.Context, id core.JobID, name string, from, to int64) (io.ReadCloser, error) {
	return c.output(ctx, id, name, http.Header{"Accept": {"text/plain"}, "Range": {fmt.Sprintf("bytes=%d-%d", from, to-1)}})
}

func (c *Client) output(ctx context.Context, id core.JobID, name string, header http.Header) (io.ReadCloser, error) {
	q := call{what: "read output " + name + " of job " + id.String(), method: http.MethodGet, path: outputPath(id, name), header: header}
	resp, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// PutOutput keeps what a step wrote, for workers. open gives it from its beginning: after an answer
// that did not come it is sent again.
func (c *Client) PutOutput(ctx context.Context, id core.JobID, name string, open func() (io.Reader, error)) error {
	if strings.Count(name, "/") != 1 {
		return fmt.Errorf("output %q: expected STEP/STREAM: %w", name, core.ErrInvalid)
	}
	return c.do(ctx, call{what: "keep output " + name + " of job " + id.String(), method: http.MethodPut, path: outputPath(id, name), raw: open, again: true}, nil)
}

func outputPath(id core.JobID, name string) string {
	p := path("v1", "runs", id.Run, "jobs", strconv.Itoa(id.Index), "outputs")
	if step, stream, ok := strings.Cut(name, "/"); ok {
		p += path(step, stream)
	}
	return p
}
