package boardtest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

// Sequences applies random operations to two stores, which have to answer the same.
func Sequences(t *testing.T, model, subject Subject) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{}
		for i, s := range []Subject{model, subject} {
			m.sides[i] = &side{b: s.Open(rt), posted: map[string]uint64{}, known: map[string]uint64{}, cursors: map[string]string{}}
		}
		rt.Repeat(map[string]func(*rapid.T){"post": m.post, "read": m.read, "publish": m.publish, "follow": m.follow})
	})
}

// side is one of the two stores, and what was seen of it.
type side struct {
	b       board.Store
	posted  map[string]uint64 // version of the last post
	known   map[string]uint64 // version that was read last
	cursors map[string]string // of topics
}

// machine drives both sides in step.
type machine struct{ sides [2]*side }

// both runs an operation on both sides and compares the answers.
func (m *machine) both(t *rapid.T, what string, op func(*side) (string, error)) {
	t.Helper()
	a, errA := op(m.sides[0])
	b, errB := op(m.sides[1])
	if errA != nil || errB != nil {
		t.Fatalf("%s: model %v, subject %v", what, errA, errB)
	}
	if a != b {
		t.Fatalf("%s differs:\nmodel   %s\nsubject %s", what, a, b)
	}
}

var machineNames = []string{"windows", "{windows}", "windows:r1"}

func (m *machine) post(t *rapid.T) {
	name, text := rapid.SampledFrom(machineNames).Draw(t, "document"), rapid.StringN(0, 3, 9).Draw(t, "text")
	m.both(t, "Post", func(s *side) (string, error) {
		v, err := s.b.Post(t.Context(), name, []byte(text), time.Hour)
		grows := v > s.posted[name]
		s.posted[name] = v
		return fmt.Sprint(grows), err
	})
}

// read compares what is read, and whether it was known: versions are each side's own.
func (m *machine) read(t *rapid.T) {
	name := rapid.SampledFrom(machineNames).Draw(t, "document")
	if m.sides[0].posted[name] == 0 {
		t.Skip("not posted")
	}
	m.both(t, "Posted", func(s *side) (string, error) {
		data, v, err := s.b.Posted(t.Context(), name, s.known[name])
		if err == nil && (v != s.posted[name] || (data == nil) != (v == s.known[name])) {
			t.Fatalf("Posted gives %q of version %d: %d was posted, %d known", data, v, s.posted[name], s.known[name])
		}
		s.known[name] = v
		return fmt.Sprintf("%q %t", data, data == nil), err
	})
	m.both(t, "Names", func(s *side) (string, error) {
		names, err := s.b.Names(t.Context(), name)
		return fmt.Sprint(names), err
	})
}

func (m *machine) publish(t *rapid.T) {
	name, texts := rapid.SampledFrom(machineNames).Draw(t, "topic"), rapid.SliceOfN(rapid.StringN(0, 3, 9), 0, 4).Draw(t, "texts")
	m.both(t, "Publish", func(s *side) (string, error) { return "", s.b.Publish(t.Context(), name, bytesOf(texts)...) })
}

func (m *machine) follow(t *rapid.T) {
	name, most := rapid.SampledFrom(machineNames).Draw(t, "topic"), rapid.IntRange(1, 5).Draw(t, "max")
	m.both(t, "Follow", func(s *side) (string, error) {
		list, next, err := s.b.Follow(t.Context(), name, s.cursors[name], most, 0)
		lost := board.LostMessages(s.cursors[name], next, len(list))
		s.cursors[name] = next
		return fmt.Sprintf("%q, %d lost", list, lost), err
	})
}

func bytesOf(texts []string) (list [][]byte) {
	return core.Map(texts, func(text string) []byte { return []byte(text) })
}
