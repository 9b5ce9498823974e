package forecast

// entry waits in a heap: the smallest key first, then the host that comes first.
// container/heap would cost an allocation and two indirect calls for each of millions.
type entry struct {
	key  int64
	host int32
	kind int32
}

func (a entry) before(b entry) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return a.host < b.host
}

type heap []entry

func (h *heap) push(e entry) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
}

func (h *heap) pop() entry {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].before(s[down]) {
			down++
		}
		if !s[down].before(last) {
			break
		}
		s[i] = s[down]
		i = down
	}
	s[i] = last
	return top
}
