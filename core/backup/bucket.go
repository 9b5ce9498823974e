package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gocloud.dev/blob"

	"github.com/turnus/turnus/core/ledger"
)

// bucket is a place in an object store.
type bucket struct{ b *blob.Bucket }

func openBucket(ctx context.Context, url string) (*bucket, error) {
	b, err := ledger.OpenBucket(ctx, url)
	if err != nil {
		return nil, err
	}
	return &bucket{b}, nil
}

type objectFile struct {
	*blob.Writer
	cancel context.CancelFunc
	name   string
}

func (p *bucket) create(ctx context.Context, name string) (file, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := p.b.NewWriter(ctx, name, ledger.BucketWriterOptions("application/octet-stream"))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("write %s: %w", name, ledger.BucketError(err))
	}
	return &objectFile{w, cancel, name}, nil
}

func (f *objectFile) keep() error {
	defer f.cancel()
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", f.name, ledger.BucketError(err))
	}
	return nil
}

// drop cancels before it closes: nothing is left.
func (f *objectFile) drop() {
	f.cancel()
	_ = f.Close()
}

func (p *bucket) open(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := p.b.NewReader(ctx, name, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, ledger.BucketError(err))
	}
	return r, nil
}

func (p *bucket) size(ctx context.Context, name string) (int64, error) {
	a, err := p.b.Attributes(ctx, name)
	if err != nil {
		return 0, ledger.BucketError(err)
	}
	return a.Size, nil
}

func (p *bucket) folders(ctx context.Context) ([]string, error) {
	var ids []string
	for it := p.b.List(&blob.ListOptions{Delimiter: "/"}); ; {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list backups: %w", ledger.BucketError(err))
		}
		if id := strings.TrimSuffix(o.Key, "/"); o.IsDir && idForm().MatchString(id) {
			ids = append(ids, id)
		}
	}
}

func (p *bucket) close(bool) error { return p.b.Close() }
