// Package metrics owns what is measured: the one table of all metrics with their names and help,
// how many values a label may have, how they are counted and told to Prometheus, the listener of a
// node that has no API, and how a node without one is seen through the queue's board.
//
// It must not know who counts: rooms count with Add and Observe, or give a Source that is read at
// each scrape.
package metrics
