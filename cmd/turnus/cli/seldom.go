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
	at map[string]time.Time // when a text was said last
}

// news tells whether a text should be said: it was not within seldomEvery.
func (s *seldom) news(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.at[text]; ok && now.Sub(at) < seldomEvery {
		return false
	}
	if s.at == nil || len(s.at) >= seldomMost {
		s.at = map[string]time.Time{}
	}
	s.at[text] = now
	return true
}
