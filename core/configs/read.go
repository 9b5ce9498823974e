package configs

import (
	"context"

	"github.com/turnus/turnus/core"
)

// File is a file of the host's newest version; found is false when there is none.
func (r *Repo) File(ctx context.Context, host, name string) (content []byte, found bool, err error) {
	dir, err := folder(host)
	if err == nil {
		err = CheckName(name)
	}
	if err != nil {
		return nil, false, err
	}
	if have, err := r.exists(); !have || err != nil {
		return nil, false, err
	}
	req := &request{path: dir + "/" + name}
	if !r.reads.add(req, r.read) {
		return nil, false, errClosed
	}
	select {
	case <-req.over:
		return req.content, req.found, req.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// read answers a batch from one commit.
func (r *Repo) read(batch []*request) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	paths := core.Map(batch, func(req *request) string { return req.path })
	k := 0
	tip, err := r.newest(ctx)
	if err == nil {
		err = r.git.contents(ctx, nil, tip, paths, func(content []byte, found bool) {
			batch[k].content, batch[k].found = content, found
			k++
		})
	}
	if err != nil {
		for _, req := range batch {
			req.content, req.found, req.err = nil, false, err
		}
	}
}

// newest is the tip, "" where nothing was kept yet.
func (r *Repo) newest(ctx context.Context) (string, error) {
	if have, err := r.exists(); !have || err != nil {
		return "", err
	}
	return r.git.tip(ctx, nil)
}
