// Package tracing owns how traces are made: the names of spans and attributes, how a trace travels
// as a W3C traceparent, and the provider that sends spans to a collector over OTLP/HTTP.
//
// It must not know who makes spans. There is no global provider: a room gets a trace.TracerProvider
// in its Config, or goes on with the span in its context.
package tracing
