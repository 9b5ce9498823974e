package memory

// heap is a binary heap whose members know their place in it, so that any of
// them can be moved or taken out in O(log n).
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(item T, i int) // gets an item's new place; -1 when the item left
}

func (h *heap[T]) len() int { return len(h.items) }
func (h *heap[T]) top() T   { return h.items[0] }

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	h.place(item, len(h.items)-1)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) pop() T { return h.remove(0) }

func (h *heap[T]) remove(i int) T {
	last := len(h.items) - 1
	item := h.items[i]
	if i != last {
		h.items[i] = h.items[last]
		h.place(h.items[i], i)
	}
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if i != last {
		h.fix(i)
	}
	h.place(item, -1)
	return item
}

// fix restores the order after the item at i changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// each visits items from the top on; where visit returns false, what is below is passed over.
func (h *heap[T]) each(visit func(T) bool) { h.eachFrom(0, visit) }

func (h *heap[T]) eachFrom(i int, visit func(T) bool) {
	if i < len(h.items) && visit(h.items[i]) {
		h.eachFrom(2*i+1, visit)
		h.eachFrom(2*i+2, visit)
	}
}

// build makes a heap of items in O(n).
func (h *heap[T]) build(items []T) {
	h.items = items
	for i := range items {
		h.place(items[i], i)
	}
	for i := len(items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if r := child + 1; r < len(h.items) && h.less(h.items[r], h.items[child]) {
			child = r
		}
		if !h.less(h.items[child], h.items[i]) {
			break
		}
		h.swap(i, child)
		i = child
	}
	return i > start
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.place(h.items[i], i)
	h.place(h.items[j], j)
}
