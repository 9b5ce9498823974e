//go:build s3

package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts"
)

func openBucket(t *testing.T, url string) *blob.Bucket {
	t.Helper()
	b, err := ledger.OpenBucket(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// pattern is n bytes that show their own place.
type pattern struct{ at, n int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.n {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), p.n-p.at)]
	for i := range b {
		b[i] = byte((p.at + int64(i)) >> 8 * 31)
	}
	p.at += int64(len(b))
	return len(b), nil
}

// An object of many parts goes in bounded memory, and any part of it is read back.
func TestS3StreamsInParts(t *testing.T) {
	s := testparts.StartS3(t, "out")
	b := openBucket(t, s.URL("out/some/prefix"))
	const size = 200<<20 + 77
	var peak uint64
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		var m runtime.MemStats
		for ctx.Err() == nil {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			<-tick.C
		}
	}()
	w, err := b.NewWriter(t.Context(), "output/1/2/ab", ledger.BucketWriterOptions("text/plain"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, &pattern{n: size}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-watched
	t.Logf("%d MiB of heap at most", peak>>20)
	if peak > 96<<20 {
		t.Errorf("%d MiB of heap for an object of %d", peak>>20, size>>20)
	}
	for _, r := range [][2]int64{{0, 10}, {8<<20 - 5, 10}, {size - 3, -1}, {150 << 20, 1 << 20}} {
		rc, err := b.NewRangeReader(t.Context(), "output/1/2/ab", r[0], r[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(rc)
		_ = rc.Close()
		end := int64(size)
		if r[1] >= 0 {
			end = r[0] + r[1]
		}
		want, _ := io.ReadAll(&pattern{at: r[0], n: end})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("from %d: %d bytes, %v, expected %d", r[0], len(got), err, len(want))
		}
	}
	if ok, err := openBucket(t, s.URL("out")).Exists(t.Context(), "some/prefix/output/1/2/ab"); err != nil || !ok {
		t.Errorf("it is not below the prefix: %v", err)
	}
	// One that breaks off leaves nothing.
	broken, stop := context.WithCancel(t.Context())
	w, err = b.NewWriter(broken, "output/1/2/cd", ledger.BucketWriterOptions("text/plain"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, &pattern{n: 20 << 20}); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := w.Close(); err == nil {
		t.Error("an object that broke off was stored")
	}
	if ok, err := b.Exists(t.Context(), "output/1/2/cd"); err != nil || ok {
		t.Errorf("an object that broke off is there, %v", err)
	}
}

// A refusal of a server, or its absence, is an error in core's words, without a secret.
func TestS3ErrorsAreTranslated(t *testing.T) {
	s := testparts.StartS3(t, "out")
	b := openBucket(t, s.URL("out"))
	if _, err := b.NewReader(t.Context(), "nothing", nil); !errors.Is(ledger.BucketError(err), core.ErrNotFound) {
		t.Errorf("no such object: %v", err)
	}
	if _, err := ledger.OpenBucket(t.Context(), s.URL("other")); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "no such bucket") {
		t.Errorf("no such bucket: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret-55")
	_, err := ledger.OpenBucket(t.Context(), s.URL("out"))
	if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "refuses these credentials") || strings.Contains(err.Error(), "wrong-secret-55") || strings.Contains(err.Error(), testparts.S3Secret) {
		t.Errorf("a wrong secret: %v", err)
	}
	s.Stop()
	began := time.Now()
	_, err = b.NewReader(t.Context(), "nothing", nil)
	if err = ledger.BucketError(err); !errors.Is(err, core.ErrUnavailable) || time.Since(began) > time.Minute {
		t.Errorf("a server that is gone: %v after %v", err, time.Since(began))
	}
}
