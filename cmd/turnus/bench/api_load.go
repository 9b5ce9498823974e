package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/core"
)

// get and post are requests that a connection sends.
func (s *benchAPIProcess) get(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " + s.up.Token + "\r\n\r\n"
}

func (s *benchAPIProcess) post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, s.up.Token, len(body), body)
}

// ask sends requests over many connections for a while. The generator does as little as it can,
// because it has the same two cores: it writes requests that are text, and reads no more of an
// answer than its length. With a rate each connection keeps a pace, and time counts from when a
// request should have been sent.
func (s *benchAPIProcess) ask(ctx context.Context, f apiBench, rate int, request func(int) string) (apiRow, error) {
	before, err := s.cpu()
	if err != nil {
		return apiRow{}, err
	}
	var next, refused atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var errs []error
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range f.connections {
		p := pace{begin: begin, until: begin.Add(f.during)}
		if rate > 0 {
			p.every = time.Second * time.Duration(f.connections) / time.Duration(rate)
			p.begin = begin.Add(p.every * time.Duration(i) / time.Duration(f.connections))
		}
		wg.Go(func() {
			took, err := s.connection(ctx, p, func() string { return request(int(next.Add(1))) }, &refused)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	wall := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return apiRow{}, err
	}
	after, err := s.cpu()
	if err != nil {
		return apiRow{}, err
	}
	return rowOf(all, wall, after-before, int(refused.Load())), nil
}

// pace is when a connection sends.
type pace struct {
	begin, until time.Time
	every        time.Duration // 0: as soon as the answer before has come
}

// next waits for request n, and returns when it should be sent.
func (p pace) next(ctx context.Context, n int) time.Time {
	if p.every == 0 {
		return time.Now()
	}
	at := p.begin.Add(time.Duration(n) * p.every)
	if wait := time.Until(at); wait > 0 {
		core.Pause(ctx, wait, nil)
	}
	return at
}

// connection sends one request after the other.
func (s *benchAPIProcess) connection(ctx context.Context, p pace, request func() string, refused *atomic.Int64) (took []time.Duration, err error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", s.up.Address)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for n := 0; ctx.Err() == nil; n++ {
		start := p.next(ctx, n)
		if !start.Before(p.until) {
			break
		}
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(conn, request()); err != nil {
			return took, fmt.Errorf("ask the server: %w", err)
		}
		good, err := skipAnswer(in)
		if err != nil {
			return took, fmt.Errorf("read an answer: %w", err)
		}
		if !good {
			refused.Add(1)
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// skipAnswer reads past one answer, and reports whether it was 200 or 201.
func skipAnswer(in *bufio.Reader) (good bool, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case first:
			good = strings.HasPrefix(text, "HTTP/1.1 200 ") || strings.HasPrefix(text, "HTTP/1.1 201 ")
		case text == "":
			if length < 0 { // a large one comes in chunks, and ends with an empty line
				if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(in)); err != nil {
					return false, err
				}
				length = len("\r\n")
			}
			_, err := in.Discard(length)
			return good, err
		case len(text) > 15 && strings.EqualFold(text[:15], "Content-Length:"):
			if length, err = strconv.Atoi(strings.TrimSpace(text[15:])); err != nil {
				return false, err
			}
		}
	}
}

func rowOf(took []time.Duration, wall, cpu time.Duration, refused int) apiRow {
	if len(took) == 0 {
		return apiRow{}
	}
	slices.Sort(took)
	at := func(p int) core.Seconds { return core.InSeconds(took[min(len(took)-1, len(took)*p/100)]) }
	return apiRow{
		PerS: float64(len(took)) / wall.Seconds(), P50: at(50), P99: at(99), Max: at(100), Count: len(took),
		CPU: core.InSeconds(cpu / time.Duration(len(took))), Refused: refused,
	}
}
