// Package telemetry owns what is measured and traced. It has the one table of all metrics with
// their names and help, the bounds of their labels, the counters, and the Prometheus format. It has
// the listener of a node without an API, and the reports of workers on the board.
//
// For traces it has the names of spans and attributes, and the W3C traceparent by which a trace
// travels. Its provider sends spans to a collector over OTLP/HTTP. There is no global provider. A
// room gets a trace.TracerProvider in its Config, or continues with the span in its context.
//
// It must not know who counts, nor who makes spans: rooms count with Add and Observe, or give a
// Source that is read at each scrape.
package telemetry
