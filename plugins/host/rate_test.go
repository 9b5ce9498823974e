package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// sink takes uploads as fast as they come, in packets of SFTP.
type sink struct{ nowhere }

func (sink) Put(_ context.Context, _ core.Host, _ transport.Put, data io.Reader) (transport.Written, error) {
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{data}, make([]byte, 32<<10))
	return transport.Written{Size: n}, err
}

// Any number of uploads together keep to the cap within 5 %, and use it; an upload's own cap holds
// below it.
func TestUploadsKeepToTheCap(t *testing.T) {
	for name, c := range map[string]struct {
		all, each int64 // bytes a second; 0: none
		uploads   int
		size      int
		want      time.Duration
	}{
		"one for all":         {all: 8 << 20, uploads: 7, size: 8 << 20, want: 7 * time.Second},
		"a slow one":          {all: 64 << 10, uploads: 2, size: 256 << 10, want: 8 * time.Second},
		"a fast one":          {all: 200 << 20, uploads: 8, size: 200 << 20, want: 8 * time.Second},
		"one's own":           {each: 1 << 20, uploads: 4, size: 6 << 20, want: 6 * time.Second},
		"own, under all's":    {all: 8 << 20, each: 1 << 20, uploads: 4, size: 6 << 20, want: 6 * time.Second},
		"all's, under own":    {all: 2 << 20, each: 1 << 20, uploads: 4, size: 6 << 20, want: 12 * time.Second},
		"none at all":         {uploads: 4, size: 1 << 20},
		"shorter than bursts": {all: 100 << 20, uploads: 100, size: 1 << 20, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var to reach = sink{}
				if c.all > 0 {
					to = &boundedReach{reach: to, uploads: newLimiter(c.all)}
				}
				content := make([]byte, c.size)
				begin := time.Now()
				var wg sync.WaitGroup
				for range c.uploads {
					wg.Go(func() {
						w, err := to.Put(t.Context(), core.Host{}, transport.Put{}, pace(t.Context(), bytes.NewReader(content), newLimiter(c.each)))
						if err != nil || w.Size != int64(c.size) {
							t.Errorf("wrote %d bytes, %v", w.Size, err)
						}
					})
				}
				wg.Wait()
				took := time.Since(begin)
				if off := (took - c.want).Abs(); off > c.want/20 {
					t.Errorf("took %v, want %v within 5 %%", took, c.want)
				}
			})
		})
	}
}

func TestAnUploadThatIsHeldBackEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := io.Copy(io.Discard, pace(ctx, bytes.NewReader(make([]byte, 1<<20)), newLimiter(64<<10)))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
