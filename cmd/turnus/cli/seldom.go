package cli

import (
	"sync"
	"time"
)

const (
	seldomEvery = time.Minute
	seldomMost  = 200 // texts that are remembered
)

// seldom keeps a text from being said again and again: what is tried each second fails each second while Redis is away.
type seldom struct {
	mu sync.Mutex
	at map[string]*saying
}

// saying is a text: when it was said last, and how often it was not since.
type saying struct {
	at      time.Time
	leftOut int
}

// news tells whether a text should be said: it was not within seldomEvery.
func (s *seldom) news(text string) bool {
	say, _ := s.count(text)
	return say
}

// count is news, and how often the text was left out since it was said last.
func (s *seldom) count(text string) (say bool, leftOut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last := s.at[text]; last != nil {
		if now.Sub(last.at) < seldomEvery {
			last.leftOut++
			return false, 0
		}
		leftOut = last.leftOut
	}
	if s.at == nil || len(s.at) >= seldomMost {
		s.at = map[string]*saying{}
	}
	s.at[text] = &saying{at: now}
	return true, leftOut
}
