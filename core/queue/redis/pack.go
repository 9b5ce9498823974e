package redis

import (
	"encoding/binary"
	"time"

	"github.com/turnus/turnus/core/queue"
)

const (
	chunkTargets = 64  // targets in one chunk: what a look-up by index reads at most
	maxReady     = 256 // ranges that accept.lua makes ready itself; more are uploaded
	smallData    = 256 // data up to this size is in the chunk, larger apart
)

// Flags of a packed target.
const (
	hasHA    = 1
	hasGroup = 2
	hasData  = 4
	hasLarge = 8
	shared   = 16 // the host is written by what it shares with the first of its chunk
)

// span is the targets from … to-1, due at µs.
type span struct {
	due      int64
	from, to int
}

type largeData struct {
	index int
	data  []byte
}

// packed is a run as it is sent to Redis.
type packed struct {
	chunks   [][]byte
	large    []largeData
	ready    []span // due since ever, whatever the time
	timed    []span
	payload  []byte
	finished []byte
	size     int
	digest   []byte
	keepAll  bool // data of any size goes into the chunk
}

// pack lays the targets out in chunks. A target begins with its flags, and the length and text of
// the host. Where it is shorter, a host is given by how many bytes of the chunk's first host it
// begins and ends with, and the length and text of the rest. Then come, each if its flag is set, HA
// group and group with their lengths, and the data behind two bytes of length.
func pack(r *queue.Run) *packed {
	p := &packed{payload: r.Payload, size: len(r.Payload)}
	p.chunks = make([][]byte, 0, (len(r.Targets)+chunkTargets-1)/chunkTargets)
	var scratch []byte
	for from := 0; from < len(r.Targets); from += chunkTargets {
		scratch = scratch[:0]
		for i := from; i < min(from+chunkTargets, len(r.Targets)); i++ {
			scratch = p.target(scratch, i, &r.Targets[i], r.Targets[from].Host)
		}
		p.chunks = append(p.chunks, append([]byte(nil), scratch...))
		p.size += len(scratch)
	}
	p.segments(r)
	p.finish(r)
	p.digest = digest(r, p)
	return p
}

func (p *packed) target(b []byte, i int, t *queue.Target, first string) []byte {
	var flags byte
	if t.HAGroup != "" {
		flags |= hasHA
	}
	if t.Group != "" {
		flags |= hasGroup
	}
	switch {
	case len(t.Data) > smallData && !p.keepAll:
		flags |= hasLarge
		p.large = append(p.large, largeData{i, t.Data})
		p.size += len(t.Data)
	case len(t.Data) > 0:
		flags |= hasData
	}
	head, tail := 0, 0
	if len(b) > 0 {
		head, tail = common(t.Host, first)
	}
	if head+tail > 2 {
		b = append(b, flags|shared, byte(head), byte(tail), byte(len(t.Host)-head-tail))
	} else {
		head, tail = 0, 0
		b = append(b, flags, byte(len(t.Host)))
	}
	b = append(b, t.Host[head:len(t.Host)-tail]...)
	if flags&hasHA != 0 {
		b = append(append(b, byte(len(t.HAGroup))), t.HAGroup...)
	}
	if flags&hasGroup != 0 {
		b = append(append(b, byte(len(t.Group))), t.Group...)
	}
	if flags&hasData != 0 {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t.Data))), t.Data...)
	}
	return b
}

// common is how many bytes a and b have in common at the beginning and, behind that, at the end.
func common(a, b string) (head, tail int) {
	n := min(len(a), len(b))
	for head < n && a[head] == b[head] {
		head++
	}
	for head+tail < n && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// segments joins neighbours that are due together, without the finished jobs.
func (p *packed) segments(r *queue.Run) {
	r.Unfinished(func(at time.Time, from, to int) {
		due := micros(at)
		list := &p.timed
		if due <= 0 {
			list = &p.ready
		}
		if n := len(*list); n > 0 && (*list)[n-1].to == from && (*list)[n-1].due == due {
			(*list)[n-1].to = to
		} else {
			*list = append(*list, span{due, from, to})
		}
	})
	p.size += 64 * (len(p.timed) + len(p.ready))
}

// finishedBytes is the size of one range in the text of the finished jobs: from, count, outcome.
const finishedBytes = 9

func (p *packed) finish(r *queue.Run) {
	if len(r.FinishedJobs) == 0 {
		return
	}
	p.finished = make([]byte, 0, finishedBytes*len(r.FinishedJobs))
	for _, s := range r.FinishedJobs {
		p.finished = binary.BigEndian.AppendUint32(p.finished, uint32(s.Index))
		p.finished = binary.BigEndian.AppendUint32(p.finished, uint32(s.Count))
		p.finished = append(p.finished, outcomeCode(s.Outcome))
	}
	p.size += len(p.finished)
}

// micros is the queue's form of a time; zero and what lies before 1970 is immediately.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixMicro(), 0)
}
