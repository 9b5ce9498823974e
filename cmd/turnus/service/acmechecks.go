package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// acmePolls reads along what a CA answers, and remembers why it signs nothing: of its checks of
// challenges autocert reports only that none is left to try, and of a renewal nothing. Safe for
// concurrent use.
type acmePolls struct {
	next http.RoundTripper

	mu   sync.Mutex
	poll string // the last one, if it failed
	at   time.Time
	last string // what went wrong last, whatever it was
}

// pollCounts is how long a poll may be the reason for a missing certificate: autocert stops trying
// sooner, and begins again.
const pollCounts = 5 * time.Minute

// maxAnswer bounds what is read along of an answer: more than any but a chain of certificates has.
const maxAnswer = 1 << 20

// RoundTrip is http.RoundTripper's.
func (l *acmePolls) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil {
		l.note(err.Error())
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") && !strings.HasPrefix(kind, "application/problem+json") {
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	l.read(text)
	return resp, nil
}

// read finds problems, and authorizations whose challenges have some.
func (l *acmePolls) read(text []byte) {
	type problem struct{ Type, Detail string }
	var a struct {
		problem
		Status     any // of a problem a number
		Identifier struct{ Value string }
		Challenges []struct {
			Type  string
			Error *problem
		}
	}
	switch err := json.Unmarshal(text, &a); {
	case err != nil || strings.HasSuffix(a.Type, ":badNonce"): // what was refused so is sent again
	case a.Detail != "":
		l.note(fmt.Sprintf("%s: %.300q", a.Type, a.Detail))
	case a.Identifier.Value != "" && a.Status == "valid":
		l.looked("")
	case a.Identifier.Value != "":
		for _, c := range a.Challenges {
			if c.Error != nil {
				l.looked(fmt.Sprintf("%s of %.100q: %.300q", c.Type, a.Identifier.Value, c.Error.Detail))
			}
		}
	}
}

func (l *acmePolls) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = text
}

func (l *acmePolls) looked(text string) {
	l.note(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poll, l.at = text, time.Now()
}

// reasons are the CA's last look, if it failed a moment ago, and what went wrong last.
func (l *acmePolls) reasons() (poll, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) < pollCounts {
		poll = l.poll
	}
	return poll, l.last
}
