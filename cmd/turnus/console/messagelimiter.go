package console

import (
	"sync"
	"time"
)

const (
	messageEvery    = time.Minute
	maxMessageTexts = 200 // texts that are remembered
)

// MessageLimiter allows a message once a minute: what is tried each second fails each second while
// Redis is away. The zero value is ready. It is safe for concurrent use.
type MessageLimiter struct {
	mu   sync.Mutex
	last map[string]*message
}

// message is when a text was allowed last, and how often it was refused since.
type message struct {
	at      time.Time
	leftOut int
}

// Allow reports whether to report a text: it was not reported within messageEvery.
func (l *MessageLimiter) Allow(text string) bool {
	ok, _ := l.count(text)
	return ok
}

// count is allow, and how often the text was refused since it was allowed last.
func (l *MessageLimiter) count(text string) (ok bool, leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last := l.last[text]; last != nil {
		if now.Sub(last.at) < messageEvery {
			last.leftOut++
			return false, 0
		}
		leftOut = last.leftOut
	}
	if l.last == nil || len(l.last) >= maxMessageTexts {
		l.last = map[string]*message{}
	}
	l.last[text] = &message{at: now}
	return true, leftOut
}
