// Package metrics owns what is measured. It has the one table of all metrics with their names and
// help, the bounds of their labels, the counters, and the Prometheus format. It has the listener of
// a node without an API, and the reports of workers on the queue's board.
//
// It must not know who counts: rooms count with Add and Observe, or give a Source that is read at
// each scrape.
package metrics
