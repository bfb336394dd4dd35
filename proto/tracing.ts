// Traces as the parts of a process write them. Without an exporter there is no `Tracing`, no span, and no package is loaded; a part
// pays for one `undefined`.
import type { TraceContext } from "./trace-context.ts";

export type SpanAttributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

export interface SpanOptions {
  /** Default: internal. */
  readonly kind?: "server" | "client";
  /** Monotonic ms; default: now. */
  readonly startMs?: number;
  readonly attributes?: SpanAttributes;
  /** Spans of other traces that caused it. A new trace with an exported one among them is exported. */
  readonly links?: readonly TraceContext[] | undefined;
}

export interface SpanEnd {
  /** Monotonic ms; default: now. */
  readonly endMs?: number;
  /** A short, stable code. Undefined: it succeeded. */
  readonly error?: string | undefined;
}

export interface Span {
  /** Sent on to others. */
  readonly context: TraceContext;
  /** Undefined: the trace is not exported. */
  child(name: string, options?: SpanOptions): Span | undefined;
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  /** Exports it. Call it once. */
  end(end?: SpanEnd): void;
}

export interface Tracing {
  /**
   * A span of a request of a client, whose `traceparent` is within the limits of the sampler. Always a span: its context is passed on
   * also where nothing is exported.
   */
  ofClient(name: string, client: TraceContext | undefined, options?: SpanOptions): Span;
  /** A span within a trace of this installation; `parent` undefined: of a new trace. Undefined: not exported. */
  start(name: string, parent: TraceContext | undefined, options?: SpanOptions): Span | undefined;
  /** The same where the context is passed on also if nothing is exported. */
  within(name: string, parent: TraceContext, options?: SpanOptions): Span;
  /** Exports what is left, for at most a few seconds. */
  close(): Promise<void>;
}

export interface TracedProcess {
  /** `service.name` unless OTEL_SERVICE_NAME names another. */
  readonly service: string;
  readonly version: string;
  readonly log: { warn(facts: object, message: string): void };
}
