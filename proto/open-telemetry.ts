// OpenTelemetry's SDK behind `Tracing`: imported by `openTracing` when there is an exporter. No global provider, no context manager and
// no instrumentation: parents are passed as values.
import { hostname } from "node:os";
import {
  type Attributes,
  type Context,
  createTraceState,
  DiagLogLevel,
  diag,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
} from "@opentelemetry/resources";
import { AlwaysOnSampler, BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { type TraceContext, unsampledContext } from "./trace-context.ts";
import { createTraceSampler } from "./trace-sampler.ts";
import type { Span, SpanAttributes, SpanEnd, SpanOptions, TracedProcess, Tracing } from "./tracing.ts";
import type { TracingSettings } from "./tracing-settings.ts";

const closeMs = 3_000;
/** A collector that is down fails every export. */
const warnEveryMs = 60_000;

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;

export function createOpenTelemetry(settings: TracingSettings, { service, version, log }: TracedProcess): Tracing {
  logProblems(log);
  const { delayMs, timeoutMs, maxQueued, maxBatch } = settings.batch;
  const own = resourceFromAttributes({
    "service.name": service,
    "service.namespace": "stoker",
    "service.version": version,
    "host.name": hostname(),
  });
  // The environment is last: it replaces the attributes before.
  const found = detectResources({ detectors: [serviceInstanceIdDetector, envDetector] });
  const resource = defaultResource().merge(own).merge(found);
  const processor = new BatchSpanProcessor({
    exporter: new OTLPTraceExporter(),
    scheduledDelayMillis: delayMs,
    exportTimeoutMillis: timeoutMs,
    maxQueueSize: maxQueued,
    maxExportBatchSize: maxBatch,
  });
  // Spans that are not exported never reach the SDK: the decision is made before.
  const provider = new TracerProvider({ resource, sampler: new AlwaysOnSampler(), spanProcessors: [processor] });
  const tracer = provider.getTracer("stoker", version);
  const sampler = createTraceSampler(settings, () => performance.now());
  const begin = (name: string, parent: TraceContext | undefined, options: SpanOptions | undefined): Span =>
    new ExportedSpan(tracer, start(tracer, name, parent ? remote(parent) : ROOT_CONTEXT, options), parent?.state);
  return {
    ofClient: (name, client, options) =>
      sampler.samplesClient(client) ? begin(name, client, options) : new UnsampledSpan(unsampledContext(client)),
    start(name, parent, options) {
      const isCaused = options?.links?.some((one) => one.isSampled) === true;
      const isSampled = parent ? parent.isSampled : isCaused || sampler.samplesNew();
      return isSampled ? begin(name, parent, options) : undefined;
    },
    // The parent's own context is passed on: no span of this process is between the two.
    within: (name, parent, options) => (parent.isSampled ? begin(name, parent, options) : new UnsampledSpan(parent)),
    async close() {
      const late = new Promise<void>((resolve) => setTimeout(resolve, closeMs).unref());
      await Promise.race([provider.shutdown().catch(() => {}), late]);
    },
  };
}

function logProblems(log: TracedProcess["log"]): void {
  let quietUntilMs = Number.NEGATIVE_INFINITY;
  const warn = (detail: string): void => {
    const nowMs = performance.now();
    if (nowMs < quietUntilMs) return;
    quietUntilMs = nowMs + warnEveryMs;
    log.warn({ detail: detail.slice(0, 1000) }, "could not export traces; this is logged once a minute");
  };
  const ignore = (): void => {};
  diag.setLogger(
    { error: warn, warn, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

const remote = ({ traceId, spanId, isSampled, state }: TraceContext): Context =>
  trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    isRemote: true,
    traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    ...(state === undefined ? {} : { traceState: createTraceState(state) }),
  });

const flagsOf = ({ isSampled }: TraceContext) => (isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE);

function start(tracer: Tracer, name: string, parent: Context, options: SpanOptions = {}): OtelSpan {
  const { kind, startMs, attributes, links } = options;
  return tracer.startSpan(
    name,
    {
      kind: kind ? kinds[kind] : SpanKind.INTERNAL,
      startTime: startMs ?? performance.now(),
      ...(attributes ? { attributes: defined(attributes) } : {}),
      ...(links
        ? {
            links: links.map((one) => ({
              context: { traceId: one.traceId, spanId: one.spanId, traceFlags: flagsOf(one) },
            })),
          }
        : {}),
    },
    parent,
  );
}

/** The SDK takes undefined values for set ones and warns about them. */
function defined(attributes: SpanAttributes): Attributes {
  for (const key in attributes) if (attributes[key] === undefined) return withoutUndefined(attributes);
  return attributes as Attributes;
}

const withoutUndefined = (attributes: SpanAttributes): Attributes =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined)) as Attributes;

class ExportedSpan implements Span {
  readonly context: TraceContext;
  readonly #tracer: Tracer;
  readonly #span: OtelSpan;

  constructor(tracer: Tracer, span: OtelSpan, state: string | undefined) {
    const { traceId, spanId } = span.spanContext();
    this.context = { traceId, spanId, isSampled: true, ...(state === undefined ? {} : { state }) };
    this.#tracer = tracer;
    this.#span = span;
  }

  child(name: string, options?: SpanOptions): Span {
    const parent = trace.setSpan(ROOT_CONTEXT, this.#span);
    return new ExportedSpan(this.#tracer, start(this.#tracer, name, parent, options), this.context.state);
  }

  rename(name: string): void {
    this.#span.updateName(name);
  }

  set(attributes: SpanAttributes): void {
    this.#span.setAttributes(defined(attributes));
  }

  end({ endMs, error }: SpanEnd = {}): void {
    if (error !== undefined) {
      this.#span.setAttribute("error.type", error);
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end(endMs ?? performance.now());
  }
}

class UnsampledSpan implements Span {
  readonly context: TraceContext;

  constructor(context: TraceContext) {
    this.context = context;
  }

  child(): undefined {}
  rename(): void {}
  set(): void {}
  end(): void {}
}
